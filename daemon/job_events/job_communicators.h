#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/communicator/communicator_observer.h"

namespace harmonaize::daemon {

struct Job;

/// The communicators of each job on this host, in the orders in which events need them. A tenant
/// may have thousands, so nothing here goes through all of them. Thread: engine.
class JobCommunicators final : public CommunicatorObserver {
 public:
  /// Returns whether ranks of the job are on this host.
  bool HasRanksHere(const Job* job) const;
  /// Returns the jobs that have ranks on this host.
  std::vector<Job*> WithRanksHere() const;
  /// Returns the largest communicator of a job with ranks here: in most programs that is the one of
  /// all ranks. One that still carries out operations goes before those that have ended, which
  /// programs keep for a while after a shrink. Returns nullptr if the job has no ranks here.
  const Communicator* Largest(const Job& job) const;
  /// Returns the ranks of a job on this host that have not left, as that communicator numbers them.
  std::vector<int32_t> RanksHere(const Job& job) const;

  /// Returns whether the job has communicators here, with or without ranks on this host.
  bool Has(const Job* job) const { return jobs_.contains(job); }
  /// Returns Communicator::id of all of them.
  std::vector<uint64_t> IdsOf(const Job& job) const;

  /// Calls `visit(communicator)` with communicators that reach, together with `covered`, all other
  /// hosts that the job is on as far as this one knows. Wide ones come first. `covered` holds
  /// addresses of daemons (Roster::addresses) that need no visit.
  template <typename Visit>
  void VisitWays(const Job& job, std::set<std::string> covered, Visit&& visit) const;

  /// Returns the hosts of a communicator that spans some, by their daemons' addresses.
  static std::set<std::string> HostsOf(const Communicator& communicator);

  // CommunicatorObserver. It is the first of those that tell of events.

  void OnFormed(const Communicator& communicator, int hosts) override;
  void OnEnded(const Communicator& communicator) override;

 private:
  using Hosts = std::set<std::string>;
  struct WidestFirst {
    bool operator()(const Hosts& a, const Hosts& b) const {
      return a.size() != b.size() ? a.size() > b.size() : a < b;
    }
  };
  using ById = std::map<uint64_t, const Communicator*>;  ///< By Communicator::id.
  struct OfJob {
    std::map<Hosts, ById, WidestFirst> by_hosts = {};   ///< Those that span hosts.
    std::map<std::string, size_t> hosts = {};           ///< How many span each host.
    std::map<int, ById, std::greater<>> by_ranks = {};  ///< Those with ranks here.
  };

  std::map<Job*, OfJob, std::less<>> jobs_;
};

template <typename Visit>
void JobCommunicators::VisitWays(const Job& job, Hosts covered, Visit&& visit) const {
  const auto found = jobs_.find(&job);
  if (found == jobs_.end()) return;
  const OfJob& communicators = found->second;
  for (const auto& [hosts, spanning] : communicators.by_hosts) {
    if (covered.size() >= communicators.hosts.size()) return;
    if (std::includes(covered.begin(), covered.end(), hosts.begin(), hosts.end())) continue;
    covered.insert(hosts.begin(), hosts.end());
    visit(*spanning.begin()->second);
  }
}

}  // namespace harmonaize::daemon
