#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"

namespace harmonaize::daemon {

/// Reads the fields of a record's JSON object. After the first field that is missing or of another
/// kind, `good` is false. Nothing throws. Thread: one.
class RecordFields {
 public:
  explicit RecordFields(const std::string& text)
      : object_(ReadJson(text)), good_(object_.is_object()) {}

  /// A time in seconds since 1970, or 0.
  double Seconds(const char* name) {
    const nlohmann::json* const value = Find(name);
    if (!Expect(value != nullptr && value->is_number())) return 0;
    const double seconds = value->get<double>();
    return Expect(std::isfinite(seconds) && seconds >= 0 && seconds < kMostSeconds) ? seconds : 0;
  }
  /// Returns whether the record has the field: one that an earlier daemon has made may lack it.
  bool Has(const char* name) const { return Find(name) != nullptr; }
  uint64_t Count(const char* name) {
    const nlohmann::json* const value = Find(name);
    return Expect(value != nullptr && value->is_number_unsigned()) ? value->get<uint64_t>() : 0;
  }
  bool YesNo(const char* name) {
    const nlohmann::json* const value = Find(name);
    return Expect(value != nullptr && value->is_boolean()) && value->get<bool>();
  }
  std::string Text(const char* name, size_t most_bytes) {
    const nlohmann::json* const value = Find(name);
    if (!Expect(value != nullptr && value->is_string())) return {};
    const std::string& text = value->get_ref<const std::string&>();
    return Expect(text.size() <= most_bytes) ? text : std::string();
  }
  /// Returns the value of a list; an empty list if it is none.
  const nlohmann::json& List(const char* name) {
    static const nlohmann::json kNone = nlohmann::json::array();
    const nlohmann::json* const value = Find(name);
    return Expect(value != nullptr && value->is_array()) ? *value : kNone;
  }

  /// Notes that the record is wrong unless `holds`, which it returns.
  bool Expect(bool holds) {
    good_ = good_ && holds;
    return good_;
  }
  bool good() const { return good_; }

 private:
  /// Largest time that is believed: the year 9999, which texts of times end with.
  static constexpr double kMostSeconds = 253402300800.0;

  const nlohmann::json* Find(const char* name) const {
    if (!good_) return nullptr;
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }

  const nlohmann::json object_;
  bool good_;
};

}  // namespace harmonaize::daemon
