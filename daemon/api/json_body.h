#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// Returns a document as text, with whatever is not UTF-8 replaced.
std::string DumpJson(const nlohmann::json& document);

/// The JSON object in a request's body. After the first field that is wrong, `status` names it and
/// the others are not read. Thread: one.
class JsonBody {
 public:
  /// Reads an object of these fields alone. Errors, as of all that follows: kInvalidArgument, which
  /// names the field, what it should be, and for an unknown one the nearest that exists.
  JsonBody(std::string_view body, std::span<const std::string_view> fields);

  // Each of these returns nullopt if the body lacks the field, or if there is an error.

  std::optional<std::string> Text(std::string_view field, size_t most_bytes);
  std::optional<double> Number(std::string_view field, double least, double most);
  std::optional<bool> YesNo(std::string_view field);
  /// A time as RFC 3339 has it, in nanoseconds since 1970.
  std::optional<int64_t> Time(std::string_view field);
  /// Returns whether the body has the field with the value null, which the others read as lacking.
  bool IsNull(std::string_view field) const;
  /// Returns the field as it is.
  std::optional<nlohmann::json> Any(std::string_view field);

  /// Notes that a field that the body lacks is needed.
  void Need(std::string_view field, std::string_view what);
  void Fail(Status why);
  const Status& status() const { return status_; }

 private:
  static Result<nlohmann::json> Parse(std::string_view body,
                                      std::span<const std::string_view> fields);
  const nlohmann::json* Find(std::string_view field) const;

  nlohmann::json object_;
  Status status_;
};

}  // namespace harmonaize::daemon
