#include "src/events/event_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "src/base/clean_text.h"
#include "src/base/json_text.h"
#include "src/base/names.h"
#include "src/base/time_text.h"
#include "src/base/words.h"
#include "src/events/event.h"

namespace harmonaize {
namespace {

using nlohmann::ordered_json;

/// Deepest nesting of data that fits a schema: lists of ranks within those of kAsked.
constexpr int kMostDepth = 4;
/// Bounds the names in the whole of an event's data. It is above what any schema allows, and keeps
/// ordered_json, which looks through all names of an object for each, from taking long.
constexpr int kMostNames = 256;

// ---------------------------------------------------------------------------------------------
// Whether values are of their kind

bool IsNumber(const ordered_json& value, double least) {
  if (!value.is_number()) return false;
  const double number = value.get<double>();
  return std::isfinite(number) && number >= least;
}

bool IsCount(const ordered_json& value) {
  return value.is_number_unsigned() || (value.is_number_integer() && value.get<int64_t>() >= 0);
}

/// Returns whether it is a text of 1 to `most` characters. In UTF-8 each character has one byte
/// that is not a following one.
bool IsText(const ordered_json& value, size_t most) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  const auto begins = [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; };
  const auto characters = static_cast<size_t>(std::count_if(text.begin(), text.end(), begins));
  return !text.empty() && characters <= most;
}

bool IsListOf(const ordered_json& value, size_t most, bool (*is_item)(const ordered_json&)) {
  return value.is_array() && !value.empty() && value.size() <= most &&
         std::all_of(value.begin(), value.end(), is_item);
}

bool IsRanks(const ordered_json& value, size_t most) {
  if (!IsListOf(value, most, IsCount)) return false;
  std::set<uint64_t> ranks;
  for (const ordered_json& rank : value) ranks.insert(rank.get<uint64_t>());
  return ranks.size() == value.size();
}

bool IsName(const ordered_json& value) {
  return IsText(value, kMostNameLength);
}

bool IsChoice(const ordered_json& value, const EventField& field) {
  if (!value.is_string()) return false;
  bool found = false;
  ForEachWord(field.choices, [&](std::string_view choice) {
    found = found || value.get_ref<const std::string&>() == choice;
  });
  return found;
}

/// Returns whether it is a time as TimeText writes it, with any number of digits of a second.
bool IsTime(const ordered_json& value) {
  if (!value.is_string()) return false;
  constexpr std::string_view kForm = "0000-00-00T00:00:00";
  const std::string_view text = value.get_ref<const std::string&>();
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.size() <= kForm.size() || text.back() != 'Z') return false;
  for (size_t i = 0; i < kForm.size(); ++i) {
    if (kForm[i] == '0' ? !is_digit(text[i]) : text[i] != kForm[i]) return false;
  }
  const std::string_view rest = text.substr(kForm.size(), text.size() - kForm.size() - 1);
  return rest.empty() || (rest.size() > 1 && rest.size() <= 10 && rest.front() == '.' &&
                          std::all_of(rest.begin() + 1, rest.end(), is_digit));
}

bool IsEstimate(const ordered_json& value) {
  if (!value.is_object() || value.size() != 3) return false;
  double before = 0;
  for (const char* const key : {"p10", "p50", "p90"}) {
    const auto found = value.find(key);
    if (found == value.end() || !IsNumber(*found, before)) return false;
    before = found->get<double>();
  }
  return true;
}

bool IsParty(const ordered_json& value) {
  if (!value.is_object()) return false;
  for (const auto& [key, part] : value.items()) {
    const bool good = key == "ranks"            ? IsRanks(part, kMostRanksOfParty)
                      : key == "ranks_unlisted" ? IsCount(part)
                      : key == "asked"          ? IsName(part)
                                                : false;
    if (!good) return false;
  }
  return value.contains("ranks") && value.contains("asked");
}

