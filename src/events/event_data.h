#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "src/base/status.h"
#include "src/events/event_fields.h"
#include "src/events/event_type.h"

namespace harmonaize {

/// Name of a field and the kind of its values, so that neither a misspelt name nor a value of
/// another kind compiles.
template <FieldKind kind>
struct FieldKey {
  std::string_view name;
};

namespace fields {

inline constexpr FieldKey<FieldKind::kRanks> kRanks{"ranks"};
inline constexpr FieldKey<FieldKind::kCount> kRanksUnlisted{"ranks_unlisted"};
inline constexpr FieldKey<FieldKind::kCount> kRankCount{"rank_count"};
inline constexpr FieldKey<FieldKind::kCount> kRanksBefore{"ranks_before"};
inline constexpr FieldKey<FieldKind::kCount> kRanksAfter{"ranks_after"};
inline constexpr FieldKey<FieldKind::kRanks> kRootRanks{"root_ranks"};
inline constexpr FieldKey<FieldKind::kName> kCommunicator{"communicator"};
inline constexpr FieldKey<FieldKind::kName> kRootCommunicator{"root_communicator"};
inline constexpr FieldKey<FieldKind::kNames> kCommunicators{"communicators"};
inline constexpr FieldKey<FieldKind::kCount> kCommunicatorsUnlisted{"communicators_unlisted"};
inline constexpr FieldKey<FieldKind::kName> kOperation{"operation"};
inline constexpr FieldKey<FieldKind::kName> kCollective{"collective"};
inline constexpr FieldKey<FieldKind::kName> kOffer{"offer"};
inline constexpr FieldKey<FieldKind::kTime> kDue{"due"};
inline constexpr FieldKey<FieldKind::kCount> kRound{"round"};
inline constexpr FieldKey<FieldKind::kChoice> kBrokenBy{"broken_by"};
inline constexpr FieldKey<FieldKind::kSentence> kReason{"reason"};
inline constexpr FieldKey<FieldKind::kName> kMaintenance{"maintenance"};
inline constexpr FieldKey<FieldKind::kName> kRequirement{"requirement"};
inline constexpr FieldKey<FieldKind::kName> kEvent{"event"};
inline constexpr FieldKey<FieldKind::kChoice> kAnswer{"answer"};
inline constexpr FieldKey<FieldKind::kTime> kAskedUntil{"asked_until"};
inline constexpr FieldKey<FieldKind::kAsked> kAsked{"asked"};
inline constexpr FieldKey<FieldKind::kChoice> kWhy{"why"};
inline constexpr FieldKey<FieldKind::kChoice> kKind{"kind"};
inline constexpr FieldKey<FieldKind::kChoice> kClass{"class"};
inline constexpr FieldKey<FieldKind::kChoice> kDoing{"doing"};
inline constexpr FieldKey<FieldKind::kChoice> kState{"state"};
inline constexpr FieldKey<FieldKind::kChoice> kOutcome{"outcome"};
inline constexpr FieldKey<FieldKind::kChoice> kWhere{"where"};
inline constexpr FieldKey<FieldKind::kChoice> kSetting{"setting"};
inline constexpr FieldKey<FieldKind::kChoice> kUnit{"unit"};
inline constexpr FieldKey<FieldKind::kChoice> kRecommendedAction{"recommended_action"};
inline constexpr FieldKey<FieldKind::kChoice> kFromLevel{"from"};
inline constexpr FieldKey<FieldKind::kChoice> kToLevel{"to"};
inline constexpr FieldKey<FieldKind::kNumber> kFrom{"from"};
inline constexpr FieldKey<FieldKind::kNumber> kTo{"to"};
inline constexpr FieldKey<FieldKind::kNumber> kGranted{"granted"};
inline constexpr FieldKey<FieldKind::kNumber> kMeasured{"measured"};
inline constexpr FieldKey<FieldKind::kNumber> kPrice{"price"};
inline constexpr FieldKey<FieldKind::kTime> kDeadline{"deadline"};
inline constexpr FieldKey<FieldKind::kTime> kSince{"since"};
inline constexpr FieldKey<FieldKind::kTime> kNotBefore{"not_before"};
inline constexpr FieldKey<FieldKind::kTime> kNotAfter{"not_after"};
inline constexpr FieldKey<FieldKind::kSeconds> kNoticeSeconds{"notice_seconds"};
inline constexpr FieldKey<FieldKind::kSeconds> kPromisedNoticeSeconds{"promised_notice_seconds"};
inline constexpr FieldKey<FieldKind::kSeconds> kForSeconds{"for_seconds"};
inline constexpr FieldKey<FieldKind::kSeconds> kDurationSeconds{"duration_seconds"};
inline constexpr FieldKey<FieldKind::kSeconds> kTookSeconds{"took_seconds"};
inline constexpr FieldKey<FieldKind::kSeconds> kStallSeconds{"stall_seconds"};
inline constexpr FieldKey<FieldKind::kSeconds> kPredictedSecondsBefore{"predicted_seconds_before"};
inline constexpr FieldKey<FieldKind::kSeconds> kPredictedSecondsAfter{"predicted_seconds_after"};
inline constexpr FieldKey<FieldKind::kCount> kBytes{"bytes"};
inline constexpr FieldKey<FieldKind::kCount> kStep{"step"};
inline constexpr FieldKey<FieldKind::kCount> kLastSafeStep{"last_safe_step"};
inline constexpr FieldKey<FieldKind::kFactor> kSlowdown{"slowdown"};
inline constexpr FieldKey<FieldKind::kFactor> kLearningRateFactor{"learning_rate_factor"};
inline constexpr FieldKey<FieldKind::kFactor> kGain{"gain"};
inline constexpr FieldKey<FieldKind::kFraction> kConfidence{"confidence"};
inline constexpr FieldKey<FieldKind::kYesNo> kEpochEnd{"epoch_end"};
inline constexpr FieldKey<FieldKind::kYesNo> kFollows{"follows"};
inline constexpr FieldKey<FieldKind::kYesNo> kCanBeMoved{"can_be_moved"};
inline constexpr FieldKey<FieldKind::kYesNo> kCanBeRefused{"can_be_refused"};
inline constexpr FieldKey<FieldKind::kYesNo> kCanBeExtended{"can_be_extended"};
inline constexpr FieldKey<FieldKind::kSentence> kPurpose{"purpose"};
inline constexpr FieldKey<FieldKind::kSentence> kStage{"stage"};
inline constexpr FieldKey<FieldKind::kEstimate> kExpected{"expected"};
inline constexpr FieldKey<FieldKind::kEstimate> kExpectedStep{"expected_step"};

}  // namespace fields

/// An estimate in seconds: it will be below p10 with a probability of 10%, and so on.
struct Quantiles {
  double p10 = 0;
  double p50 = 0;
  double p90 = 0;
};

/// What some ranks asked for, in words.
struct AskedParty {
  std::vector<int32_t> ranks;
  std::string asked;
};

/// Makes the data of one event.
///
///     EventData data(EventType::kRankLate, "rank 3 is late in all-reduce 7 of tp0");
///     data.Set(fields::kRanks, std::vector<int32_t>{3}).Set(fields::kWhy, "stopped");
///     HZ_ASSIGN_OR_RETURN(event.data, data.Finish());
///
/// Names and sentences may be a tenant's: they are cleaned and cut. Of lists that are too long the
/// rest is counted in `ranks_unlisted` or `communicators_unlisted`. Thread: one.
class EventData {
 public:
  /// `text` says all of it in one sentence, for people.
  EventData(EventType type, std::string_view text);
  EventData(EventData&&) noexcept;
  EventData& operator=(EventData&&) noexcept;
  ~EventData();

