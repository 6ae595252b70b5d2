#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "src/events/event_type.h"

namespace harmonaize {

/// What a field of an event's data holds.
enum class FieldKind : uint8_t {
  kRanks,     ///< List of ranks of the job, each once.
  kName,      ///< What the tenant named something, or an id.
  kNames,     ///< List of names.
  kSentence,  ///< For people.
  kChoice,    ///< One of the field's `choices`.
  kTime,      ///< RFC 3339, as TimeText writes it.
  kSeconds,   ///< Number from 0 on.
  kCount,     ///< Whole number from 0 on.
  kFraction,  ///< Number from 0 to 1.
  kFactor,    ///< Number above 0.
  kNumber,    ///< Any number.
  kYesNo,     ///< true or false.
  kEstimate,  ///< {p10, p50, p90}, in seconds.
  kAsked,     ///< List of {ranks, ranks_unlisted, asked}: what these ranks asked for.
};
inline constexpr size_t kFieldKindCount = static_cast<size_t>(FieldKind::kAsked) + 1;

/// Most ranks that one event lists. It bounds an event's size; an event that concerns more says in
/// `ranks_unlisted` how many.
inline constexpr size_t kMostListedRanks = 2048;
/// Most names in one list. It bounds an event's size; an event that concerns more says in
/// `communicators_unlisted` how many.
inline constexpr size_t kMostListedNames = 16;
/// Most parties that kAsked lists, and most ranks that it lists of one of them. They bound an
/// event's size; who reads it looks for the few ranks that differ.
inline constexpr size_t kMostAskedParties = 16;
inline constexpr size_t kMostRanksOfParty = 128;
/// Longest name, in characters: as long as any name of a communicator.
inline constexpr size_t kMostNameLength = 256;
/// Longest sentence for people, in characters.
inline constexpr size_t kMostSentenceLength = 1024;

/// A field of an event's data.
struct EventField {
  std::string_view name;
  FieldKind kind;
  std::string_view meaning;  ///< One sentence for people, which ends in a full stop.
  bool required = false;
  std::string_view choices = {};  ///< Of kChoice: the values, with spaces between them.
};

/// What is known of the fields of one type.
struct EventFields {
  std::span<const EventField> fields;
  /// What events of the type deliberately do not say, for people: one or two sentences.
  std::string_view not_said;
};

/// Returns the fields of a type's data, in the order in which people read them. `text` is the last
/// and always there.
const EventFields& FieldsOf(EventType type);

/// Returns the field of this name; nullptr if the type has none.
const EventField* FieldNamed(EventType type, std::string_view name);

/// Returns the kind in words, such as "list of ranks".
std::string_view FieldKindText(FieldKind kind);

}  // namespace harmonaize
