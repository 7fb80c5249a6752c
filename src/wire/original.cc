// The messages of the original connector: msgpack maps with field names, as msgspec writes its structs.
#include <algorithm>

#include "base/msgpack_reader.hpp"
#include "base/msgpack_writer.hpp"
#include "wire/messages.hpp"

namespace stagewire::wire {
namespace {

using base::MsgpackReader;
using base::MsgpackToken;
using base::MsgpackType;
using Packer = msgpack::packer<base::VectorSink>;

std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

bool starts_with(std::span<const std::byte> bytes, std::string_view prefix) {
  const auto expected = as_bytes(prefix);
  return bytes.size() >= expected.size() && std::equal(expected.begin(), expected.end(), bytes.begin());
}

// One field that is expected in a map, and where its value goes.
struct Field {
  std::string_view name;
  MsgpackType type;
  MsgpackToken* token;
  bool found = false;
};

Status read_map(std::span<const std::byte> bytes, std::string_view what, std::span<Field> fields) {
  if (bytes.size() > kMaxOriginalSize) {
    return base::error(ErrorCode::corrupt, what, ": ", bytes.size(), " bytes, allowed are ",
                       kMaxOriginalSize);
  }
  MsgpackReader reader(bytes);
  MsgpackToken head;
  if (!reader.next(head)) return reader.why().with_context(what);
  if (head.type != MsgpackType::map) {
    return base::error(ErrorCode::corrupt, what, ": is ", base::to_string(head.type), ", not a map");
  }
  for (std::uint64_t entry = 0; entry < head.number; ++entry) {
    MsgpackToken name;
    if (!reader.next(name)) return reader.why().with_context(what);
    if (name.type != MsgpackType::string) {
      return base::error(ErrorCode::corrupt, what, ": ", base::to_string(name.type), " at offset ",
                         name.offset, " where a field's name is expected");
    }
    const auto field =
        std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == name.text(); });
    const bool known = field != fields.end();
    if (known ? !reader.next(*field->token) : !reader.skip(1)) return reader.why().with_context(what);
    if (!known) continue;
    if (field->token->type != field->type) {
      return base::error(ErrorCode::corrupt, what, ": ", field->name, " is ",
                         base::to_string(field->token->type), " where ", base::to_string(field->type),
                         " is expected");
    }
    field->found = true;
  }
  for (const Field& field : fields) {
    if (!field.found) return base::error(ErrorCode::corrupt, what, ": ", field.name, " is missing");
  }
  if (reader.left() > 0) {
    return base::error(ErrorCode::corrupt, what, ": ", reader.left(), " bytes follow its end");
  }
  return {};
}

Result<std::string> checked_key(std::string_view what, const MsgpackToken& token) {
  if (!token.bytes.empty() && token.bytes.size() <= kMaxKeySize) return std::string(token.text());
  return base::error(ErrorCode::corrupt, what, ": request_id has ", token.bytes.size(),
                     " bytes, allowed are 1 to ", kMaxKeySize);
}

Result<OriginalRequest> decode_query(std::span<const std::byte> bytes) {
  MsgpackToken key;
  Field fields[] = {{"request_id", MsgpackType::string, &key}};
  if (Status status = read_map(bytes, "query", fields); !status) return status.error();
  Result<std::string> request_id = checked_key("query", key);
  if (!request_id) return request_id.error();
  return OriginalRequest(OriginalQuery{*std::move(request_id)});
}

Result<OriginalRequest> decode_pull(std::span<const std::byte> bytes) {
  MsgpackToken key, engine, memory, offset, length;
  Field fields[] = {{"request_id", MsgpackType::string, &key},
                    {"engine_desc_packed", MsgpackType::binary, &engine},
                    {"mem_desc_packed", MsgpackType::binary, &memory},
                    {"dst_offset", MsgpackType::positive, &offset},
                    {"length", MsgpackType::positive, &length}};
  if (Status status = read_map(bytes, "pull", fields); !status) return status.error();
  Result<std::string> request_id = checked_key("pull", key);
  if (!request_id) return request_id.error();
  if (length.number > UINT64_MAX - offset.number) {
    return base::error(ErrorCode::corrupt, "pull: dst_offset ", offset.number, " and length ", length.number,
                       " go past the end of addresses");
  }
  return OriginalRequest(OriginalPull{*std::move(request_id),
                                      {engine.bytes.begin(), engine.bytes.end()},
                                      {memory.bytes.begin(), memory.bytes.end()},
                                      offset.number,
                                      length.number});
}

void pack_key(Packer& packer, const std::string& request_id) {
  base::pack_text(packer, "request_id");
  base::pack_text(packer, request_id);
}

}  // namespace

std::vector<std::byte> encode(const OriginalQuery& query) {
  const auto prefix = as_bytes(kQueryPrefix);
  std::vector<std::byte> out(prefix.begin(), prefix.end());
  base::VectorSink sink(out);
  Packer packer(sink);
  packer.pack_map(1);
  pack_key(packer, query.request_id);
  return out;
}

std::vector<std::byte> encode(const OriginalQueryResponse& response) {
  std::vector<std::byte> out;
  base::VectorSink sink(out);
  Packer packer(sink);
  packer.pack_map(3);
  pack_key(packer, response.request_id);
  base::pack_text(packer, "data_size");
  packer.pack(response.data_size);
  base::pack_text(packer, "is_fast_path");
  packer.pack(response.is_fast_path);
  return out;
}

std::vector<std::byte> encode(const OriginalPull& pull) {
  std::vector<std::byte> out;
  base::VectorSink sink(out);
  Packer packer(sink);
  packer.pack_map(5);
  pack_key(packer, pull.request_id);
  base::pack_text(packer, "engine_desc_packed");
  base::pack_bytes(packer, pull.engine_desc);
  base::pack_text(packer, "mem_desc_packed");
  base::pack_bytes(packer, pull.memory_desc);
  base::pack_text(packer, "dst_offset");
  packer.pack(pull.target_offset);
  base::pack_text(packer, "length");
  packer.pack(pull.length);
  return out;
}

Result<OriginalRequest> decode_original_request(std::span<const std::byte> bytes) {
  return starts_with(bytes, kQueryPrefix) ? decode_query(bytes.subspan(kQueryPrefix.size()))
                                          : decode_pull(bytes);
}

Result<OriginalQueryResponse> decode_original_response(std::span<const std::byte> bytes) {
  if (bytes.size() == kInfoNotFound.size() && starts_with(bytes, kInfoNotFound)) {
    return Error(ErrorCode::not_found, "query: the peer does not have the key");
  }
  MsgpackToken key, size, fast;
  Field fields[] = {{"request_id", MsgpackType::string, &key},
                    {"data_size", MsgpackType::positive, &size},
                    {"is_fast_path", MsgpackType::boolean, &fast}};
  if (Status status = read_map(bytes, "query response", fields); !status) return status.error();
  Result<std::string> request_id = checked_key("query response", key);
  if (!request_id) return request_id.error();
  return OriginalQueryResponse{*std::move(request_id), size.number, fast.number != 0};
}

}  // namespace stagewire::wire
