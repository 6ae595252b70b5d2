#include "daemon/cluster/messages/planning.h"

#include "daemon/cluster/messages/codec.h"
#include "daemon/cluster/messages/fields.h"
#include "src/planner/planner.h"

namespace harmonaize {
HARMONAIZE_FIELDS(PlanKey, collective, root, size_class)
HARMONAIZE_FIELDS(CollectivePlan, key, algorithm, order, order_name, groups, groups_name, pieces,
                  slice_bytes, slices_at_once, wire, paths, rates, predicted_seconds, bound_seconds,
                  status)
}  // namespace harmonaize

namespace harmonaize::daemon::fields {
template <>
inline constexpr int kValueCount<PathUse> = static_cast<int>(PathUse::kWeighted) + 1;
template <>
inline constexpr int kValueCount<WireFormat> = kWireFormatCount;
}  // namespace harmonaize::daemon::fields

namespace harmonaize::daemon {

using fields::AllBelow;
using fields::InRange;
using fields::kMostRanks;

HARMONAIZE_FIELDS(AskPlanMessage, communicator, key)
HARMONAIZE_FIELDS(PlanMessage, communicator, plan)
HARMONAIZE_FIELDS(ProposeMessage, communicator, round, current, next)
HARMONAIZE_FIELDS(PromiseMessage, communicator, round, from, status)
HARMONAIZE_FIELDS(SettleMessage, communicator, round, commit, from)
HARMONAIZE_FIELDS(LinkRatesMessage, communicator, rates)
HARMONAIZE_FIELDS(AskFabricMessage, fabric)
HARMONAIZE_FIELDS(FabricMessage, fabric, text)

namespace {

/// The most pieces of a plan. Planners make fewer.
constexpr int kMostPieces = 8192;
/// The most slices of a block that are under way at a time. Planners make fewer.
constexpr int kMostSlicesAtOnce = 1024;

}  // namespace

static bool IsSound(const PlanKey& key) {
  static const auto kClasses = static_cast<int>(SizeClasses().size());
  return !IsPointToPoint(key.collective) && key.root >= -1 && key.root < kMostRanks &&
         InRange(key.size_class, kClasses);
}

static bool IsSound(const AskPlanMessage& question) {
  return IsSound(question.key);
}

static bool IsSound(const CollectivePlan& plan) {
  const bool may_encode = Reduces(plan.key.collective) || plan.wire == WireFormat::kSame;
  return IsSound(plan.key) && may_encode && fields::AreSoundRates(plan.rates) && plan.pieces >= 1 &&
         plan.pieces <= kMostPieces && plan.slice_bytes >= 1 &&
         InRange(plan.slices_at_once - 1, kMostSlicesAtOnce) && AllBelow(plan.order, INT_MAX) &&
         std::all_of(plan.groups.begin(), plan.groups.end(),
                     [](const std::vector<int>& group) { return AllBelow(group, INT_MAX); });
}

static bool IsSound(const PlanMessage& message) {
  return IsSound(message.plan);
}

static bool IsSound(const ProposeMessage& proposal) {
  if (proposal.next.empty() || proposal.next.size() != proposal.current.size()) return false;
  for (size_t i = 0; i < proposal.next.size(); ++i) {
    const CollectivePlan& before = proposal.current[i];
    const CollectivePlan& after = proposal.next[i];
    if (before.key != after.key || !IsSound(before) || !IsSound(after)) return false;
  }
  return true;
}

static bool IsSound(const LinkRatesMessage& message) {
  return fields::AreSoundRates(message.rates);
}

constinit const SubjectCodec kPlanningCodec = fields::CodecOf(PlanningMessages());

}  // namespace harmonaize::daemon