bool IsOfKind(const ordered_json& value, const EventField& field) {
  switch (field.kind) {
    case FieldKind::kRanks: return IsRanks(value, kMostListedRanks);
    case FieldKind::kName: return IsName(value);
    case FieldKind::kNames: return IsListOf(value, kMostListedNames, IsName);
    case FieldKind::kSentence: return IsText(value, kMostSentenceLength);
    case FieldKind::kChoice: return IsChoice(value, field);
    case FieldKind::kTime: return IsTime(value);
    case FieldKind::kSeconds: return IsNumber(value, 0);
    case FieldKind::kCount: return IsCount(value);
    case FieldKind::kFraction: return IsNumber(value, 0) && value.get<double>() <= 1;
    case FieldKind::kFactor: return IsNumber(value, 0) && value.get<double>() > 0;
    case FieldKind::kNumber: return IsNumber(value, -INFINITY);
    case FieldKind::kYesNo: return value.is_boolean();
    case FieldKind::kEstimate: return IsEstimate(value);
    case FieldKind::kAsked: return IsListOf(value, kMostAskedParties, IsParty);
  }
  return false;
}

Status UnknownField(EventType type, const std::string& name) {
  std::vector<std::string_view> known;
  for (const EventField& field : FieldsOf(type).fields) known.push_back(field.name);
  const std::string quoted = CleanText(name, 64);
  return InvalidArgument("the data of {} has no field '{}'{}", InfoOf(type).name, quoted,
                         DidYouMean(quoted, known));
}

Status Check(EventType type, const ordered_json& data) {
  for (const auto& [name, value] : data.items()) {
    const EventField* const field = FieldNamed(type, name);
    if (field == nullptr) return UnknownField(type, name);
    if (IsOfKind(value, *field)) continue;
    return InvalidArgument("'{}' of {} is not of its kind ({}{}{})", name, InfoOf(type).name,
                           FieldKindText(field->kind), field->choices.empty() ? "" : ": ",
                           field->choices);
  }
  for (const EventField& field : FieldsOf(type).fields) {
    if (!field.required || data.contains(std::string(field.name))) continue;
    return InvalidArgument("the data of {} lacks '{}'", InfoOf(type).name, field.name);
  }
  return Status::Ok();
}

/// Returns a JSON object of bounded size, whatever its fields.
Result<ordered_json> ParsedData(EventType type, std::string_view data) {
  if (data.size() > kMostEventDataBytes) {
    return InvalidArgument("the data has {} bytes, more than {}", data.size(), kMostEventDataBytes);
  }
  int names = 0;
  bool small = true;
  const auto is_small = [&](int depth, ordered_json::parse_event_t part, ordered_json&) {
    if (part == ordered_json::parse_event_t::key) ++names;
    small = small && depth <= kMostDepth && names <= kMostNames;
    return small;
  };
  ordered_json document = ordered_json::parse(data, is_small, /*allow_exceptions=*/false);
  if (!small || !document.is_object()) {
    return InvalidArgument("the data of {} is no JSON object, or has too many parts",
                           InfoOf(type).name);
  }
  return document;
}

/// Removes the members of an object that `is_known` does not name.
template <typename Known>
void KeepKnown(ordered_json* object, const Known& is_known) {
  for (auto member = object->begin(); member != object->end();) {
    member = is_known(member.key()) ? std::next(member) : object->erase(member);
  }
}

void DropUnknownFields(EventType type, ordered_json* data) {
  KeepKnown(data, [type](const std::string& name) { return FieldNamed(type, name) != nullptr; });
  for (auto& [name, value] : data->items()) {
    if (FieldNamed(type, name)->kind != FieldKind::kAsked || !value.is_array()) continue;
    for (ordered_json& party : value) {
      if (!party.is_object()) continue;
      KeepKnown(&party, [](const std::string& part) {
        return part == "ranks" || part == "ranks_unlisted" || part == "asked";
      });
    }
  }
}

std::string InOneLine(const ordered_json& document) {
  return JsonText(document);
}

/// Returns up to `most` of a list's first items, as JSON.
template <typename T>
ordered_json FirstOf(std::span<const T> items, size_t most) {
  ordered_json list = ordered_json::array();
  for (const T& item : items.first(std::min(items.size(), most))) list.push_back(item);
  return list;
}

}  // namespace

EventData::EventData(EventType type, std::string_view text)
    : type_(type), data_(std::make_unique<ordered_json>(ordered_json::object())) {
  Put("text", CleanText(text, kMostSentenceLength));
}

EventData::EventData(EventData&&) noexcept = default;
EventData& EventData::operator=(EventData&&) noexcept = default;
EventData::~EventData() = default;

EventData& EventData::Put(std::string_view name, ordered_json value) {
  (*data_)[std::string(name)] = std::move(value);
  return *this;
}

