// Errors as values.
//
// Every public function that can fail returns Result<T>; no exception leaves the library. The code says what
// the caller can do, the message says what happened, to which peer, key or region, with the numbers.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#if defined(STAGEWIRE_BUILDING) || defined(__GNUC__)
#define STAGEWIRE_API __attribute__((visibility("default")))
#else
#define STAGEWIRE_API
#endif

namespace stagewire {

/// A closed list, chosen by what the caller can do about it.
enum class ErrorCode : std::uint32_t {
  invalid_argument = 1,  ///< the call or the configuration is wrong: change it
  not_found = 2,         ///< no such key, region, peer or file: it may come later, or never
  timeout = 3,           ///< the deadline passed: trying again is reasonable
  cancelled = 4,         ///< somebody on this side gave up (cancel, abort, abandon)
  unavailable = 5,       ///< the peer is gone or cannot be reached: try again, or another one
  exhausted = 6,         ///< space or another limited thing is used up for now: free some, or raise the limit
  too_large = 7,         ///< can never fit this limit: make it smaller, or raise the limit
  unsupported = 8,       ///< this build or this machine cannot: the message names what is missing
  permission = 9,        ///< access was refused: wrong user, secret, or registration without that access
  corrupt = 10,          ///< bytes from outside do not follow their format: the other side is at fault
  closed = 11,           ///< the object was closed
  conflict = 12,         ///< it exists already, or is in use
  failed = 13,           ///< the system or the hardware refused; the message has its words
};

/// The code's name as it is printed and sent to peers ("timeout").
STAGEWIRE_API std::string_view to_string(ErrorCode code);

class Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  /// "timeout: get of chat-1_0_0@0_1 from tcp://10.0.0.2:50051: nothing after 5000 ms"
  std::string to_string() const { return std::string(stagewire::to_string(code_)) + ": " + message_; }
  /// The same error with the outer context in front: "load deploy.yaml: " + message.
  Error with_context(std::string_view context) const {
    return {code_, std::string(context) + ": " + message_};
  }

 private:
  ErrorCode code_;
  std::string message_;
};

/// A value or an Error. Asking for the one that is not there is a bug and aborts with the error's text.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return *checked(); }
  const T& value() const& { return *const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(*checked()); }
  T* operator->() { return checked(); }
  const T* operator->() const { return const_cast<Result*>(this)->checked(); }
  T& operator*() & { return *checked(); }
  const T& operator*() const& { return *const_cast<Result*>(this)->checked(); }
  T&& operator*() && { return std::move(*checked()); }

  const Error& error() const {
    if (ok()) {
      std::fputs("stagewire: bug: error() of a Result that holds a value\n", stderr);
      std::abort();
    }
    return *std::get_if<1>(&state_);
  }

 private:
  T* checked() {
    if (!ok()) {
      std::fprintf(stderr, "stagewire: bug: value() of a failed Result: %s\n", error().to_string().c_str());
      std::abort();
    }
    return std::get_if<0>(&state_);
  }
  std::variant<T, Error> state_;
};

/// Success, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}
  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    if (ok()) {
      std::fputs("stagewire: bug: error() of a Status that is ok\n", stderr);
      std::abort();
    }
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace stagewire
