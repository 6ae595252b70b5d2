#include "daemon/agents/own_agents.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator.h"
#include "daemon/formation/ticket_home.h"
#include "daemon/job_events/job_attachments.h"
#include "daemon/job_events/job_communicators.h"
#include "daemon/job_events/job_relay.h"
#include "daemon/runtime/log_tenant.h"
#include "daemon/tenant/tenant.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/wall_clock.h"
#include "src/ipc/ticket.h"

namespace harmonaize::daemon {
namespace {

/// Bytes of memory that a tenant is charged for an agent.
constexpr int64_t kAgentBytes = 2048;
/// Nanoseconds between two tellings of an agent that does not change. A host that the job comes to
/// hears of it within them, and one that does not hear of it three times forgets it.
constexpr uint64_t kTellEveryNs = 10'000'000'000;
/// Nanoseconds after which a tie ends of which nothing is heard.
constexpr uint64_t kTieLastsNs = 35'000'000'000;
/// Nanoseconds between two requests to the home of a ticket. A home that is restarted is back
/// within some of them.
constexpr uint64_t kAskEveryNs = 3'000'000'000;
/// How often that time is doubled at most, once for each refusal: to about three minutes.
constexpr int kMostDoublings = 6;
/// Nanoseconds between two tellings of an agent that changes.
constexpr uint64_t kTellChangesNs = 1'000'000'000;

}  // namespace

// ---------------------------------------------------------------------------------------------
// Calls of the agents' processes

Result<uint64_t> OwnAgents::Add(Tenant* tenant, const AgentOrder& order) {
  const std::string& user = tenant->identity.name;
  if (const auto wait = registrations_.Look(user, std::chrono::steady_clock::now())) {
    return Status(Code::kInProgress,
                  fmt::format("you register agents too often; try again in {:.1f} s",
                              std::chrono::duration<double>(*wait).count()));
  }
  const auto of_tenant = std::count_if(
      agents_.begin(), agents_.end(), [&](const auto& one) { return one.second.tenant == tenant; });
  if (of_tenant >= kMostOfTenant) {
    return InvalidUsage("{} agents of this user are on this host already, as many as may be",
                        of_tenant);
  }
  const std::optional<JobIdentity> named = ParseJob(order.job);
  // An id is of a job that is here: another tenant's would be one of this tenant's own, too.
  if (named.has_value() && services_.jobs->FindById(*named, tenant->identity.number) == nullptr) {
    return InvalidUsage(
        "you have no job of this id on this host; give its name, by which it is found once it has "
        "ranks here");
  }
  const uint32_t across_hosts = tenant->identity.across_hosts;
  const JobClaim claim{.id = named.value_or(JobOfName(order.job, across_hosts)),
                       .name = named.has_value() ? "" : order.job};
  Job* const job = services_.jobs->Of(claim.id, tenant, claim);
  if (job->agents > 0) {
    return InvalidUsage(
        "job '{}' has an agent on this host already: one starts its ranks on each host; one that "
        "was killed is forgotten after {:.0f} s",
        job->label(), kLeaseSeconds);
  }
  const LogFor log_for(tenant->identity);
  Agent agent{.view = {.number = RandomNumber(), .places = order.places}, .tenant = tenant};
  if (services_.cluster != nullptr && services_.cluster->listens()) {
    agent.view.address = services_.cluster->address();
  }
  HZ_ASSIGN_OR_RETURN(agent.memory, tenant->account->Take(Resource::kMemory, kAgentBytes));
  agent.job = JobHold(services_.jobs, job, &Job::agents);
  HZ_RETURN_IF_ERROR(TakeTicket(agent, order.ticket));
  // What is refused is told to nobody, and does not count.
  static_cast<void>(registrations_.Take(user, std::chrono::steady_clock::now()));
  agent.began_seconds = UnixSeconds();
  agent.renewed_ns = MonotonicNanoseconds();
  const uint64_t number = agent.view.number;
  Log(LogLevel::kInfo, kLogInit, "job '{}' of {} has an agent here, with {} places",
      agent.job.job()->label(), tenant->name(), order.places);
  Agent& kept = agents_.emplace(number, std::move(agent)).first->second;
  if (HasWay(kept)) {
    TellHosts(kept, false, kept.renewed_ns);
  } else {
    Ask(kept, kept.renewed_ns);
  }
  return number;
}

Status OwnAgents::Renew(const Tenant& tenant, uint64_t number, const AgentOrder& order) {
  HZ_RETURN_IF_ERROR(CheckIsOf(tenant.identity.number, number));
  Agent& agent = agents_.at(number);
  agent.renewed_ns = MonotonicNanoseconds();
  if (agent.view.places != order.places) agent.is_changed = true;
  agent.view.places = order.places;
  return order.ticket.empty() ? Status::Ok() : TakeTicket(agent, order.ticket);
}

Status OwnAgents::Remove(const Tenant& tenant, uint64_t number) {
  HZ_RETURN_IF_ERROR(CheckIsOf(tenant.identity.number, number));
  End(agents_.find(number));
  return Status::Ok();
}

// A ticket of a job that has its home here is looked at at once; another one by its home.
Status OwnAgents::TakeTicket(Agent& agent, const std::string& text) {
  if (text.empty()) return Status::Ok();
  HZ_ASSIGN_OR_RETURN(const Ticket ticket, ParseTicket(text));
  std::optional<transport::NetworkAddress> address;
  if (services_.cluster != nullptr) {
    HZ_ASSIGN_OR_RETURN(address, services_.cluster->HomeOf(ticket.home));
  }
  const TicketDigest digest = DigestOf(ticket);
  if (!address.has_value()) {
    return services_.tickets
        ->Check(digest, agent.job.job()->id, agent.tenant->identity.across_hosts, agent.tenant)
        .status();
  }
  if (!services_.cluster->listens()) {
    return InvalidUsage(
        "other daemons do not reach the one of this host, so a job of other hosts can have no "
        "agent here ([cluster] address in provider.toml)");
  }
  if (!agent.ticket.has_value() || agent.ticket->digest != digest) {
    agent.asked_ns = 0;
    agent.refusals = 0;
  }
  agent.ticket = Way{digest, address->ToString()};
  return Status::Ok();
}

Status OwnAgents::CheckIsOf(uint32_t tenant, uint64_t number) const {
  const auto found = agents_.find(number);
  if (found != agents_.end() && found->second.tenant->identity.number == tenant) {
    return Status::Ok();
  }
  return Unavailable(
      "you have no such agent here: it has ended, was not renewed for {:.0f} s, or the daemon was "
      "restarted; register it again",
      kLeaseSeconds);
}

void OwnAgents::End(Agents::iterator agent) {
  TellHosts(agent->second, true, MonotonicNanoseconds());
  while (!agent->second.ties.empty()) Untie(agent->second, agent->second.ties.begin()->first);
  Job& job = *agent->second.job.job();
  const LogFor log_for(job.tenant->identity);
  Log(LogLevel::kInfo, kLogInit, "an agent of job '{}' of {} has gone", job.label(),
      job.tenant->name());
  if (!services_.by_job->Has(&job)) on_job_gone_(job);
  agents_.erase(agent);
}

// ---------------------------------------------------------------------------------------------
// Looking up

AgentReport OwnAgents::Describe(const Agent& agent) const {
  const Job& job = *agent.job.job();
  const double silent_seconds =
      static_cast<double>(MonotonicNanoseconds() - agent.renewed_ns) * 1e-9;
  AgentReport report{.number = agent.view.number,
                     .job = &job,
                     .places = agent.view.places,
                     .ranks_here = static_cast<int>(services_.by_job->RanksHere(job).size()),
                     .ranks = RanksOf(job),
                     .problem = agent.problem,
                     .began_seconds = agent.began_seconds,
                     .gone_seconds = std::max(0.0, kLeaseSeconds - silent_seconds),
                     .has_ticket = agent.ticket.has_value(),
                     .ties = static_cast<int>(agent.ties.size())};
  if (HasWay(agent)) {
    report.standing = AgentReport::Standing::kAttached;
    report.problem = Status::Ok();
  } else if (agent.ticket.has_value() && agent.problem.ok()) {
    report.standing = AgentReport::Standing::kAsking;
  }
  return report;
}

Result<AgentReport> OwnAgents::Find(uint32_t tenant, uint64_t number) const {
  HZ_RETURN_IF_ERROR(CheckIsOf(tenant, number));
  return Describe(agents_.at(number));
}

std::vector<AgentReport> OwnAgents::All(std::optional<uint32_t> tenant) const {
  std::vector<AgentReport> reports;
  for (const auto& [number, agent] : agents_) {
    if (!tenant.has_value() || agent.tenant->identity.number == *tenant) {
      reports.push_back(Describe(agent));
    }
  }
  return reports;
}

uint64_t OwnAgents::AllPlaces() const {
  uint64_t places = 0;
  for (const auto& [number, agent] : agents_) places += static_cast<uint64_t>(agent.view.places);
  return places;
}

const OwnAgents::Agent* OwnAgents::AgentOf(const Job& job) const {
  if (job.agents == 0) return nullptr;
  const auto found = std::find_if(agents_.begin(), agents_.end(),
                                  [&](const auto& one) { return one.second.job.job() == &job; });
  return found == agents_.end() ? nullptr : &found->second;
}

std::optional<int> OwnAgents::PlacesOf(const Job& job) const {
  const Agent* const agent = AgentOf(job);
  return agent == nullptr ? std::nullopt : std::optional(agent->view.places);
}

bool OwnAgents::IsAttached(const Job& job) const {
  const Agent* const agent = AgentOf(job);
  return agent != nullptr && HasWay(*agent);
}

int OwnAgents::RanksOf(const Job& job) const {
  if (const Communicator* const largest = services_.by_job->Largest(job)) return largest->ranks();
  const Agent* const agent = AgentOf(job);
  return agent == nullptr ? 0 : agent->ranks;
}

// ---------------------------------------------------------------------------------------------
// Other hosts

bool OwnAgents::HasWay(const Agent& agent) const {
  return services_.by_job->Has(agent.job.job()) || !agent.ties.empty();
}

void OwnAgents::Tick() {
  const uint64_t now = MonotonicNanoseconds();
  constexpr auto kLeaseNs = static_cast<uint64_t>(kLeaseSeconds * 1e9);
  for (auto one = agents_.begin(); one != agents_.end();) {
    const auto next = std::next(one);
    Agent& agent = one->second;
    if (now - agent.renewed_ns > kLeaseNs) {
      End(one);
      one = next;
      continue;
    }
    std::vector<transport::PeerId> silent;
    for (const auto& [peer, heard_ns] : agent.ties) {
      if (now - heard_ns > kTieLastsNs) silent.push_back(peer);
    }
    for (const transport::PeerId peer : silent) Untie(agent, peer);
    if (!HasWay(agent)) {
      agent.ranks = 0;
      Ask(agent, now);
    } else if (now - agent.told_ns > (agent.is_changed ? kTellChangesNs : kTellEveryNs)) {
      TellHosts(agent, false, now);
    }
    one = next;
  }
}

// The first request goes out at once, and others some time after the one before.
void OwnAgents::Ask(Agent& agent, uint64_t now_ns) {
  // A ticket that was refused is tried ever more seldom.
  const uint64_t pause = kAskEveryNs << std::min(agent.refusals, kMostDoublings);
  const bool waits = agent.asked_ns != 0 && now_ns - agent.asked_ns < pause;
  if (!agent.ticket.has_value() || waits) return;
  agent.asked_ns = now_ns;
  const LogFor log_for(agent.tenant->identity);
  services_.cluster->Reach(
      agent.ticket->address,
      lifetime_.Guard([this, number = agent.view.number](const Result<transport::PeerId>& peer) {
        OnReached(number, peer);
      }));
}

void OwnAgents::OnReached(uint64_t number, const Result<transport::PeerId>& peer) {
  const auto found = agents_.find(number);
  if (found == agents_.end()) return;  // gone meanwhile
  Agent& agent = found->second;
  if (!peer.ok()) {
    agent.problem = RemoteError(
        "the daemon that kept the ticket cannot be reached now, and may be gone with its tickets; "
        "a rank of the job makes a new one (harmonaize ticket make)");
    return;
  }
  const TenantIdentity& tenant = agent.tenant->identity;
  const AttachMessage attach{.agent = agent.view,
                             .digest = {agent.ticket->digest.begin(), agent.ticket->digest.end()},
                             .job = EncodeJob(agent.job.job()->id),
                             .user = tenant.across_hosts};
  // What is not taken now is asked again.
  static_cast<void>(services_.cluster->SendFor(tenant, *peer, attach));
}

void OwnAgents::TellHosts(Agent& agent, bool gone, uint64_t now_ns) {
  agent.told_ns = now_ns;
  agent.is_changed = false;
  const AgentMessage message{
      .about = 0, .unique = RandomNumber(), .agent = agent.view, .gone = gone};
  Job& job = *agent.job.job();
  job.heard.Add(message.unique);
  // Who does not take it hears it the next time.
  static_cast<void>(services_.relay->Spread(job, message, {}));
}

// A communicator forms often, and most jobs have no agent.
void OwnAgents::OnChanged(const Job& job) {
  if (job.agents == 0) return;
  for (auto& [number, agent] : agents_) {
    if (agent.job.job() == &job) agent.is_changed = true;
  }
}

void OwnAgents::OnTie(transport::PeerId peer, const TieMessage& tie) {
  const auto found = agents_.find(tie.number);
  if (found == agents_.end()) return;
  Agent& agent = found->second;
  Job& job = *agent.job.job();
  if (job.id != DecodeJob(tie.job) || agent.tenant->identity.across_hosts != tie.user) return;
  if (!tie.status.ok()) {
    agent.problem = tie.status;
    ++agent.refusals;
    Untie(agent, peer);
    return;
  }
  agent.problem = Status::Ok();
  agent.refusals = 0;
  agent.ranks = tie.ranks;
  const bool is_new = !agent.ties.contains(peer);
  agent.ties[peer] = MonotonicNanoseconds();
  if (!is_new) return;
  services_.attachments->Add(&job, tie.number, peer);
  services_.on_tied(job);
}

void OwnAgents::Untie(Agent& agent, transport::PeerId peer) {
  agent.ties.erase(peer);
  services_.attachments->Remove(agent.view.number, peer);
}

void OwnAgents::OnPeerLost(transport::PeerId peer) {
  for (auto& [number, agent] : agents_) {
    if (!agent.ties.contains(peer)) continue;
    Untie(agent, peer);
    agent.problem = RemoteError("the daemon that looked after the job is lost");
  }
}

}  // namespace harmonaize::daemon
