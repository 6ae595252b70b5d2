#include "daemon/agents/known_agents.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator.h"
#include "daemon/formation/ticket_home.h"
#include "daemon/job_events/job_attachments.h"
#include "daemon/job_events/job_communicators.h"
#include "daemon/job_events/job_relay.h"
#include "daemon/multihost/host_group.h"
#include "daemon/runtime/log_tenant.h"
#include "daemon/tenant/tenant.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/random.h"

namespace harmonaize::daemon {
namespace {

/// Nanoseconds after which an agent is forgotten of which nothing is heard. Its daemon tells of it
/// every ten seconds.
constexpr uint64_t kForgottenNs = 35'000'000'000;
/// Nanoseconds between two attempts to reach the daemon of an agent.
constexpr uint64_t kReachEveryNs = 3'000'000'000;
/// Bytes of memory that a tenant is charged for an agent of another host, with its address.
constexpr int64_t kKnownAgentBytes = 1024;

}  // namespace

KnownAgents::OfJobsRange KnownAgents::OfTenant(uint32_t tenant) const {
  const auto begin = of_job_.lower_bound({tenant, JobIdentity{}});
  auto end = begin;
  while (end != of_job_.end() && end->first.first == tenant) ++end;
  return {begin, end};
}

Status KnownAgents::CheckRoom(const Job& job) const {
  const auto of_job = of_job_.find(JobTable::KeyOf(job));
  if (of_job != of_job_.end() && of_job->second.size() >= kMostOfJob) {
    return InvalidUsage(
        "job '{}' has {} agents on other hosts, as many as may be: end launchers of it that are "
        "not needed (harmonaize run --elastic)",
        job.label(), kMostOfJob);
  }
  size_t of_tenant = 0;
  const auto [begin, end] = OfTenant(job.tenant->identity.number);
  for (auto one = begin; one != end; ++one) of_tenant += one->second.size();
  if (of_tenant < kMostOfTenant) return Status::Ok();
  return InvalidUsage(
      "this user's jobs have {} agents on other hosts, as many as may be: end launchers that are "
      "not needed (harmonaize run --elastic)",
      kMostOfTenant);
}

// Errors: those of CheckRoom; kInvalidUsage if the tenant has no memory left for it, or another job
// has an agent of this number.
Result<KnownAgents::Agent*> KnownAgents::Note(Job& job, const AgentView& view) {
  auto known = agents_.find(view.number);
  if (known == agents_.end()) {
    HZ_RETURN_IF_ERROR(CheckRoom(job));
    Agent agent{.view = view, .job = &job};
    HZ_ASSIGN_OR_RETURN(agent.memory,
                        job.tenant->account->Take(Resource::kMemory, kKnownAgentBytes));
    of_job_[JobTable::KeyOf(job)].insert(view.number);
    known = agents_.emplace(view.number, std::move(agent)).first;
  }
  Agent& agent = known->second;
  if (agent.job != &job) return InvalidUsage("another job has an agent of this number");
  agent.view = view;
  agent.heard_ns = MonotonicNanoseconds();
  return &agent;
}

std::vector<KnownAgentReport> KnownAgents::All(std::optional<uint32_t> tenant) const {
  const uint64_t now = MonotonicNanoseconds();
  std::vector<KnownAgentReport> reports;
  const auto [begin, end] =
      tenant.has_value() ? OfTenant(*tenant) : OfJobsRange(of_job_.begin(), of_job_.end());
  for (auto of_job = begin; of_job != end; ++of_job) {
    for (const uint64_t number : of_job->second) {
      const Agent& agent = agents_.at(number);
      const uint64_t silent_ns = std::min(now - agent.heard_ns, kForgottenNs);
      reports.push_back({.job = agent.job->id,
                         .job_name = agent.job->name,
                         .tenant = agent.job->tenant->name(),
                         .address = agent.view.address,
                         .places = agent.view.places,
                         .gone_seconds = static_cast<double>(kForgottenNs - silent_ns) * 1e-9});
    }
  }
  return reports;
}

// ---------------------------------------------------------------------------------------------
// Messages of other daemons

void KnownAgents::OnAttach(transport::PeerId peer, const AttachMessage& attach) {
  const Result<Job*> job = JobOfTicket(attach);
  const Result<Agent*> agent = job.ok() ? Note(**job, attach.agent) : job.status();
  if (!agent.ok()) {
    const TieMessage refusal{.number = attach.agent.number,
                             .job = attach.job,
                             .user = attach.user,
                             .status = agent.status()};
    return services_.cluster->Send(peer, refusal);
  }
  const AgentMessage news{.about = 0, .unique = RandomNumber(), .agent = attach.agent};
  (*job)->heard.Add(news.unique);
  static_cast<void>(services_.relay->Spread(**job, news, {}));
  TieTo(**agent, peer);
}

// The ticket tells for which job it is. Tenants of one user, as containers may be, can have jobs of
// the same id.
Result<Job*> KnownAgents::JobOfTicket(const AttachMessage& attach) const {
  HZ_ASSIGN_OR_RETURN(const TicketDesk::JobKey key,
                      services_.tickets->Check(DigestIn(attach.digest), DecodeJob(attach.job),
                                               attach.user, nullptr));
  Job* const job = services_.jobs->FindById(key.second, key.first);
  if (job != nullptr && services_.by_job->Has(job)) return job;
  return Unavailable("the job has ended, or has no ranks any more where the ticket leads");
}

void KnownAgents::OnAgent(transport::PeerId peer, const AgentMessage& message) {
  const std::optional<JobWay> way = services_.relay->ToldOf(message.about, peer);
  if (!way.has_value() || !way->job->heard.Add(message.unique)) return;
  Job& job = *way->job;
  if (!is_own_(message.agent.number)) {
    if (message.gone) {
      const auto known = agents_.find(message.agent.number);
      if (known != agents_.end() && known->second.job == &job) Forget(known);
    } else if (const Result<Agent*> agent = Note(job, message.agent); agent.ok()) {
      Tie(**agent);
    }
  }
  static_cast<void>(services_.relay->Spread(job, message, {way, peer}));
}

void KnownAgents::OnPeerLost(transport::PeerId peer) {
  for (auto& [number, agent] : agents_) {
    if (agent.tied != peer) continue;
    services_.attachments->Remove(number, peer);
    agent.tied.reset();
  }
}

// ---------------------------------------------------------------------------------------------
// Ties

bool KnownAgents::IsHomeOf(const Job& job) const {
  const Communicator* const largest = services_.by_job->Largest(job);
  if (largest == nullptr) return false;
  return largest->host_group() == nullptr || largest->host_group()->is_home();
}

// Ties the agent's host to this one, or tells it that it still is, where this host is the home.
void KnownAgents::Tie(Agent& agent) {
  const LogFor log_for(agent.job->tenant->identity);
  if (!IsHomeOf(*agent.job) || agent.view.address.empty()) return;
  agent.reached_for_ns = MonotonicNanoseconds();
  services_.cluster->Reach(
      agent.view.address,
      lifetime_.Guard([this, number = agent.view.number](const Result<transport::PeerId>& peer) {
        const auto found = agents_.find(number);
        if (found != agents_.end() && peer.ok()) TieTo(found->second, *peer);
      }));
}

void KnownAgents::TieTo(Agent& agent, transport::PeerId peer) {
  const bool is_new = agent.tied != peer;
  if (is_new && agent.tied.has_value()) {
    services_.attachments->Remove(agent.view.number, *agent.tied);
  }
  agent.tied = peer;
  Send(agent, peer, Status::Ok());
  if (!is_new) return;
  services_.attachments->Add(agent.job, agent.view.number, peer);
  services_.on_tied(*agent.job);
}

// A message that the daemon does not take now is sent again, with the agent's next one.
void KnownAgents::Send(const Agent& agent, transport::PeerId peer, Status status) const {
  const TenantIdentity& tenant = agent.job->tenant->identity;
  const Communicator* const largest = services_.by_job->Largest(*agent.job);
  const TieMessage tie{.number = agent.view.number,
                       .job = EncodeJob(agent.job->id),
                       .user = tenant.across_hosts,
                       .ranks = largest == nullptr ? 0 : largest->ranks(),
                       .status = std::move(status)};
  static_cast<void>(services_.cluster->SendFor(tenant, peer, tie));
}

// Communicators may come and go by thousands: the next look tells of all changes at once.
void KnownAgents::OnChanged(const Job& job) {
  const auto found = of_job_.find(JobTable::KeyOf(job));
  if (found == of_job_.end()) return;
  for (const uint64_t number : found->second) agents_.at(number).is_due = true;
}

void KnownAgents::OnJobGone(Job& job) {
  const auto found = of_job_.find(JobTable::KeyOf(job));
  if (found == of_job_.end()) return;
  const std::set<uint64_t> numbers = found->second;
  for (const uint64_t number : numbers) {
    const auto one = agents_.find(number);
    if (one->second.tied.has_value()) {
      Send(one->second, *one->second.tied,
           Unavailable("the job has ended, or has left the host of its home"));
    }
    Forget(one);
  }
}

KnownAgents::Agents::iterator KnownAgents::Forget(Agents::iterator agent) {
  if (agent->second.tied.has_value()) {
    services_.attachments->Remove(agent->first, *agent->second.tied);
  }
  const auto of_job = of_job_.find(JobTable::KeyOf(*agent->second.job));
  of_job->second.erase(agent->first);
  if (of_job->second.empty()) of_job_.erase(of_job);
  return agents_.erase(agent);
}

void KnownAgents::Tick() {
  const uint64_t now = MonotonicNanoseconds();
  for (auto one = agents_.begin(); one != agents_.end();) {
    Agent& agent = one->second;
    if (now - agent.heard_ns > kForgottenNs) {
      one = Forget(one);
      continue;
    }
    const bool lacks_tie = !agent.tied.has_value() && now - agent.reached_for_ns > kReachEveryNs;
    if (std::exchange(agent.is_due, false) || lacks_tie) Tie(agent);
    ++one;
  }
}

}  // namespace harmonaize::daemon
