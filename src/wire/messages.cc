#include "wire/messages.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "base/msgpack_writer.hpp"
#include "wire/field_reader.hpp"

namespace stagewire::wire {
namespace {

using Packer = msgpack::packer<base::VectorSink>;

constexpr std::array<std::byte, 4> kMagic{std::byte{'S'}, std::byte{'W'}, std::byte{'1'}, std::byte{0}};

// The first element of each message: its place in Message, from 1.
template <typename T, std::size_t index = 0>
constexpr std::uint32_t type_of() {
  if constexpr (std::is_same_v<T, std::variant_alternative_t<index, Message>>) {
    return index + 1;
  } else {
    return type_of<T, index + 1>();
  }
}

template <typename T>
void open(Packer& packer, std::uint32_t field_count) {
  packer.pack_array(field_count + 1);
  packer.pack(type_of<T>());
}

void pack_reason(Packer& packer, const std::string& reason) {
  base::pack_text(packer, std::string_view(reason).substr(0, kMaxReasonSize));
}

void write(Packer& packer, const Hello& message) {
  open<Hello>(packer, 5);
  packer.pack(message.protocol);
  base::pack_bytes(packer, message.engine);
  base::pack_bytes(packer, message.pool);
  packer.pack(message.lease_limit);
  packer.pack(message.wants_reply);
}

void write(Packer& packer, const Watch& message) {
  open<Watch>(packer, 6);
  base::pack_text(packer, message.key);
  packer.pack(message.answer_now);
  packer.pack(message.eager);
  packer.pack(message.wake);
  packer.pack(message.again);
  packer.pack(message.watch);
}

void write(Packer& packer, const Unwatch& message) {
  open<Unwatch>(packer, 3);
  base::pack_text(packer, message.key);
  packer.pack(message.watch);
  packer.pack(message.abandoned);
}

void write(Packer& packer, const Ready& message) {
  open<Ready>(packer, 9);
  base::pack_text(packer, message.key);
  packer.pack(message.lease);
  packer.pack(message.offset);
  packer.pack(message.size);
  packer.pack(static_cast<std::uint32_t>(message.kind));
  packer.pack(message.dtype);
  packer.pack_array(static_cast<std::uint32_t>(message.shape.size()));
  for (const std::int64_t dimension : message.shape) packer.pack(dimension);
  packer.pack(message.put_time_ns);
  packer.pack(message.watch);
}

void write(Packer& packer, const Release& message) {
  open<Release>(packer, 2);
  packer.pack(message.lease);
  packer.pack(message.consumed);
}

void write(Packer& packer, const Gone& message) {
  open<Gone>(packer, 4);
  base::pack_text(packer, message.key);
  packer.pack(message.code);
  pack_reason(packer, message.reason);
  packer.pack(message.watch);
}

void write(Packer& packer, const Pull& message) {
  open<Pull>(packer, 5);
  packer.pack(message.id);
  base::pack_text(packer, message.key);
  base::pack_bytes(packer, message.memory);
  packer.pack(message.offset);
  packer.pack(message.size);
}

void write(Packer& packer, const PullDone& message) {
  open<PullDone>(packer, 3);
  packer.pack(message.id);
  packer.pack(message.code);
  pack_reason(packer, message.reason);
}

void write(Packer& packer, const Cancel& message) {
  open<Cancel>(packer, 1);
  packer.pack(message.id);
}

void write(Packer& packer, const Failure& message) {
  open<Failure>(packer, 2);
  packer.pack(message.code);
  pack_reason(packer, message.reason);
}

void write(Packer& packer, const Bye&) {
  open<Bye>(packer, 0);
}

void write(Packer& packer, const Nudge&) {
  open<Nudge>(packer, 0);
}

void write(Packer& packer, const Ping& message) {
  open<Ping>(packer, 1);
  packer.pack(message.id);
}

void write(Packer& packer, const Pong& message) {
  open<Pong>(packer, 1);
  packer.pack(message.id);
}

// --- Reading
// ----------------------------------------------------------------------------------------------------

void key(FieldReader& fields, std::string_view& value) {
  fields.text("key", value, 1, kMaxKeySize);
}

void range(FieldReader& fields, std::uint64_t& offset, std::uint64_t& size) {
  fields.number("offset", offset);
  fields.number("size", size);
  if (size > std::numeric_limits<std::uint64_t>::max() - offset)
    fields.fail("size", "goes past the end of addresses");
}

// A newer peer's code is read as the last one known here, `failed`.
void error_code(FieldReader& fields, std::uint32_t& code, std::uint32_t least) {
  fields.number("code", code, least);
  code = std::min(code, static_cast<std::uint32_t>(ErrorCode::failed));
}

void reason(FieldReader& fields, std::string& value) {
  fields.text("reason", value, 0, kMaxReasonSize);
}

void read(FieldReader& fields, Hello& message) {
  fields.rename("hello");
  fields.need(5);
  fields.number("protocol", message.protocol, std::uint32_t{1});
  fields.binary("engine", message.engine, kMaxDescriptorSize);
  fields.binary("pool", message.pool, kMaxDescriptorSize);
  fields.number("lease_limit", message.lease_limit);
  fields.flag("wants_reply", message.wants_reply);
}

void read(FieldReader& fields, Watch& message) {
  fields.rename("watch");
  fields.need(6);
  key(fields, message.key);
  fields.flag("answer_now", message.answer_now);
  fields.flag("eager", message.eager);
  fields.flag("wake", message.wake);
  fields.flag("again", message.again);
  fields.number("watch", message.watch);
}

void read(FieldReader& fields, Unwatch& message) {
  fields.rename("unwatch");
  fields.need(3);
  key(fields, message.key);
  fields.number("watch", message.watch);
  fields.flag("abandoned", message.abandoned);
}

void read(FieldReader& fields, Ready& message) {
  fields.rename("ready");
  fields.need(9);
  key(fields, message.key);
  fields.number("lease", message.lease);
  range(fields, message.offset, message.size);
  fields.enumeration("kind", message.kind, PayloadKind::object);
  fields.number("dtype", message.dtype, std::uint32_t{0}, static_cast<std::uint32_t>(DType::int4));
  message.shape.resize(fields.list("shape", 0, kMaxDimensions));
  for (std::int64_t& dimension : message.shape) fields.number("dimension", dimension, std::int64_t{0});
  fields.number("put_time_ns", message.put_time_ns);
  fields.number("watch", message.watch);
  if (!fields.ok() || message.kind != PayloadKind::tensor) return;
  const Result<std::uint64_t> size = byte_size(static_cast<DType>(message.dtype), message.shape);
  if (!size || *size != message.size) fields.fail("shape", "and dtype do not give size");
}

void read(FieldReader& fields, Release& message) {
  fields.rename("release");
  fields.need(2);
  fields.number("lease", message.lease);
  fields.flag("consumed", message.consumed);
}

void read(FieldReader& fields, Gone& message) {
  fields.rename("gone");
  fields.need(4);
  key(fields, message.key);
  error_code(fields, message.code, 1);
  reason(fields, message.reason);
  fields.number("watch", message.watch);
}

void read(FieldReader& fields, Pull& message) {
  fields.rename("pull");
  fields.need(5);
  fields.number("id", message.id);
  key(fields, message.key);
  fields.binary("memory", message.memory, kMaxDescriptorSize);
  range(fields, message.offset, message.size);
}

void read(FieldReader& fields, PullDone& message) {
  fields.rename("pull_done");
  fields.need(3);
  fields.number("id", message.id);
  error_code(fields, message.code, 0);
  reason(fields, message.reason);
}

void read(FieldReader& fields, Cancel& message) {
  fields.rename("cancel");
  fields.need(1);
  fields.number("id", message.id);
}

void read(FieldReader& fields, Failure& message) {
  fields.rename("failure");
  fields.need(2);
  error_code(fields, message.code, 1);
  reason(fields, message.reason);
}

void read(FieldReader& fields, Bye&) {
  fields.rename("bye");
}

void read(FieldReader& fields, Nudge&) {
  fields.rename("nudge");
}

void read(FieldReader& fields, Ping& message) {
  fields.rename("ping");
  fields.need(1);
  fields.number("id", message.id);
}

void read(FieldReader& fields, Pong& message) {
  fields.rename("pong");
  fields.need(1);
  fields.number("id", message.id);
}

// Makes the message of this type number and reads it; false when there is none.
template <std::size_t index = 0>
bool read_as(std::uint32_t type, FieldReader& fields, Message& message) {
  if constexpr (index == std::variant_size_v<Message>) {
    return false;
  } else {
    if (type != index + 1) return read_as<index + 1>(type, fields, message);
    read(fields, message.emplace<index>());
    return true;
  }
}

}  // namespace

void encode(const Message& message, std::vector<std::byte>& out) {
  out.insert(out.end(), kMagic.begin(), kMagic.end());
  base::VectorSink sink(out);
  Packer packer(sink);
  std::visit([&packer](const auto& m) { write(packer, m); }, message);
}

bool is_message(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() && std::equal(kMagic.begin(), kMagic.end(), bytes.begin());
}

Result<Message> decode(std::span<const std::byte> bytes) {
  if (!is_message(bytes)) return Error(ErrorCode::corrupt, "message: does not begin with SW1");
  if (bytes.size() > kMaxMessageSize) {
    return base::error(ErrorCode::corrupt, "message: ", bytes.size(), " bytes, allowed are ",
                       kMaxMessageSize);
  }
  FieldReader fields(bytes.subspan(kMagic.size()), "message");
  fields.open(1);
  std::uint32_t type = 0;
  fields.number("type", type);
  Message message;
  const bool known = !fields.ok() || read_as(type, fields, message);
  if (Status status = fields.close(); !status) return status.error();
  if (!known) return base::error(ErrorCode::unsupported, "message type ", type, " is not known here");
  return message;
}

}  // namespace stagewire::wire
