#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/base/status.h"
#include "src/base/toml_reader.h"
#include "src/requirements/requirement_key.h"

namespace harmonaize {

/// A value by its kind: text and choice; choices; yes or no; whole number; number, duration (in
/// seconds), rate (bytes per second), size (bytes) and time (seconds since 1970); range.
using RequirementValue =
    std::variant<std::string, std::vector<std::string>, bool, int64_t, double, ValueRange>;

/// Values by their keys' names.
using RequirementTable = std::map<std::string, RequirementValue, std::less<>>;

/// What a tenant has said of a job. A plain value; keys that were not said are not there.
struct Requirements {
  /// By names of RequirementKeys.
  RequirementTable values;
  /// What was said of some operations alone, by names of OverrideKeys. Later ones go before
  /// earlier ones.
  std::vector<RequirementTable> overrides;
  /// By names of LaunchKeys.
  std::vector<RequirementTable> launches;

  bool operator==(const Requirements&) const = default;
};

/// Reads a document. `name` stands for it in errors, which give file, line, column, what was
/// expected, and the nearest name that there is. Errors: kInvalidArgument, for the first mistake.
Result<Requirements> ParseRequirements(std::string_view text, const std::string& name);

/// What was read of a document: its requirements, or its mistakes by position.
struct RequirementsReading {
  Requirements requirements;  ///< To be used only where there are no mistakes.
  std::vector<Status> mistakes;
};

/// Reads a document likewise, and tells of its first `most` mistakes.
RequirementsReading ReadRequirements(std::string_view text, const std::string& name, size_t most);

/// Reads the keys of a document, but no lists of tables, as a part of another document: of a table
/// whose name, with a dot, is `prefix`. What is wrong is kept by the reader.
Requirements ReadRequirementsAt(TomlReader& reader, const std::string& prefix);

/// Returns what holds after `later` was said, too: its keys replace earlier ones one by one, and
/// its overrides and launches, if it has any, replace all earlier ones.
Requirements Merged(const Requirements& earlier, const Requirements& later);

/// Returns whether all of `later` holds already, so that Merged would return `earlier`.
bool Says(const Requirements& earlier, const Requirements& later);

/// Returns a document that ParseRequirements reads as the same; numbers with a unit are rounded to
/// six digits.
std::string RequirementsText(const Requirements& requirements);

/// Returns the value as a document has it: "\"30 s\"", "[8, 64]".
std::string RequirementValueText(const RequirementKey& key, const RequirementValue& value);

}  // namespace harmonaize
