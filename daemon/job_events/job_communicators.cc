#include "daemon/job_events/job_communicators.h"

#include "daemon/communicator/communicator.h"
#include "daemon/multihost/host_group.h"

namespace harmonaize::daemon {
namespace {

/// Most communicators of a job that are looked at for one that still carries out operations: a
/// tenant may keep thousands that have ended.
constexpr size_t kMostLookedAt = 64;

}  // namespace

bool JobCommunicators::HasRanksHere(const Job* job) const {
  const auto found = jobs_.find(job);
  return found != jobs_.end() && !found->second.by_ranks.empty();
}

std::vector<Job*> JobCommunicators::WithRanksHere() const {
  std::vector<Job*> jobs;
  for (const auto& [job, communicators] : jobs_) {
    if (!communicators.by_ranks.empty()) jobs.push_back(job);
  }
  return jobs;
}

const Communicator* JobCommunicators::Largest(const Job& job) const {
  const auto found = jobs_.find(&job);
  if (found == jobs_.end() || found->second.by_ranks.empty()) return nullptr;
  size_t looked_at = 0;
  for (const auto& [ranks, here] : found->second.by_ranks) {
    for (const auto& [id, communicator] : here) {
      if (communicator->state() == Communicator::State::kReady) return communicator;
      if (++looked_at >= kMostLookedAt) break;
    }
    if (looked_at >= kMostLookedAt) break;
  }
  return found->second.by_ranks.begin()->second.begin()->second;
}

std::vector<int32_t> JobCommunicators::RanksHere(const Job& job) const {
  const Communicator* const largest = Largest(job);
  if (largest == nullptr) return {};
  std::vector<int32_t> ranks;
  for (int rank = 0; rank < largest->ranks(); ++rank) {
    if (!largest->IsRemote(rank) && !largest->HasLeft(rank)) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<uint64_t> JobCommunicators::IdsOf(const Job& job) const {
  const auto found = jobs_.find(&job);
  if (found == jobs_.end()) return {};
  std::set<uint64_t> ids;
  const auto add = [&ids](const ById& some) {
    for (const auto& [id, communicator] : some) ids.insert(id);
  };
  for (const auto& [ranks, here] : found->second.by_ranks) add(here);
  for (const auto& [hosts, spanning] : found->second.by_hosts) add(spanning);
  return {ids.begin(), ids.end()};
}

std::set<std::string> JobCommunicators::HostsOf(const Communicator& communicator) {
  const std::vector<std::string>& addresses = communicator.host_group()->roster().addresses;
  return {addresses.begin(), addresses.end()};
}

void JobCommunicators::OnFormed(const Communicator& communicator, int /*hosts*/) {
  OfJob& of_job = jobs_[communicator.job()];
  if (communicator.has_ranks_here()) {
    of_job.by_ranks[communicator.ranks()][communicator.id()] = &communicator;
  }
  if (communicator.host_group() == nullptr) return;
  const Hosts hosts = HostsOf(communicator);
  if (!of_job.by_hosts[hosts].emplace(communicator.id(), &communicator).second) return;
  for (const std::string& host : hosts) ++of_job.hosts[host];
}

void JobCommunicators::OnEnded(const Communicator& communicator) {
  const auto found = jobs_.find(communicator.job());
  if (found == jobs_.end()) return;
  OfJob& of_job = found->second;
  const auto here = of_job.by_ranks.find(communicator.ranks());
  if (here != of_job.by_ranks.end()) {
    here->second.erase(communicator.id());
    if (here->second.empty()) of_job.by_ranks.erase(here);
  }
  if (communicator.host_group() != nullptr) {
    const Hosts hosts = HostsOf(communicator);
    const auto spanning = of_job.by_hosts.find(hosts);
    if (spanning != of_job.by_hosts.end() && spanning->second.erase(communicator.id()) > 0) {
      if (spanning->second.empty()) of_job.by_hosts.erase(spanning);
      for (const std::string& host : hosts) {
        if (--of_job.hosts[host] == 0) of_job.hosts.erase(host);
      }
    }
  }
  if (of_job.by_ranks.empty() && of_job.by_hosts.empty()) jobs_.erase(found);
}

}  // namespace harmonaize::daemon
