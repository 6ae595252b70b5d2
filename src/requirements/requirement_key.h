#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace harmonaize {

/// What the value of a requirement is.
enum class RequirementKind : uint8_t {
  kText,         ///< A name or sentence, of `most` bytes at most, that CleanText leaves as it is.
  kChoice,       ///< One of the key's `choices`.
  kChoices,      ///< A list of its `choices`, each once.
  kYesNo,        ///< true or false.
  kCount,        ///< A whole number from `least` to `most`.
  kNumber,       ///< A number from `least` to `most`.
  kCountRange,   ///< Two whole numbers, the smaller one first: [8, 64].
  kNumberRange,  ///< Two numbers, likewise.
  kDuration,     ///< A duration with its unit, from `least` to `most` seconds.
  kRate,         ///< A rate with its unit, from `least` to `most` bytes per second.
  kSize,         ///< A size with its unit, from `least` to `most` bytes.
  kSizeRange,    ///< Two sizes, the smaller one first.
  kTime,         ///< A date and time with its offset from UTC, within kTimeBounds.
};

/// One thing that a tenant may say of a job. docs/requirements.md lists all of them.
struct RequirementKey {
  std::string_view name;  ///< With its table: "collectives.priority".
  RequirementKind kind;
  std::string_view meaning;  ///< One sentence for people, which ends in a full stop.
  double least = 0;          ///< By the kind.
  double most = 0;
  std::string_view choices = {};  ///< With spaces between them.
  /// Whether nothing follows from it yet: it is checked and kept.
  bool is_kept_only = false;
};

/// Returns all keys outside of lists of tables, those of one table together.
std::span<const RequirementKey> RequirementKeys();

/// Returns the keys of [collectives], by their names in it.
std::span<const RequirementKey> CollectiveKeys();

/// Returns the keys of one [[collectives.override]], by their names in it: what it applies to, and
/// any of the keys of [collectives].
std::span<const RequirementKey> OverrideKeys();

/// Returns the keys of one [[market.launch]], by their names in it.
std::span<const RequirementKey> LaunchKeys();

/// Returns what a table of requirements is about, or "": one sentence for people.
std::string_view MeaningOfTable(std::string_view table);

/// Most bytes of a document: it is read again at each change, and by daemons of all the job's
/// hosts.
inline constexpr size_t kMostRequirementsBytes = 64 * 1024;
/// Most levels of tables and lists, as TomlDepth counts them: readers call themselves for each.
inline constexpr int kMostRequirementsDepth = 16;
/// Most [[collectives.override]] and [[market.launch]] each: each operation of a new size class is
/// compared with all overrides.
inline constexpr size_t kMostOverrides = 64;
inline constexpr size_t kMostLaunches = 64;

/// The lists of tables.
inline constexpr std::string_view kOverrideList = "collectives.override";
inline constexpr std::string_view kLaunchList = "market.launch";

}  // namespace harmonaize
