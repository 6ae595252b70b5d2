#include "src/requirements/requirements.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "src/base/clean_text.h"
#include "src/base/toml_depth.h"
#include "src/base/words.h"

namespace harmonaize {
namespace {

/// Reads the values of some keys, which the document has below `prefix`.
class TableReader {
 public:
  TableReader(TomlReader& reader, std::string prefix)
      : reader_(reader), prefix_(std::move(prefix)) {}

  RequirementTable Read(std::span<const RequirementKey> keys) {
    RequirementTable table;
    for (const RequirementKey& key : keys) {
      std::optional<RequirementValue> value = Read(key, prefix_ + std::string(key.name));
      if (value) table.emplace(key.name, *std::move(value));
    }
    return table;
  }

 private:
  std::optional<RequirementValue> Read(const RequirementKey& key, const std::string& full) {
    if (!reader_.Has(full)) {
      reader_.Know(full);
      return std::nullopt;
    }
    const auto least = static_cast<int64_t>(key.least);
    const auto most = static_cast<int64_t>(key.most);
    // What is wrong with a value is kept by the reader.
    switch (key.kind) {
      case RequirementKind::kText: return Text(key, full);
      case RequirementKind::kChoice: {
        std::string value;
        reader_.Choice(full, ChoicesOf(key), &value);
        return value;
      }
      case RequirementKind::kChoices: {
        std::vector<std::string> value;
        reader_.Choices(full, ChoicesOf(key), &value);
        return value;
      }
      case RequirementKind::kYesNo: {
        bool value = false;
        reader_.Boolean(full, &value);
        return value;
      }
      case RequirementKind::kCount: {
        int64_t value = 0;
        reader_.Integer(full, least, most, &value);
        return value;
      }
      case RequirementKind::kNumber: {
        double value = 0;
        reader_.Number(full, key.least, key.most, &value);
        return value;
      }
      case RequirementKind::kTime: {
        double value = 0;
        reader_.Time(full, &value);
        return value;
      }
      case RequirementKind::kDuration: return Measured(key, full, Measure::kDuration);
      case RequirementKind::kRate: return Measured(key, full, Measure::kRate);
      case RequirementKind::kSize: return Measured(key, full, Measure::kSize);
      case RequirementKind::kCountRange: {
        ValueRange value;
        reader_.IntegerRange(full, least, most, &value);
        return value;
      }
      case RequirementKind::kNumberRange: {
        ValueRange value;
        reader_.NumberRange(full, key.least, key.most, &value);
        return value;
      }
      case RequirementKind::kSizeRange: {
        ValueRange value;
        reader_.MeasuredRange(full, Measure::kSize, key.least, key.most, &value);
        return value;
      }
    }
    return std::nullopt;
  }

  RequirementValue Text(const RequirementKey& key, const std::string& full) {
    std::string value;
    reader_.String(full, &value);
    if (value.size() > static_cast<size_t>(key.most)) {
      reader_.Reject(full, fmt::format("'{}' has more than {} bytes", full, key.most));
    } else if (value.empty()) {
      reader_.Reject(full, fmt::format("'{}' must be a text of 1 to {} bytes", full, key.most));
    } else if (CleanText(value, value.size()) != value) {
      reader_.Reject(full, fmt::format("'{}' must be one line without control characters and "
                                       "without invisible ones that change how others are shown",
                                       full));
    }
    return value;
  }

  RequirementValue Measured(const RequirementKey& key, const std::string& full, Measure measure) {
    double value = 0;
    reader_.Measured(full, measure, key.least, key.most, &value);
    return value;
  }

  static std::vector<std::string_view> ChoicesOf(const RequirementKey& key) {
    std::vector<std::string_view> choices;
    ForEachWord(key.choices, [&](std::string_view choice) { choices.push_back(choice); });
    return choices;
  }

