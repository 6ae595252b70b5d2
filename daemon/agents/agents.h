#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "daemon/agents/agent_services.h"
#include "daemon/agents/known_agents.h"
#include "daemon/agents/own_agents.h"
#include "daemon/cluster/messages/message.h"
#include "daemon/communicator/communicator_observer.h"
#include "daemon/runtime/loop_timer.h"

namespace harmonaize::daemon {

class EventLoop;

/// The agents of jobs: processes of a tenant, one a host, that start and stop ranks of a job. By
/// them the daemon knows free places, and hears of jobs that have no ranks here yet. Thread:
/// engine.
class Agents final : public CommunicatorObserver {
 public:
  /// Requires: `loop` outlives this object. `on_job_gone` is that of OwnAgents.
  Agents(const AgentServices& services, EventLoop* loop, std::function<void(Job&)> on_job_gone);

  /// Takes in an agent of this host. Errors: those of OwnAgents::Add.
  Result<uint64_t> Add(Tenant* tenant, const AgentOrder& order);
  /// The agents of this host.
  OwnAgents& own() { return own_; }
  const OwnAgents& own() const { return own_; }
  /// Those of other hosts.
  const KnownAgents& known() const { return known_; }

  /// Takes in a message of another daemon, if it is about agents.
  void OnMessage(transport::PeerId peer, const ClusterMessage& message);
  void OnPeerLost(transport::PeerId peer);

  void OnFormed(const Communicator& communicator, int hosts) override;
  void OnEnded(const Communicator& communicator) override;

 private:
  /// Time between looks at all agents. It is short beside all of their deadlines.
  static constexpr std::chrono::milliseconds kLookEvery{500};

  void Watch();
  void Look();

  const JobCommunicators& by_job_;
  OwnAgents own_;
  KnownAgents known_;
  LoopTimer next_look_;
};

}  // namespace harmonaize::daemon
