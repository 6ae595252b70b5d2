#pragma once

#include <fmt/core.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace harmonaize {

/// Kind of a failure, by who has to act. Each maps to one NCCL result at the face.
enum class Code : int {
  kOk = 0,
  kInvalidArgument,  ///< A value is wrong by itself (NULL, negative, out of range).
  kInvalidUsage,     ///< A call is wrong in its place: ranks disagree, wrong state, over quota.
  kSystemError,      ///< The operating system refused something that was needed.
  kRemoteError,      ///< A peer, or the daemon, is gone or gave up.
  kInternalError,    ///< A bug of ours.
  kInProgress,       ///< Not an error: not finished yet.
  kUnavailable,      ///< No trusted daemon listens, or it refuses us.
};

/// Returns "invalid argument", ...
const char* CodeName(Code code);

/// A code and, unless it is kOk, a sentence that names the problem and the way out. An ok status is
/// a null pointer, so success costs nothing.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message)
      : failure_(code == Code::kOk ? nullptr : new Failure{code, std::move(message)}) {}
  Status(const Status& other) : failure_(Copy(other)) {}
  Status(Status&&) = default;
  Status& operator=(const Status& other) {
    if (this != &other) failure_ = Copy(other);
    return *this;
  }
  Status& operator=(Status&&) = default;
  ~Status() = default;

  static Status Ok() { return Status(); }

  bool ok() const { return failure_ == nullptr; }
  Code code() const { return ok() ? Code::kOk : failure_->code; }
  /// Returns "" when ok.
  const std::string& message() const { return ok() ? NoMessage() : failure_->message; }
  /// Returns the code and the message: "invalid usage: ranks disagree ..."
  std::string ToString() const;

 private:
  struct Failure {
    Code code;
    std::string message;
  };
  static std::unique_ptr<Failure> Copy(const Status& other) {
    return other.ok() ? nullptr : std::make_unique<Failure>(*other.failure_);
  }
  static const std::string& NoMessage();

  std::unique_ptr<Failure> failure_;
};

/// Returns a Status with the formatted message. It is not a template, so that callers do not
/// compile the formatting.
Status FormatStatus(Code code, fmt::string_view format, fmt::format_args args);

template <typename... Args>
Status InvalidArgument(fmt::format_string<Args...> format, Args&&... args) {
  return FormatStatus(Code::kInvalidArgument, format, fmt::make_format_args(args...));
}
template <typename... Args>
Status InvalidUsage(fmt::format_string<Args...> format, Args&&... args) {
  return FormatStatus(Code::kInvalidUsage, format, fmt::make_format_args(args...));
}
template <typename... Args>
Status RemoteError(fmt::format_string<Args...> format, Args&&... args) {
  return FormatStatus(Code::kRemoteError, format, fmt::make_format_args(args...));
}
template <typename... Args>
Status InternalError(fmt::format_string<Args...> format, Args&&... args) {
  return FormatStatus(Code::kInternalError, format, fmt::make_format_args(args...));
}
template <typename... Args>
Status Unavailable(fmt::format_string<Args...> format, Args&&... args) {
  return FormatStatus(Code::kUnavailable, format, fmt::make_format_args(args...));
}
template <typename... Args>
Status SystemError(fmt::format_string<Args...> format, Args&&... args) {
  return FormatStatus(Code::kSystemError, format, fmt::make_format_args(args...));
}

/// Returns a system error that ends in errno's text: "cannot open /x: No such file or directory".
Status ErrnoError(int error_number, std::string what);

/// A T, or the Status that tells why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }
  T& value() & { return value_.value(); }
  const T& value() const& { return value_.value(); }
  T&& value() && { return std::move(value_).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }

 private:
  // A variant of both would take compilers five times as long.
  Status status_;
  std::optional<T> value_;
};

}  // namespace harmonaize

/// Returns from the function with the Status that EXPRESSION gives, unless it is ok.
#define HZ_RETURN_IF_ERROR(expression)                                    \
  do {                                                                    \
    if (::harmonaize::Status hz_status = (expression); !hz_status.ok()) { \
      return hz_status;                                                   \
    }                                                                     \
  } while (false)

/// Declares a variable with the value of the Result that the expression gives, or leaves the
/// function with the Result's Status: HZ_ASSIGN_OR_RETURN(const int port, ParsePort(text)). A type
/// with a comma is written as auto.
#define HZ_ASSIGN_OR_RETURN(declaration, ...) \
  HZ_ASSIGN_OR_RETURN_AS(HZ_JOIN_TOKENS(hz_result_, __LINE__), declaration, __VA_ARGS__)
#define HZ_ASSIGN_OR_RETURN_AS(result, declaration, ...) \
  auto result = (__VA_ARGS__);                           \
  if (!result.ok()) return result.status();              \
  declaration = std::move(result).value()
#define HZ_JOIN_TOKENS(first, second) HZ_JOIN_TOKENS_EXPANDED(first, second)
#define HZ_JOIN_TOKENS_EXPANDED(first, second) first##second