  EventData& Set(FieldKey<FieldKind::kRanks> key, std::span<const int32_t> ranks);
  EventData& Set(FieldKey<FieldKind::kName> key, std::string_view name);
  EventData& Set(FieldKey<FieldKind::kNames> key, std::span<const std::string> names);
  EventData& Set(FieldKey<FieldKind::kSentence> key, std::string_view sentence);
  EventData& Set(FieldKey<FieldKind::kChoice> key, std::string_view choice);
  /// `unix_ns` is in nanoseconds since 1970.
  EventData& Set(FieldKey<FieldKind::kTime> key, int64_t unix_ns);
  EventData& Set(FieldKey<FieldKind::kSeconds> key, double seconds);
  EventData& Set(FieldKey<FieldKind::kCount> key, uint64_t count);
  EventData& Set(FieldKey<FieldKind::kFraction> key, double fraction);
  EventData& Set(FieldKey<FieldKind::kFactor> key, double factor);
  EventData& Set(FieldKey<FieldKind::kNumber> key, double number);
  EventData& Set(FieldKey<FieldKind::kYesNo> key, bool yes);
  EventData& Set(FieldKey<FieldKind::kEstimate> key, Quantiles quantiles);
  EventData& Set(FieldKey<FieldKind::kAsked> key, std::span<const AskedParty> parties);

  /// Returns the data as JSON, in one line. Errors: kInternalError, with the field, if the data
  /// does not fit the type's schema.
  Result<std::string> Finish() const;

 private:
  EventData& Put(std::string_view name, nlohmann::ordered_json value);

  EventType type_;
  std::unique_ptr<nlohmann::ordered_json> data_;
};

/// Returns what `data` holds, in one line, if it is a JSON object that fits the type's schema and
/// has no field besides. Errors: kInvalidArgument names the field, what it should be, and for an
/// unknown field the nearest that exists.
Result<std::string> CheckedEventData(EventType type, std::string_view data);
/// Does the same for the data of another daemon, which may be of a newer build: fields that this
/// one does not know are left out. Errors: kInvalidArgument.
Result<std::string> KnownEventData(EventType type, std::string_view data);

}  // namespace harmonaize
