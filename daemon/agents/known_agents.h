#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/agents/agent_services.h"
#include "daemon/cluster/messages/agent.h"
#include "daemon/identity/job_identity.h"
#include "daemon/jobs/job_table.h"
#include "daemon/quota/holdings.h"
#include "daemon/runtime/lifetime.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

/// An agent of another host, for people.
struct KnownAgentReport {
  JobIdentity job = {};
  std::string job_name = {};
  std::string tenant = {};
  std::string address = {};  ///< AgentView::address.
  int places = 0;
  double gone_seconds = 0;  ///< Time until it is forgotten, unless its daemon tells of it.
};

/// The agents on other hosts of jobs that are here. The home of a job's largest communicator ties
/// each of their hosts to itself. All hosts of the job know them, so that another home goes on when
/// this one is lost, or has no ranks of the job any more. Thread: engine.
class KnownAgents {
 public:
  /// `is_own` returns whether an agent is one of this host.
  KnownAgents(const AgentServices& services, std::function<bool(uint64_t number)> is_own)
      : services_(services), is_own_(std::move(is_own)) {}

  bool empty() const { return agents_.empty(); }
  /// Returns those of a tenant's jobs, or all for nullopt.
  std::vector<KnownAgentReport> All(std::optional<uint32_t> tenant) const;

  void OnAttach(transport::PeerId peer, const AttachMessage& attach);
  void OnAgent(transport::PeerId peer, const AgentMessage& message);
  void OnPeerLost(transport::PeerId peer);
  /// A communicator of the job has formed or ended: the home may be another one, and the size.
  void OnChanged(const Job& job);
  /// The job has no communicators here any more.
  void OnJobGone(Job& job);
  /// Forgets agents of which nothing was heard for long, and ties those that have no tie.
  void Tick();

  /// Most agents of a job: one for each host that it may span.
  static constexpr size_t kMostOfJob = 1024;
  /// Most agents of a tenant, of all of its jobs: a home goes through them twice a second.
  static constexpr size_t kMostOfTenant = 4096;
  /// Checks that one more agent of a job may be known. Errors: kInvalidUsage, with the limit and
  /// the way out.
  Status CheckRoom(const Job& job) const;

 private:
  struct Agent {
    AgentView view;
    Job* job = nullptr;
    Holding memory = {};
    uint64_t heard_ns = 0;
    uint64_t reached_for_ns = 0;  ///< When its daemon was reached for last.
    std::optional<transport::PeerId> tied = {};
    bool is_due = false;  ///< Its host is to hear of a change.
  };
  using Agents = std::map<uint64_t, Agent>;  ///< By AgentView::number.

  /// The numbers of each job's agents. Jobs of one tenant are beside each other.
  using OfJobs = std::map<JobTable::Key, std::set<uint64_t>>;

  using OfJobsRange = std::pair<OfJobs::const_iterator, OfJobs::const_iterator>;
  OfJobsRange OfTenant(uint32_t tenant) const;
  Result<Agent*> Note(Job& job, const AgentView& view);
  Result<Job*> JobOfTicket(const AttachMessage& attach) const;
  bool IsHomeOf(const Job& job) const;
  void Tie(Agent& agent);
  void TieTo(Agent& agent, transport::PeerId peer);
  void Send(const Agent& agent, transport::PeerId peer, Status status) const;
  Agents::iterator Forget(Agents::iterator agent);

  const AgentServices services_;
  const std::function<bool(uint64_t number)> is_own_;
  Agents agents_;
  OfJobs of_job_;
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
