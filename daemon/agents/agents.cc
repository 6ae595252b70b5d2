#include "daemon/agents/agents.h"

#include <utility>

#include "daemon/communicator/communicator.h"
#include "daemon/job_events/job_communicators.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/guarded.h"
#include "src/base/log.h"

namespace harmonaize::daemon {

Agents::Agents(const AgentServices& services, EventLoop* loop,
               std::function<void(Job&)> on_job_gone)
    : by_job_(*services.by_job),
      own_(services,
           [this, on_job_gone = std::move(on_job_gone)](Job& job) {
             known_.OnJobGone(job);
             on_job_gone(job);
           }),
      known_(services, [this](uint64_t number) { return own_.Knows(number); }),
      next_look_(loop) {}

Result<uint64_t> Agents::Add(Tenant* tenant, const AgentOrder& order) {
  HZ_ASSIGN_OR_RETURN(const uint64_t number, own_.Add(tenant, order));
  Watch();
  return number;
}

void Agents::OnMessage(transport::PeerId peer, const ClusterMessage& message) {
  if (const auto* const attach = message.As<AttachMessage>()) known_.OnAttach(peer, *attach);
  if (const auto* const agent = message.As<AgentMessage>()) known_.OnAgent(peer, *agent);
  if (const auto* const tie = message.As<TieMessage>()) own_.OnTie(peer, *tie);
  if (!known_.empty()) Watch();
}

void Agents::OnPeerLost(transport::PeerId peer) {
  own_.OnPeerLost(peer);
  known_.OnPeerLost(peer);
}

void Agents::OnFormed(const Communicator& communicator, int /*hosts*/) {
  own_.OnChanged(*communicator.job());
  known_.OnChanged(*communicator.job());
}

void Agents::OnEnded(const Communicator& communicator) {
  Job& job = *communicator.job();
  if (!by_job_.Has(&job)) return known_.OnJobGone(job);
  known_.OnChanged(job);
}

void Agents::Watch() {
  const Status watched = next_look_.Start(kLookEvery, [this] { Look(); });
  if (!watched.ok()) {
    Log(LogLevel::kError, kLogInit, "agents are not looked after: {}", watched.message());
  }
}

void Agents::Look() {
  GuardedAndLogged("agents", [this] {
    own_.Tick();
    known_.Tick();
  });
  if (own_.empty() && known_.empty()) next_look_.Stop();
}

}  // namespace harmonaize::daemon
