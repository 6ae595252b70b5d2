#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/agents/agent_services.h"
#include "daemon/cluster/messages/agent.h"
#include "daemon/formation/ticket_desk.h"
#include "daemon/jobs/job_table.h"
#include "daemon/quota/holdings.h"
#include "daemon/quota/rate_table.h"
#include "daemon/runtime/lifetime.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

/// What a process of a tenant says when it becomes an agent of a job, or renews that.
struct AgentOrder {
  std::string job = {};     ///< Its name, which has been cleaned, or its id.
  std::string ticket = {};  ///< The text; "": the job has ranks here, or will.
  int places = 0;           ///< Number of ranks that the agent would start now.
};

/// An agent of this host, as its own process may read of it.
struct AgentReport {
  /// Whether messages about the job reach this host.
  enum class Standing : uint8_t {
    kWaiting,   ///< The job has no ranks here, and no ticket leads to others.
    kAsking,    ///< The home of its ticket has not answered yet.
    kAttached,  ///< They do.
  };
  uint64_t number = 0;
  const Job* job = nullptr;
  Standing standing = Standing::kWaiting;
  int places = 0;
  int ranks_here = 0;
  int ranks = 0;             ///< Of the job, on all hosts, as far as this one knows.
  Status problem = {};       ///< Why it is not attached.
  double began_seconds = 0;  ///< When it came, since 1970.
  double gone_seconds = 0;   ///< Time until it is forgotten, unless it is renewed.
  bool has_ticket = false;   ///< Whether it has brought a ticket that leads to another host.
  int ties = 0;              ///< Number of other hosts that tie this one to the job by it.
};
inline constexpr int kAgentStandingCount = 3;

/// The agents of this host. Each is kept for as long as its process renews it. Where the job has no
/// ranks on this host, the agent's ticket leads to the daemon that looks after the job, which ties
/// the two hosts together. Thread: engine.
class OwnAgents {
 public:
  /// `on_job_gone` is called with a job whose agent here has gone, and that has no communicators
  /// here.
  OwnAgents(const AgentServices& services, std::function<void(Job&)> on_job_gone)
      : services_(services),
        on_job_gone_(std::move(on_job_gone)),
        registrations_({.per_second = 1, .burst = kMostOfTenant}) {}

  /// Takes in an agent. Errors: kInvalidArgument for a text that is no ticket; kInvalidUsage where
  /// the job has an agent here, the tenant has as many as it may or no job of the id here, or its
  /// ticket for a job of this host is not valid; kInProgress if the tenant registers agents too
  /// often.
  Result<uint64_t> Add(Tenant* tenant, const AgentOrder& order);
  /// Notes that the agent is there, its places now, and another ticket if it has one. Errors: those
  /// of Add; kUnavailable if the tenant has no such agent here.
  Status Renew(const Tenant& tenant, uint64_t number, const AgentOrder& order);
  Status Remove(const Tenant& tenant, uint64_t number);

  /// Errors: kUnavailable if the tenant has no such agent here.
  Result<AgentReport> Find(uint32_t tenant, uint64_t number) const;
  /// Returns those of a tenant, or all for nullopt.
  std::vector<AgentReport> All(std::optional<uint32_t> tenant) const;
  bool Knows(uint64_t number) const { return agents_.contains(number); }
  size_t size() const { return agents_.size(); }
  /// Returns how many ranks all of them would start.
  uint64_t AllPlaces() const;
  bool empty() const { return agents_.empty(); }

  /// Returns how many ranks the job's agent here would start; nullopt if it has none here.
  std::optional<int> PlacesOf(const Job& job) const;
  /// Returns whether the job has an agent here that has shown to be of it: by ranks of the job on
  /// this host, or by a ticket.
  bool IsAttached(const Job& job) const;
  /// Returns the number of ranks of a job: of its largest communicator here, or as its homes have
  /// told its agent here; 0: unknown.
  int RanksOf(const Job& job) const;

  /// Looks for agents that are not renewed any more, and tells hosts of the others.
  void Tick();
  void OnTie(transport::PeerId peer, const TieMessage& tie);
  void OnPeerLost(transport::PeerId peer);
  /// A communicator of the job has formed here: its hosts may not know the agents yet.
  void OnChanged(const Job& job);

  /// Time, in seconds, for which an agent is kept that does not renew itself. Agents do so every
  /// second, and one that is that late has ended, or its host is lost to all purposes.
  static constexpr double kLeaseSeconds = 15;
  /// Most agents of one tenant on a host: it needs one for each job.
  static constexpr int kMostOfTenant = 64;

 private:
  /// Where a ticket leads.
  struct Way {
    TicketDigest digest{};
    std::string address = {};
  };
  struct Agent {
    AgentView view;
    Tenant* tenant = nullptr;
    JobHold job = {};
    Holding memory = {};
    std::optional<Way> ticket = {};
    uint64_t asked_ns = 0;
    int refusals = 0;  ///< Of its ticket, by the home.
    double began_seconds = 0;
    uint64_t renewed_ns = 0;
    uint64_t told_ns = 0;
    bool is_changed = false;  ///< Its hosts do not know it as it is.
    Status problem = {};
    int ranks = 0;
    std::map<transport::PeerId, uint64_t> ties = {};  ///< When each was heard of last.
  };
  using Agents = std::map<uint64_t, Agent>;  ///< By AgentView::number.

  Status TakeTicket(Agent& agent, const std::string& text);
  bool HasWay(const Agent& agent) const;
  void Ask(Agent& agent, uint64_t now_ns);
  void OnReached(uint64_t number, const Result<transport::PeerId>& peer);
  void TellHosts(Agent& agent, bool gone, uint64_t now_ns);
  void Untie(Agent& agent, transport::PeerId peer);
  void End(Agents::iterator agent);
  Status CheckIsOf(uint32_t tenant, uint64_t number) const;
  AgentReport Describe(const Agent& agent) const;

  const Agent* AgentOf(const Job& job) const;

  const AgentServices services_;
  const std::function<void(Job&)> on_job_gone_;
  Agents agents_;
  /// By tenant: as many as it may have at once, and then one a second. Each is told to all hosts of
  /// its job, and so is its end; a launcher registers once.
  RateTable registrations_;
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
