#include "wire/field_reader.hpp"

#include <algorithm>

namespace stagewire::wire {

using base::MsgpackToken;
using base::MsgpackType;

void FieldReader::open(std::size_t least_count) {
  MsgpackToken token;
  if (!reader_.next(token)) {
    error_ = reader_.why().with_context(what_);
  } else if (token.type != MsgpackType::array) {
    wrong_type("the whole", token, "an array");
  } else if (token.number < least_count) {
    error_ = base::error(ErrorCode::corrupt, what_, ": an array of ", token.number, " where at least ",
                         least_count, " elements are needed");
  } else {
    fields_left_ = static_cast<std::size_t>(token.number);
  }
}

void FieldReader::need(std::size_t fields_left) {
  if (error_ || fields_left_ >= fields_left) return;
  error_ = base::error(ErrorCode::corrupt, what_, ": ", fields_left_, " fields where at least ", fields_left,
                       " are needed");
}

void FieldReader::text(std::string_view field, std::string_view& value, std::size_t least, std::size_t most) {
  MsgpackToken token;
  if (take(field, MsgpackType::string, token) && in_size(field, token.bytes.size(), least, most))
    value = token.text();
}

void FieldReader::binary(std::string_view field, std::vector<std::byte>& value, std::size_t most) {
  MsgpackToken token;
  if (take(field, MsgpackType::binary, token) && in_size(field, token.bytes.size(), 0, most)) {
    value.assign(token.bytes.begin(), token.bytes.end());
  }
}

void FieldReader::fixed(std::string_view field, std::span<std::byte> value) {
  MsgpackToken token;
  if (take(field, MsgpackType::binary, token) &&
      in_size(field, token.bytes.size(), value.size(), value.size())) {
    std::copy(token.bytes.begin(), token.bytes.end(), value.begin());
  }
}

void FieldReader::flag(std::string_view field, bool& value) {
  MsgpackToken token;
  if (take(field, MsgpackType::boolean, token)) value = token.number != 0;
}

std::size_t FieldReader::list(std::string_view field, std::size_t least, std::size_t most) {
  MsgpackToken token;
  if (!take(field, MsgpackType::array, token)) return 0;
  if (!in_size(field, static_cast<std::size_t>(token.number), least, most)) return 0;
  elements_left_ += static_cast<std::size_t>(token.number);
  return static_cast<std::size_t>(token.number);
}

void FieldReader::fail(std::string_view field, std::string_view problem) {
  if (!error_) error_ = base::error(ErrorCode::corrupt, what_, ": ", field, ' ', problem);
}

Status FieldReader::close() {
  if (!error_ && !reader_.skip(fields_left_)) error_ = reader_.why().with_context(what_);
  if (!error_ && reader_.left() > 0) {
    error_ = base::error(ErrorCode::corrupt, what_, ": ", reader_.left(), " bytes follow its end at offset ",
                         reader_.offset());
  }
  if (error_) return *error_;
  return {};
}

bool FieldReader::take(std::string_view field, MsgpackToken& token) {
  if (error_ || (elements_left_ == 0 && fields_left_ == 0)) return false;
  if (!reader_.next(token)) {
    error_ = reader_.why().with_context(base::text(what_, ": ", field));
    return false;
  }
  --(elements_left_ > 0 ? elements_left_ : fields_left_);
  return true;
}

bool FieldReader::take(std::string_view field, MsgpackType type, MsgpackToken& token) {
  if (!take(field, token)) return false;
  if (token.type != type) wrong_type(field, token, base::to_string(type));
  return !error_.has_value();
}

bool FieldReader::in_size(std::string_view field, std::size_t size, std::size_t least, std::size_t most) {
  if (size >= least && size <= most) return true;
  error_ = base::error(ErrorCode::corrupt, what_, ": ", field, " has size ", size, ", allowed are ", least,
                       " to ", most);
  return false;
}

void FieldReader::out_of_range(std::string_view field, const MsgpackToken& token) {
  error_ =
      token.type == MsgpackType::negative
          ? base::error(ErrorCode::corrupt, what_, ": ", field, ' ', token.negative, " is out of its range")
          : base::error(ErrorCode::corrupt, what_, ": ", field, ' ', token.number, " is out of its range");
}

void FieldReader::wrong_type(std::string_view field, const MsgpackToken& token, std::string_view expected) {
  error_ = base::error(ErrorCode::corrupt, what_, ": ", field, " is ", base::to_string(token.type),
                       " at offset ", token.offset, " where ", expected, " is expected");
}

}  // namespace stagewire::wire
