#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cluster/messages/kinds.h"
#include "daemon/cluster/messages/message_list.h"
#include "src/base/status.h"
#include "src/planner/collective_plan.h"
#include "src/planner/rated_models.h"

namespace harmonaize::daemon {

// Messages about the plans by which the hosts of a communicator carry out its collectives.

/// A host asks the home for a plan that it needs for the first time.
struct AskPlanMessage {
  static constexpr MessageKind kKind = MessageKind::kAskPlan;
  uint64_t communicator = 0;
  PlanKey key{};
};

/// The home's answer.
struct PlanMessage {
  static constexpr MessageKind kKind = MessageKind::kPlan;
  uint64_t communicator = 0;
  CollectivePlan plan{};
};

/// The home asks a host to make the plans of `next` ready, which are to replace those of `current`
/// from some collective on (plan_switch.h). Plans in the same place have the same key. Answered
/// by PromiseMessage.
struct ProposeMessage {
  static constexpr MessageKind kKind = MessageKind::kPropose;
  uint64_t communicator = 0;
  uint64_t round = 0;
  std::vector<CollectivePlan> current{};
  std::vector<CollectivePlan> next{};
};

/// A host promises to begin no collective that the proposal would change, from collective `from`
/// on, before it hears a SettleMessage. A status that is not ok says that it cannot make a plan
/// ready.
struct PromiseMessage {
  static constexpr MessageKind kKind = MessageKind::kPromise;
  uint64_t communicator = 0;
  uint64_t round = 0;
  uint64_t from = 0;
  Status status{};
};

/// The home decides a proposal: the new plans are used from collective `from` on, or not at all.
struct SettleMessage {
  static constexpr MessageKind kKind = MessageKind::kSettle;
  uint64_t communicator = 0;
  uint64_t round = 0;
  bool commit = false;
  uint64_t from = 0;
};

/// The home tells what links carry now, by which hosts deal messages out over rails.
struct LinkRatesMessage {
  static constexpr MessageKind kKind = MessageKind::kLinkRates;
  uint64_t communicator = 0;
  EdgeRates rates{};
};

/// A host asks the home for a fabric that it does not know.
struct AskFabricMessage {
  static constexpr MessageKind kKind = MessageKind::kAskFabric;
  uint64_t fabric = 0;  ///< FabricDigest.
};

/// The home's answer.
struct FabricMessage {
  static constexpr MessageKind kKind = MessageKind::kFabric;
  uint64_t fabric = 0;  ///< FabricDigest.
  std::string text{};   ///< A fabric file; "": the home does not know it, or it is too long.
};

using PlanningMessages =
    MessageList<AskPlanMessage, PlanMessage, ProposeMessage, PromiseMessage, SettleMessage,
                LinkRatesMessage, AskFabricMessage, FabricMessage>;

}  // namespace harmonaize::daemon
