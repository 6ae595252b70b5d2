#include "src/requirements/requirement_key.h"

#include <algorithm>
#include <array>
#include <utility>

namespace harmonaize {
namespace {

using enum RequirementKind;

/// Marks a key from which nothing follows yet.
constexpr RequirementKey Kept(RequirementKey key) {
  key.is_kept_only = true;
  return key;
}

// Bounds of values without a natural limit.
constexpr double kMostRanks = 1 << 20;
constexpr double kMostSeconds = 365.0 * 86400;
constexpr double kMostBytes = 0x1p50;
constexpr double kMostRate = 1e14;
/// Least rate, in bytes per second, that is kept: below it pacing is coarser than the rate.
constexpr double kLeastRate = 1e3;
constexpr double kMostName = 128;
/// Most bytes of a job's name: what a process says of itself to the daemon has room for so many.
constexpr double kMostJobName = 63;

/// The names of the algorithms in src/schedule/algorithms, which are no part of this module.
constexpr std::string_view kAlgorithmNames =
    "one-host ring two-rings halving-doubling recursive-doubling circulant star binomial-tree "
    "binary-tree chain double-binary-tree shared-star shared-binomial-tree hierarchical "
    "packed-trees direct-all-to-all two-level-all-to-all direct-gather rank-order-chain "
    "rank-order-exchange";

constexpr std::array kKeys = {
    RequirementKey{
        "job.name", kText,
        "The job's name: the tenant's communicators that carry it are one job, on all hosts.", 1,
        kMostJobName},
    Kept({"job.signature", kText,
          "What the job is, without its code, for what is known of such jobs.", 1, 512}),
    RequirementKey{"job.kind", kChoice, "What the job does.", 0, 0, "training inference batch"},
    RequirementKey{"job.goal", kChoice, "What the tenant wants most.", 0, 0,
                   "fastest cheapest deadline"},
    RequirementKey{"job.deadline", kTime, "When the job has to be done."},
    Kept({"job.restartable", kYesNo,
          "Whether the job may be ended and begun again from its last checkpoint."}),
    RequirementKey{
        "collectives.objective", kChoice,
        "What plans are chosen for: a short time of each operation, many bytes in all, both, or "
        "little work of processors.",
        0, 0, "latency throughput balanced energy"},
    RequirementKey{"collectives.percentile", kNumber,
                   "Which share of operations, in percent, is to keep deadline_us.", 50, 99.99},
    RequirementKey{
        "collectives.priority", kCount,
        "Which of the tenant's and others' traffic goes first on links that are full: a higher "
        "number.",
        0, 3},
    RequirementKey{
        "collectives.bandwidth_floor", kRate,
        "The rate that the job gets on links that it shares, whenever it has so much to send.",
        kLeastRate, kMostRate},
    RequirementKey{"collectives.bandwidth_cap", kRate,
                   "The rate that the job does not exceed on any link.", kLeastRate, kMostRate},
    RequirementKey{"collectives.deadline_us", kNumber,
                   "How long an operation may take, in microseconds.", 1, 6e7},
    RequirementKey{"collectives.algorithms.allow", kChoices,
                   "Algorithms that plans may use; the default is all.", 0, 0, kAlgorithmNames},
    RequirementKey{"collectives.algorithms.forbid", kChoices, "Algorithms that plans may not use.",
                   0, 0, kAlgorithmNames},
    RequirementKey{"collectives.reproducible", kYesNo,
                   "Whether results are the same, bit for bit, for any plan and number of hosts."},
    RequirementKey{"collectives.inline", kYesNo,
                   "Whether ranks may carry out small operations by themselves."},
    RequirementKey{"collectives.processors", kCount,
                   "How many of the daemon's processors may work for the job at a time.", 1, 1024},
    RequirementKey{
        "collectives.compression.allow", kChoices,
        "Formats that sums may have on the way between hosts; the least that meets the deadline "
        "or the floor is taken.",
        0, 0, "bf16 fp8"},
    RequirementKey{
        "collectives.compression.error_bound", kNumber,
        "The largest error that compression may bring into a result, as a part of the block's "
        "largest magnitude.",
        1e-6, 1},
    Kept({"parallelism.dp", kCount, "Ranks of a data-parallel group.", 1, kMostRanks}),
    Kept({"parallelism.tp", kCount, "Ranks of a tensor-parallel group.", 1, kMostRanks}),
    Kept({"parallelism.pp", kCount, "Ranks of a pipeline.", 1, kMostRanks}),
    Kept({"parallelism.ep", kCount, "Ranks of an expert-parallel group.", 1, kMostRanks}),
    Kept({"parallelism.dp_bytes", kSize, "What a data-parallel group exchanges in a step.", 0,
          kMostBytes}),
    Kept({"parallelism.tp_bytes", kSize, "What a tensor-parallel group exchanges in a step.", 0,
          kMostBytes}),
    Kept({"parallelism.pp_bytes", kSize, "What a pipeline passes on in a step.", 0, kMostBytes}),
    Kept({"parallelism.ep_bytes", kSize, "What an expert-parallel group exchanges in a step.", 0,
          kMostBytes}),
    RequirementKey{"adapt.batch_size", kCountRange, "Samples of a step, of all ranks together.", 1,
                   1e12},
    RequirementKey{"adapt.accumulation", kCountRange,
                   "Backward passes before gradients are exchanged.", 1, 1e6},
    RequirementKey{"adapt.synchronisation_interval", kCountRange,
                   "Steps between exchanges of ranks that train by themselves meanwhile.", 1, 1e6},
    RequirementKey{"adapt.learning_rate_factor", kNumberRange,
                   "By what the job's learning rate may be multiplied.", 1e-6, 1e6},
    RequirementKey{"faults.late_after", kDuration, "After what time a rank is told of as late.",
                   1e-3, kMostSeconds},
    RequirementKey{"faults.give_up_after", kDuration,
                   "After what time an operation that waits ends.", 0.1, kMostSeconds},
    RequirementKey{"faults.on_rank_loss", kChoice, "What becomes of the job when a rank is lost.",
                   0, 0, "abort shrink"},
    RequirementKey{"checkpoint.interval", kDuration, "Time between checkpoints.", 1, kMostSeconds},
    RequirementKey{"checkpoint.importance", kChoice, "What a lost checkpoint means.", 0, 0,
                   "low normal high"},
    RequirementKey{"checkpoint.cost", kDuration,
                   "How long a checkpoint keeps the job from its work, until that is measured.", 0,
                   kMostSeconds},
    RequirementKey{"checkpoint.most_lost_work", kDuration, "The work that a failure may cost.", 1,
                   kMostSeconds},
    RequirementKey{"checkpoint.overhead_cap", kNumber,
                   "The part of the time that checkpoints may take.", 0, 1},
    RequirementKey{"checkpoint.keep", kCount, "How many checkpoints are kept.", 1, 1e6},
    Kept({"checkpoint.where", kChoices, "Where checkpoints lie.", 0, 0, "memory peer storage"}),
    RequirementKey{"checkpoint.format", kChoice, "The form of checkpoints.", 0, 0,
                   "ucp dcp safetensors"},
    RequirementKey{"elastic.least_ranks", kCount, "The fewest ranks with which the job goes on.", 1,
                   kMostRanks},
    RequirementKey{"elastic.most_ranks", kCount, "The most ranks of which the job makes use.", 1,
                   kMostRanks},
    RequirementKey{"elastic.step", kCount, "By how many ranks the job grows and shrinks.", 1,
                   kMostRanks},
    RequirementKey{"elastic.notice", kDuration,
                   "The notice that the job needs before ranks are taken.", 0, kMostSeconds},
    RequirementKey{"elastic.offers", kChoice, "How offers are answered that fit the job.", 0, 0,
                   "ask accept decline"},
    Kept({"market.budget", kNumber, "What the job may cost, in credits.", 0, 1e12}),
};

constexpr std::array kOverrideMatch = {
    RequirementKey{"communicator", kText, "The communicators' name; * stands for any characters.",
                   1, kMostName},
    RequirementKey{"collective", kChoice, "The collective.", 0, 0,
                   "AllReduce Reduce Broadcast AllGather ReduceScatter AlltoAll Gather Scatter "
                   "Send Recv"},
    RequirementKey{"sizes", kSizeRange, "The bytes of an operation, the bounds included.", 0,
                   kMostBytes},
};

constexpr std::array kLaunch = {
    Kept({"cluster", kText, "The cluster.", 1, kMostName}),
    Kept({"hardware", kText, "The hardware.", 1, kMostName}),
    Kept({"price", kNumber, "The highest price of one rank for an hour, in credits.", 0, 1e9}),
};

// ---------------------------------------------------------------------------------------------
// [collectives], whose keys each [[collectives.override]] has as well

constexpr std::string_view kCollectivesPrefix = "collectives.";

constexpr bool IsOfCollectives(const RequirementKey& key) {
  return key.name.starts_with(kCollectivesPrefix);
}

constexpr auto AllOverrideKeys() {
  constexpr auto kCount = std::count_if(kKeys.begin(), kKeys.end(), IsOfCollectives);
  std::array<RequirementKey, kOverrideMatch.size() + kCount> all{};
  auto next = std::copy(kOverrideMatch.begin(), kOverrideMatch.end(), all.begin());
  for (RequirementKey key : kKeys) {
    if (!IsOfCollectives(key)) continue;
    key.name.remove_prefix(kCollectivesPrefix.size());
    *next++ = key;
  }
  return all;
}

constexpr auto kOverride = AllOverrideKeys();

constexpr std::pair<std::string_view, std::string_view> kTables[] = {
    {"job", "What the job is, and what it is for."},
    {"collectives", "How collectives and messages are carried out."},
    {"collectives.algorithms", "Which algorithms plans may use."},
    {"collectives.compression", "What of the precision may be given up between hosts."},
    {"parallelism", "How the job is split over its ranks, as far as the tenant wants to tell."},
    {"adapt", "Within which ranges the provider may advise the job."},
    {"faults", "When a rank counts as late or lost, and what follows."},
    {"checkpoint", "How often and where checkpoints are taken."},
    {"elastic", "Between which sizes the job may change."},
    {"market", "What the job may cost."},
};

}  // namespace

std::span<const RequirementKey> RequirementKeys() {
  return kKeys;
}

std::span<const RequirementKey> CollectiveKeys() {
  return std::span(kOverride).subspan(kOverrideMatch.size());
}

std::span<const RequirementKey> OverrideKeys() {
  return kOverride;
}

std::span<const RequirementKey> LaunchKeys() {
  return kLaunch;
}

std::string_view MeaningOfTable(std::string_view table) {
  for (const auto& [name, meaning] : kTables) {
    if (name == table) return meaning;
  }
  return "";
}

}  // namespace harmonaize