  TomlReader& reader_;
  const std::string prefix_;
};

std::vector<RequirementTable> ReadList(TomlReader& reader, std::string_view list, size_t most,
                                       std::span<const RequirementKey> keys) {
  std::vector<RequirementTable> tables;
  const size_t count = reader.Tables(list);
  if (count > most) {
    reader.Reject(list, fmt::format("there are {} [[{}]], and {} are the most", count, list, most));
    return tables;
  }
  for (size_t i = 0; i < count; ++i) {
    tables.push_back(TableReader(reader, fmt::format("{}[{}].", list, i)).Read(keys));
  }
  return tables;
}

// ---------------------------------------------------------------------------------------------
// What a value may say only beside others

/// Returns the number of a range's or number's key, where it is said.
std::optional<double> NumberIn(const RequirementTable& table, std::string_view key) {
  const auto found = table.find(key);
  if (found == table.end()) return std::nullopt;
  if (const double* number = std::get_if<double>(&found->second)) return *number;
  if (const int64_t* count = std::get_if<int64_t>(&found->second)) {
    return static_cast<double>(*count);
  }
  return std::nullopt;
}

void RejectIfAbove(TomlReader& reader, const RequirementTable& table, const std::string& prefix,
                   std::string_view lower, std::string_view upper) {
  const std::optional<double> least = NumberIn(table, lower);
  const std::optional<double> most = NumberIn(table, upper);
  if (least && most && *least > *most) {
    reader.Reject(prefix + std::string(lower),
                  fmt::format("'{0}{1}' must not be above '{0}{2}'", prefix, lower, upper));
  }
}

void CheckCollectives(TomlReader& reader, const RequirementTable& table, const std::string& prefix,
                      const std::string& names) {
  RejectIfAbove(reader, table, prefix, names + "bandwidth_floor", names + "bandwidth_cap");
  const auto allow = table.find(names + "algorithms.allow");
  const auto forbid = table.find(names + "algorithms.forbid");
  if (allow == table.end() || forbid == table.end()) return;
  const auto& allowed = std::get<std::vector<std::string>>(allow->second);
  const auto& forbidden = std::get<std::vector<std::string>>(forbid->second);
  for (const std::string& name : allowed) {
    if (std::find(forbidden.begin(), forbidden.end(), name) == forbidden.end()) return;
  }
  reader.Reject(prefix + names + "algorithms.allow",
                fmt::format("'{0}{1}algorithms.forbid' leaves none of those that "
                            "'{0}{1}algorithms.allow' allows",
                            prefix, names));
}

// Links are shared by communicators: their traffic is not told apart by operations.
void CheckSharing(TomlReader& reader, const RequirementTable& table, const std::string& prefix) {
  if (!table.contains("collective") && !table.contains("sizes")) return;
  for (const std::string_view key : {"priority", "bandwidth_floor", "bandwidth_cap"}) {
    if (!table.contains(key)) continue;
    reader.Reject(prefix + std::string(key),
                  fmt::format("'{0}{1}' holds for communicators as a whole, so it must not stand "
                              "beside '{0}collective' or '{0}sizes'",
                              prefix, key));
  }
}

void CheckTogether(TomlReader& reader, const Requirements& requirements) {
  const RequirementTable& values = requirements.values;
  RejectIfAbove(reader, values, "", "elastic.least_ranks", "elastic.most_ranks");
  RejectIfAbove(reader, values, "", "faults.late_after", "faults.give_up_after");
  CheckCollectives(reader, values, "", "collectives.");
  for (size_t i = 0; i < requirements.overrides.size(); ++i) {
    const std::string prefix = fmt::format("{}[{}].", kOverrideList, i);
    CheckCollectives(reader, requirements.overrides[i], prefix, "");
    CheckSharing(reader, requirements.overrides[i], prefix);
  }
}

}  // namespace

RequirementsReading ReadRequirements(std::string_view text, const std::string& name, size_t most) {
  RequirementsReading document;
  if (text.size() > kMostRequirementsBytes) {
    document.mistakes = {InvalidArgument("{}:1:1: the document has more than {} bytes", name,
                                         kMostRequirementsBytes)};
    return document;
  }
  if (TomlDepth(text) > kMostRequirementsDepth) {
    document.mistakes = {
        InvalidArgument("{}:1:1: the document nests tables or lists more than {} deep", name,
                        kMostRequirementsDepth)};
    return document;
  }
  Result<TomlReader> reader = TomlReader::FromString(text, name);
  if (!reader.ok()) {
    document.mistakes = {reader.status()};
    return document;
  }
  Requirements& requirements = document.requirements;
  requirements.values = TableReader(*reader, "").Read(RequirementKeys());
  requirements.overrides = ReadList(*reader, kOverrideList, kMostOverrides, OverrideKeys());
  requirements.launches = ReadList(*reader, kLaunchList, kMostLaunches, LaunchKeys());
  document.mistakes = reader->FinishWithAll(most);
  if (!document.mistakes.empty()) return document;
  CheckTogether(*reader, requirements);
  document.mistakes = reader->FinishWithAll(most);
  return document;
}

Result<Requirements> ParseRequirements(std::string_view text, const std::string& name) {
  RequirementsReading document = ReadRequirements(text, name, 1);
  if (!document.mistakes.empty()) return document.mistakes.front();
  return std::move(document.requirements);
}

Requirements ReadRequirementsAt(TomlReader& reader, const std::string& prefix) {
  return {.values = TableReader(reader, prefix).Read(RequirementKeys()),
          .overrides = {},
          .launches = {}};
}

Requirements Merged(const Requirements& earlier, const Requirements& later) {
  Requirements merged = later;
  merged.values.insert(earlier.values.begin(), earlier.values.end());
  if (merged.overrides.empty()) merged.overrides = earlier.overrides;
  if (merged.launches.empty()) merged.launches = earlier.launches;
  return merged;
}

bool Says(const Requirements& earlier, const Requirements& later) {
  const auto is_said = [&earlier](const auto& key_and_value) {
    const auto found = earlier.values.find(key_and_value.first);
    return found != earlier.values.end() && found->second == key_and_value.second;
  };
  return std::all_of(later.values.begin(), later.values.end(), is_said) &&
         (later.overrides.empty() || later.overrides == earlier.overrides) &&
         (later.launches.empty() || later.launches == earlier.launches);
}

}  // namespace harmonaize
