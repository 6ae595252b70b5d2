#pragma once

#include "daemon/cluster/messages/agent.h"
#include "daemon/cluster/messages/checkpoint.h"
#include "daemon/cluster/messages/diagnosis.h"
#include "daemon/cluster/messages/door.h"
#include "daemon/cluster/messages/event.h"
#include "daemon/cluster/messages/formation.h"
#include "daemon/cluster/messages/link.h"
#include "daemon/cluster/messages/message_list.h"
#include "daemon/cluster/messages/outcome.h"
#include "daemon/cluster/messages/pair.h"
#include "daemon/cluster/messages/planning.h"
#include "daemon/cluster/messages/probe.h"
#include "daemon/cluster/messages/sizing.h"
#include "daemon/cluster/messages/ticket.h"
#include "daemon/cluster/messages/tuning.h"

namespace harmonaize::daemon {

/// Calls `call` with an empty structure of each kind of message.
template <typename Call>
void ForEachMessage(const Call& call) {
  const auto each = [&call]<typename... Messages>(MessageList<Messages...>) {
    (call(Messages{}), ...);
  };
  const auto of_each = [&each](auto... lists) { (each(lists), ...); };
  of_each(FormationMessages(), OutcomeMessages(), PlanningMessages(), PairMessages(),
          LinkMessages(), ProbeMessages(), JobMessages(), DiagnosisMessages(), TicketMessages(),
          AgentsMessages(), SizingMessages(), CheckpointMessages(), DoorMessages(),
          TuningMessages());
}

}  // namespace harmonaize::daemon