EventData& EventData::Set(FieldKey<FieldKind::kRanks> key, std::span<const int32_t> ranks) {
  if (ranks.size() > kMostListedRanks) {
    Set(fields::kRanksUnlisted, ranks.size() - kMostListedRanks);
  }
  return Put(key.name, FirstOf(ranks, kMostListedRanks));
}

EventData& EventData::Set(FieldKey<FieldKind::kName> key, std::string_view name) {
  return Put(key.name, CleanText(name, kMostNameLength));
}

EventData& EventData::Set(FieldKey<FieldKind::kNames> key, std::span<const std::string> names) {
  if (names.size() > kMostListedNames) {
    Set(fields::kCommunicatorsUnlisted, names.size() - kMostListedNames);
  }
  ordered_json list = ordered_json::array();
  for (const std::string& name : names.first(std::min(names.size(), kMostListedNames))) {
    list.push_back(CleanText(name, kMostNameLength));
  }
  return Put(key.name, std::move(list));
}

EventData& EventData::Set(FieldKey<FieldKind::kSentence> key, std::string_view sentence) {
  return Put(key.name, CleanText(sentence, kMostSentenceLength));
}

EventData& EventData::Set(FieldKey<FieldKind::kChoice> key, std::string_view choice) {
  return Put(key.name, choice);
}

EventData& EventData::Set(FieldKey<FieldKind::kTime> key, int64_t unix_ns) {
  return Put(key.name, TimeText(unix_ns));
}

EventData& EventData::Set(FieldKey<FieldKind::kSeconds> key, double seconds) {
  return Put(key.name, seconds);
}

EventData& EventData::Set(FieldKey<FieldKind::kCount> key, uint64_t count) {
  return Put(key.name, count);
}

EventData& EventData::Set(FieldKey<FieldKind::kFraction> key, double fraction) {
  return Put(key.name, fraction);
}

EventData& EventData::Set(FieldKey<FieldKind::kFactor> key, double factor) {
  return Put(key.name, factor);
}

EventData& EventData::Set(FieldKey<FieldKind::kNumber> key, double number) {
  return Put(key.name, number);
}

EventData& EventData::Set(FieldKey<FieldKind::kYesNo> key, bool yes) {
  return Put(key.name, yes);
}

EventData& EventData::Set(FieldKey<FieldKind::kEstimate> key, Quantiles quantiles) {
  return Put(key.name, {{"p10", quantiles.p10}, {"p50", quantiles.p50}, {"p90", quantiles.p90}});
}

EventData& EventData::Set(FieldKey<FieldKind::kAsked> key, std::span<const AskedParty> parties) {
  ordered_json list = ordered_json::array();
  for (const AskedParty& party : parties.first(std::min(parties.size(), kMostAskedParties))) {
    const std::span<const int32_t> ranks = party.ranks;
    ordered_json entry = {{"ranks", FirstOf(ranks, kMostRanksOfParty)}};
    if (ranks.size() > kMostRanksOfParty) {
      entry["ranks_unlisted"] = ranks.size() - kMostRanksOfParty;
    }
    entry["asked"] = CleanText(party.asked, kMostNameLength);
    list.push_back(std::move(entry));
  }
  return Put(key.name, std::move(list));
}

Result<std::string> EventData::Finish() const {
  if (const Status fits = Check(type_, *data_); !fits.ok()) {
    return InternalError("{}", fits.message());
  }
  std::string text = InOneLine(*data_);
  if (text.size() > kMostEventDataBytes) {
    return InternalError("the data of {} has {} bytes, more than {}", InfoOf(type_).name,
                         text.size(), kMostEventDataBytes);
  }
  return text;
}

Result<std::string> CheckedEventData(EventType type, std::string_view data) {
  HZ_ASSIGN_OR_RETURN(const ordered_json document, ParsedData(type, data));
  HZ_RETURN_IF_ERROR(Check(type, document));
  return InOneLine(document);
}

Result<std::string> KnownEventData(EventType type, std::string_view data) {
  HZ_ASSIGN_OR_RETURN(ordered_json document, ParsedData(type, data));
  DropUnknownFields(type, &document);
  HZ_RETURN_IF_ERROR(Check(type, document));
  return InOneLine(document);
}

}  // namespace harmonaize
