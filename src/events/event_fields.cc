#include "src/events/event_fields.h"

#include <iterator>

namespace harmonaize {
namespace {

using enum FieldKind;

constexpr EventField Required(EventField field) {
  field.required = true;
  return field;
}

/// The same field with a meaning of its own in one type.
constexpr EventField Meaning(EventField field, std::string_view meaning) {
  field.meaning = meaning;
  return field;
}

/// The same field with other values.
constexpr EventField OneOf(EventField field, std::string_view choices) {
  field.choices = choices;
  return field;
}

// ---------------------------------------------------------------------------------------------
// Fields that several types have

constexpr EventField kRanksField = {"ranks", kRanks, "Ranks of the job that it concerns."};
constexpr EventField kRanksUnlisted = {
    "ranks_unlisted", kCount, "How many ranks it concerns besides those that `ranks` lists."};
constexpr EventField kCommunicator = {"communicator", kName, "The communicator's name."};
constexpr EventField kCommunicators = {"communicators", kNames,
                                       "Names of the communicators that it concerns."};
constexpr EventField kCommunicatorsUnlisted = {
    "communicators_unlisted", kCount,
    "How many communicators it concerns besides those that `communicators` lists."};
constexpr EventField kOperation = {"operation", kName,
                                   "The operation, with its number in the communicator."};
constexpr EventField kForSeconds = {"for_seconds", kSeconds, "How long it has lasted so far."};
constexpr EventField kDeadline = {"deadline", kTime, "When it happens at the earliest."};
constexpr EventField kNotice = {
    "notice_seconds", kSeconds,
    "Time from the event to the deadline: at least so much is promised."};
constexpr EventField kConfidence = {"confidence", kFraction,
                                    "Probability that it happens, or is so."};
constexpr EventField kAction = {
    "recommended_action", kChoice, "What the provider would do in the job's place.", false,
    "none wait checkpoint checkpoint_and_leave shrink grow move restart accept decline adapt "
    "fix_program"};
constexpr EventField kExpected = {"expected", kEstimate, "Estimate, as quantiles."};
constexpr EventField kSlowdown = {
    "slowdown", kFactor, "How many times as long it takes as it would without: 1 is no slowdown."};
constexpr EventField kOffer = {"offer", kName, "The offer's id."};
constexpr EventField kRankCount = {"rank_count", kCount, "How many ranks."};
constexpr EventField kPrice = {"price", kNumber, "Price of one rank for an hour, in credits."};
constexpr EventField kPurpose = {"purpose", kSentence, "What for, as the provider states it."};
constexpr EventField kMaintenance = {"maintenance", kName,
                                     "An id, the same in all events about one maintenance."};
constexpr EventField kMaintenanceKind = {"kind", kChoice, "What is done to the ranks.", false,
                                         "pause reboot move replace unknown"};
constexpr EventField kStep = {"step", kCount, "The step at which the checkpoint was taken."};
constexpr EventField kPlaceOfCheckpoint = {"where", kChoice, "What kind of place.", false,
                                           "memory peer storage"};
constexpr EventField kCause = {"kind", kChoice, "What is slow, as far as known.", false,
                               "computation communication input unknown"};
constexpr EventField kText =
    Required({"text", kSentence, "All of it in one sentence, for people."});

constexpr std::string_view kUnits = "bytes_per_second seconds fraction operations_per_second";

// ---------------------------------------------------------------------------------------------
// Fields of each type

constexpr EventField kCapacityOfferedFields[] = {
    Required(kOffer),
    Required(kRankCount),
    Meaning(Required(kDeadline), "Until when the offer may be accepted."),
    Meaning(kNotice, "Time from the event to the deadline."),
    {"not_before", kTime, "When the ranks can be had."},
    Meaning(kExpected, "How long the ranks are likely to stay, as quantiles."),
    {"expected_step", kEstimate, "Time of a step with these ranks, as quantiles."},
    kPrice,
    kPurpose,
    Meaning(kConfidence, "Probability that the ranks stay as long as p10 says."),
    kAction,
    kText};
constexpr EventField kCapacityWithdrawnFields[] = {Required(kOffer), kRankCount, kText};
constexpr EventField kCapacityReclaimFields[] = {
    Required(kRanksField),
    kRanksUnlisted,
    Required(kDeadline),
    Required(kNotice),
    kOffer,
    kPurpose,
    {"can_be_refused", kYesNo, "Whether the provider's policy lets the job refuse."},
    {"can_be_extended", kYesNo, "Whether the job may ask for more time."},
    Required(kConfidence),
    kAction,
    kText};
constexpr EventField kCapacityReclaimedFields[] = {
    Required(kRanksField),
    kRanksUnlisted,
    Meaning(kNotice, "Time from the first notice to the end."),
    {"promised_notice_seconds", kSeconds, "Time that had been promised."},
    kText};
constexpr EventField kCapacityForecastFields[] = {
    Required(kRanksField),
    kRanksUnlisted,
    Meaning(kExpected, "How long the ranks are likely to stay, as quantiles; absent: unknown."),
    Meaning(kConfidence, "How often such forecasts have held so far."),
    kAction,
    kText};

constexpr EventField kLevelFrom =
    Required({"from", kChoice, "Level before.", false, "none mild severe"});
constexpr EventField kLevelTo =
    Required({"to", kChoice, "Level from now on.", false, "none mild severe"});
constexpr EventField kCongestionChangedFields[] = {Required(kCommunicator), kLevelFrom, kLevelTo,
                                                   kSlowdown, kText};
constexpr EventField kLinkDegradedFields[] = {Required(kCommunicators), kCommunicatorsUnlisted,
                                              Required(kSlowdown), kText};
constexpr EventField kLinkRestoredFields[] = {Required(kCommunicators), kCommunicatorsUnlisted,
                                              Meaning(kForSeconds, "How long it was degraded."),
                                              kText};

/// Of a communicator that forms, the operation is the call that its ranks wait in.
constexpr EventField kOrCallField =
    Meaning(kOperation,
            "The operation, with its number in the communicator; of a communicator that has not "
            "formed the call, such as ncclCommInitRank.");
constexpr EventField kRankLateFields[] = {
    Required(kRanksField),
    kRanksUnlisted,
    Required(kCommunicator),
    Required(kOrCallField),
    Meaning(Required(kForSeconds), "How long the others have waited so far."),
    Required({"why", kChoice, "What the ranks do instead, as far as known.", false,
              "computing not_called stopped sleeping swapping out_of_memory not_filled dead "
              "unknown"}),
    {"class", kChoice, "Why the operation does not end.", false,
     "computing not_called not_filled slow_transfer daemon_unreachable"},
    {"doing", kChoice, "What the first process that is the cause does, as far as known.", false,
     "unknown running sleeping stopped traced swapping on_disk out_of_memory ended"},
    {"since", kTime, "Since when the first rank has waited."},
    {"root_communicator", kName,
     "Name of the communicator with the ranks that are the cause; absent: it is `communicator`."},
    {"root_ranks", kRanks, "Ranks of `root_communicator` that are the cause."},
    {"stage", kSentence, "What an operation that all ranks have called waits for."},
    kText};
constexpr EventField kRankRecoveredFields[] = {
    Required(kRanksField),
    kRanksUnlisted,
    Required(kCommunicator),
    kOrCallField,
    Meaning(Required(kForSeconds), "How long the others had to wait."),
    kText};
constexpr EventField kRankLostFields[] = {
    Required(kRanksField),
    kRanksUnlisted,
    Required(kCommunicator),
    Required({"why", kChoice, "How the ranks ended, as far as known.", false,
              "exited killed out_of_memory aborted not_responding service_unreachable reclaimed "
              "unknown"}),
    {"follows", kYesNo,
     "Whether the communicator had failed before, so that these ranks are not the cause."},
    kAction,
    kText};
constexpr EventField kHostFailingFields[] = {
    Required(kRanksField), kRanksUnlisted, kDeadline, kNotice,
    Required(kConfidence), kAction,        kText};

constexpr EventField kMaintenanceScheduledFields[] = {
    Required(kMaintenance),
    Required(kRanksField),
    kRanksUnlisted,
    Required(kMaintenanceKind),
    {"not_before", kTime, "When it begins at the earliest; absent if nobody knows."},
    {"not_after", kTime, "When it begins at the latest."},
    {"duration_seconds", kSeconds, "How long the ranks stand still."},
    Meaning(kNotice, "Time from the event to `not_before`: at least so much is promised."),
    {"can_be_moved", kYesNo, "Whether the job may ask for another time."},
    kConfidence,
    kAction,
    kText};
constexpr EventField kMaintenanceStartedFields[] = {
    Required(kMaintenance),
    Required(kRanksField),
    kRanksUnlisted,
    Required(kMaintenanceKind),
    {"duration_seconds", kSeconds, "How long the ranks will stand still."},
    kText};
constexpr EventField kMaintenanceCompletedFields[] = {
    Required(kMaintenance),
    Required(kRanksField),
    kRanksUnlisted,
    Required({"outcome", kChoice, "Whether it took place.", false, "done withdrawn"}),
    {"duration_seconds", kSeconds, "How long the ranks stood still."},
    kText};

constexpr EventField kCheckpointAdvisedFields[] = {
    {"not_before", kTime, "When the window begins; absent: now."},
    Meaning(kDeadline, "When the window ends."),
    kNotice,
    Required({"why", kChoice, "What the checkpoint is to guard against.", false,
              "reclaim maintenance host_failing link_failing service_restart price interval "
              "request"}),
    Meaning(kRanksField, "Ranks whose state is at risk."),
    kRanksUnlisted,
    Meaning(kExpected, "How long the checkpoint is likely to take, as quantiles."),
    Meaning(kConfidence, "Probability that the checkpoint will be needed."),
    kAction,
    kText};
constexpr EventField kCheckpointSavedFields[] = {
    Required(kStep),
    Required(kPlaceOfCheckpoint),
    {"bytes", kCount, "Size of all ranks' parts together, in bytes."},
    {"took_seconds", kSeconds, "Time from the first rank's call until it was safe."},
    {"stall_seconds", kSeconds, "For how long it kept the job from its work."},
    {"epoch_end", kYesNo, "Whether it was taken at the end of an epoch, so that it stays."},
    kText};
constexpr EventField kCheckpointLostFields[] = {
    Required(kStep),
    Required(kPlaceOfCheckpoint),
    {"last_safe_step", kCount, "The newest step that is safe elsewhere; absent if there is none."},
    Meaning(kRanksField, "Ranks whose parts are lost."),
    kRanksUnlisted,
    kAction,
    kText};

constexpr EventField kAdaptationAdvisedFields[] = {
    Required({"setting", kChoice, "What to change.", false,
              "batch_size accumulation synchronisation_interval learning_rate_factor"}),
    Required({"from", kNumber, "The value in force."}),
    Required({"to", kNumber, "The value that is advised."}),
    Required({"why", kChoice, "Why another value fits better.", false,
              "congestion link_degraded link_restored long_exchanges short_exchanges fewer_ranks "
              "more_ranks power price"}),
    {"learning_rate_factor", kFactor,
     "The learning rate's factor that goes with the value, within the job's range."},
    Meaning(kExpected, "Time of a step with the advised value, as quantiles."),
    {"gain", kFactor,
     "How many times as fast the job is expected to get on: in samples, less what is known of the "
     "waste of larger batches."},
    kDeadline,
    kConfidence,
    kText};
constexpr EventField kPlanChangedFields[] = {
    Required(kCommunicator),
    Required({"collective", kName, "The collective, such as \"all-reduce\"."}),
    Required({"bytes", kCount, "Size of a rank's buffer for which it was planned, in bytes."}),
    {"predicted_seconds_before", kSeconds, "Predicted time of one operation as it was."},
    Required({"predicted_seconds_after", kSeconds, "Predicted time of one operation as it is."}),
    kText};

constexpr EventField kRequirement =
    Required({"requirement", kName, "Key of the requirement, such as \"bandwidth_floor\"."});
constexpr EventField kAskedFor = Required({"granted", kNumber, "What was granted, in `unit`."});
constexpr EventField kMeasured = Required({"measured", kNumber, "What is measured, in `unit`."});
constexpr EventField kUnit =
    OneOf(Required({"unit", kChoice, "Unit of the two numbers.", false}), kUnits);
constexpr EventField kRequirementUnmetFields[] = {kRequirement,  kAskedFor,   kMeasured, kUnit,
                                                  kCommunicator, kForSeconds, kAction,   kText};
constexpr EventField kRequirementMetFields[] = {
    kRequirement, kAskedFor,     kMeasured,
    kUnit,        kCommunicator, Meaning(kForSeconds, "How long it was missed."),
    kText};

constexpr EventField kDegradationSuspectedFields[] = {
    Required(kRanksField), kRanksUnlisted,        kCommunicator, Required(kCause),
    Required(kSlowdown),   Required(kConfidence), kText};
constexpr EventField kDegradationConfirmedFields[] = {
    Required(kRanksField), kRanksUnlisted,        kCommunicator, Required(kCause),
    Required(kSlowdown),   Required(kConfidence), kAction,       kText};
constexpr EventField kDegradationClearedFields[] = {
    Required(kRanksField), kRanksUnlisted, kCommunicator,
    Meaning(kForSeconds, "How long it had been suspected."), kText};
constexpr EventField kMismatchDetectedFields[] = {
    Required(kCommunicator), Required(kOperation),
    Required({"asked", kAsked, "Who asked for what."}), kAction, kText};

constexpr EventField kPriceChangedFields[] = {
    Required({"from", kNumber, "Price of one rank for an hour before, in credits."}),
    Required({"to", kNumber, "Price of one rank for an hour from then on, in credits."}),
    {"not_before", kTime, "From when on; absent: now."},
    Meaning(kExpected, "How long the price is likely to stay, as quantiles."),
    kAction,
    kText};
constexpr EventField kAllocationChangedFields[] = {
    Required({"ranks_before", kCount, "How many ranks the job had."}),
    Required({"ranks_after", kCount, "How many ranks the job has."}),
    Required({"why", kChoice, "What made the change.", false,
              "offer reclaim market job provider failure"}),
    kOffer, kText};
constexpr EventField kPowerLimitedFields[] = {
    Required(kRanksField),
    kRanksUnlisted,
    Required({"state", kChoice, "Whether the cap takes effect or ends.", false, "began ended"}),
    Required({"kind", kChoice, "What is capped.", false, "power frequency temperature unknown"}),
    kSlowdown,
    kText};
constexpr EventField kDaemonRestartingFields[] = {
    Meaning(kMaintenance,
            "An id, the same in the event that calls it off; absent if the service stops now."),
    Required(kDeadline),
    kNotice,
    Meaning(kExpected, "How long operations are likely to wait, as quantiles."),
    kAction,
    kText};
constexpr EventField kDaemonRestartedFields[] = {
    {"took_seconds", kSeconds, "How long operations had to wait."}, kText};
constexpr EventField kNoticeAnsweredFields[] = {
    Required({"event", kName, "Id of the event that is answered."}),
    Required({"answer", kChoice, "That the tenant is ready, or that it asks for more time.", false,
              "acknowledged more_time"}),
    {"asked_until", kTime, "Until when the tenant asks for time."},
    kText};
constexpr EventField kOfferChangedFields[] = {
    Required(kOffer),
    Required({"kind", kChoice, "What it is about.", false, "grow reclaim move slow_down"}),
    Required({"state", kChoice, "How far it has come.", false,
              "offered countered accepted declined expired withdrawn fulfilled broken"}),
    kRankCount,
    Meaning(kRanksField, "The ranks that leave or move; absent: the job chooses."),
    kRanksUnlisted,
    {"deadline", kTime, "Until when it may be answered."},
    {"due", kTime,
     "Until when places are kept, ranks have left, or the rate holds; of a counter-proposal the "
     "time that is asked for."},
    kPrice,
    {"round", kCount, "How many counter-proposals there were."},
    {"broken_by", kChoice, "Who has not done what was agreed.", false, "provider tenant"},
    kPurpose,
    {"reason", kSentence, "Why it was answered so, or has ended."},
    kAction,
    kText};

constexpr std::string_view kNotWhichHosts = "On which host the ranks run, and who else runs there.";
constexpr std::string_view kNotWhoElse =
    "Whose traffic it is, which connection carries it, and between which hosts.";

/// By the order of EventType.
constexpr EventFields kFields[] = {
    {kCapacityOfferedFields,
     "Where the ranks would run, who had them before, and who else is "
     "offered them."},
    {kCapacityWithdrawnFields, "Who has them now."},
    {kCapacityReclaimFields, "Who will have them, and on which host they run."},
    {kCapacityReclaimedFields, "Who has them now, and on which host they ran."},
    {kCapacityForecastFields, "Who waits for the ranks, and how full the provider's machines are."},
    {kCongestionChangedFields, kNotWhoElse},
    {kLinkDegradedFields,
     "Which connection it is, between which hosts, and what it carries: only "
     "what it means for the job."},
    {kLinkRestoredFields, "Which connection it was, and what was wrong with it."},
    {kRankLateFields,
     "On which host the ranks run, their process numbers, and anything about the "
     "program that the job's own processes do not tell."},
    {kRankRecoveredFields, "On which host the ranks run."},
    {kRankLostFields, kNotWhichHosts},
    {kHostFailingFields, "Which host it is, which part fails, and who else runs there."},
    {kMaintenanceScheduledFields,
     "Which host it is, what the cloud calls the maintenance, and who "
     "else is affected."},
    {kMaintenanceStartedFields, "Which host it is, and who else is affected."},
    {kMaintenanceCompletedFields, "Which host it was, and what was done to it."},
    {kCheckpointAdvisedFields, "Which host is at risk."},
    {kCheckpointSavedFields, "The path, the host or the peer that holds the checkpoint."},
    {kCheckpointLostFields, "The path, the host or the peer that held the checkpoint."},
    {kAdaptationAdvisedFields,
     "What the value does to the accuracy of the training: the job's "
     "ranges say what is tolerable."},
    {kPlanChangedFields,
     "How the operation is carried out: algorithms, ways and hosts would show "
     "the provider's network."},
    {kRequirementUnmetFields, "Which other job has what this one lacks."},
    {kRequirementMetFields, "What the provider did for it."},
    {kDegradationSuspectedFields, kNotWhichHosts},
    {kDegradationConfirmedFields, kNotWhichHosts},
    {kDegradationClearedFields, "What the cause was on the provider's side."},
    {kMismatchDetectedFields,
     "Where in the program the calls were made: the service sees "
     "operations, not stacks."},
    {kPriceChangedFields, "Who bids, and how much."},
    {kAllocationChangedFields, "Where the ranks run, and who had them before or has them now."},
    {kPowerLimitedFields, "The cap in watts, which host it holds for, and whom else it concerns."},
    {kDaemonRestartingFields, "Why, and from which version to which."},
    {kDaemonRestartedFields, "Why, and from which version to which."},
    {kNoticeAnsweredFields, "Which process has answered, and whether the provider agrees."},
    {kOfferChangedFields,
     "On which host the ranks run or would run, and who else is asked, or has them now."},
};

constexpr bool EndInText() {
  for (const EventFields& type : kFields) {
    if (type.fields.back().name != kText.name || !type.fields.back().required) return false;
  }
  return std::size(kFields) == static_cast<size_t>(EventType::kOfferChanged) + 1;
}
static_assert(EndInText());

}  // namespace

const EventFields& FieldsOf(EventType type) {
  return kFields[static_cast<size_t>(type)];
}

const EventField* FieldNamed(EventType type, std::string_view name) {
  for (const EventField& field : FieldsOf(type).fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

std::string_view FieldKindText(FieldKind kind) {
  switch (kind) {
    case kRanks: return "list of ranks";
    case kName: return "name";
    case kNames: return "list of names";
    case kSentence: return "sentence";
    case kChoice: return "one of";
    case kTime: return "time";
    case kSeconds: return "seconds";
    case kCount: return "count";
    case kFraction: return "0 to 1";
    case kFactor: return "factor";
    case kNumber: return "number";
    case kYesNo: return "yes or no";
    case kEstimate: return "quantiles in seconds";
    case kAsked: return "list of who asked for what";
  }
  return "";
}

}  // namespace harmonaize
