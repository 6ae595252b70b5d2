#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/cluster/messages/message.h"
#include "daemon/communicator/communicator_observer.h"
#include "daemon/config/policy.h"
#include "daemon/identity/job_identity.h"
#include "daemon/identity/tenant_identity.h"
#include "daemon/job_events/job_relay.h"
#include "daemon/quota/holdings.h"
#include "daemon/quota/rate_table.h"
#include "daemon/requirements/fair_queue.h"
#include "daemon/requirements/grant.h"
#include "daemon/requirements/statement_inbox.h"
#include "daemon/requirements/statements.h"
#include "daemon/runtime/lifetime.h"
#include "daemon/runtime/loop_timer.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

/// The requirements of one job, and what was granted of them. A plain value, for any thread.
struct RequirementsView {
  std::string job;       ///< JobIdentity::text().
  std::string name;      ///< Job::name.
  uint64_t changes = 0;  ///< How often the grant has changed on this host.
  std::shared_ptr<const Requirements> stated;
  std::shared_ptr<const Grant> grant;
  /// Shortfalls that the grant does not know. Links may have no room for a floor that was granted.
  /// A job may have begun with another name or kind.
  std::vector<Shortfall> more_shortfalls;
};

class Background;
class CommunicatorRegistry;
class EventLoop;
class JobCommunicators;
class JobTable;

/// What tenants have said of their jobs on this host, and what was granted. A statement is made at
/// any host of a job, and goes to all of them by the relay, as an event does. Each daemon grants by
/// its own provider's policy. What was said is forgotten when the job's last communicator on the
/// host has ended. Thread: engine.
class RequirementsBook final : public CommunicatorObserver {
 public:
  /// All of these outlive this object.
  struct Services {
    EventLoop* loop = nullptr;
    Background* background = nullptr;
    const CommunicatorRegistry* communicators = nullptr;
    const JobCommunicators* by_job = nullptr;
    const JobRelay* relay = nullptr;
    JobTable* jobs = nullptr;
    std::function<HostMeans()> host_means = {};
    /// Returns why the floor of a communicator's job does not hold, though it was granted, or OK.
    std::function<Status(const Communicator&)> floor_of = {};
    /// Hears that something else was granted to a job: Job::terms.
    std::function<void(Job&)> on_terms = {};
  };

  RequirementsBook(Services services, PolicyConfig policy);

  /// Takes in what a tenant says of its job. What changes nothing is not counted as a change.
  /// Errors: kInvalidUsage if the job has no communicator and no agent here, or the tenant's memory
  /// does not suffice; kInProgress if the job's requirements change too often.
  Status State(Job& job, const Requirements& statement);
  /// Takes back all that was said. Errors: as State.
  Status Forget(Job& job);
  /// Has the job send no more than this rate from this host over any device, whatever it asks for,
  /// in bytes per second; 0: as its requirements say. It holds until the job is not
  /// here any more.
  void SetRateCeiling(Job& job, double bytes_per_second);
  /// Returns what is known of a job.
  RequirementsView View(const Job& job) const;
  /// Returns what decides the grants of a tenant's jobs.
  GrantBasis BasisFor(const TenantIdentity& tenant) const;

  /// Grants by another policy from now on, whose tenants were found (FindPolicyTenants). Jobs that
  /// are here get their new grants some at a time.
  void SetPolicy(PolicyConfig policy);
  std::shared_ptr<const PolicyConfig> policy() const { return policy_; }

  /// What the engine itself does for the sake of some job.
  struct EngineDuties {
    bool keeps_looking = false;  ///< It looks for work for a while before it sleeps.
    /// Shortest time, in seconds, after which a job wants to be told of late ranks; infinite: no
    /// job has said one.
    double late_after_seconds = std::numeric_limits<double>::infinity();
  };
  const EngineDuties& duties() const { return duties_; }

  /// Takes in a message of another daemon, if it is a statement.
  void OnMessage(transport::PeerId peer, const ClusterMessage& message);

  /// The job has a tie with another host that may not know yet what was said.
  void OnTied(Job& job);
  /// The job has neither communicators nor agents here any more.
  void Drop(Job& job);

  void OnFormed(const Communicator& communicator, int hosts) override;
  void OnEnded(const Communicator& communicator) override;

 private:
  struct Parsed;
  /// The statements about one job, and what was granted of them.
  struct Entry {
    Statements statements;
    /// All that the statements say.
    std::shared_ptr<const Requirements> stated = std::make_shared<const Requirements>();
    /// By the policy of now, with its defaults.
    std::shared_ptr<const Grant> grant = std::make_shared<const Grant>();
    uint64_t changes = 0;     ///< How often the grant has changed here.
    double rate_ceiling = 0;  ///< SetRateCeiling.
    Holding memory;
  };

  const Entry* Find(const Job& job) const;
  Grant WouldGrant(const TenantIdentity& tenant, const Requirements& statement) const;
  std::vector<Shortfall> RefusedFloors(const Job& job, const Requirements& granted) const;
  bool IsHere(const Job& job) const;
  Status CheckHere(const Job& job) const;
  Status CheckPace(const Job& job);
  static Status Pay(const Job& job, int64_t bytes, Holding* memory);
  Status Take(Job& job, Statements statements);
  void Renew(Job& job, Entry& entry);
  void SumUpDuties();
  void RenewSome();
  void TellCommunicators(const Job& job);
  void TellSome();

  void Spread(Job& job, const JobRelay::CameBy& came_by);
  void SendLater(Job& job);
  void SendWhatIsOwed();
  static RequirementsMessage MessageOf(const Statements& statements);
  uint64_t DigestOf(const Job& job) const;
  void OnDigest(transport::PeerId peer, const RequirementsDigestMessage& message);
  void OnAsked(transport::PeerId peer, const AskRequirementsMessage& message);
  void OnStatements(transport::PeerId peer, const RequirementsMessage& message);
  void OnParsed(const StatementInbox::Sender& sender, const Parsed& parsed);

  const Services services_;
  std::shared_ptr<const PolicyConfig> policy_;
  RateTable changes_;  ///< By tenant and job, and by tenant; in minutes' worth of changes.
  std::map<Job*, Entry, std::less<>> entries_;
  EngineDuties duties_;              ///< By all entries.
  FairQueue<uint64_t> to_tell_;      ///< Communicator::id of those whose job has other terms.
  FairQueue<JobIdentity> to_renew_;  ///< Jobs that the policy has not been applied to yet.
  std::set<Job*> owed_;              ///< Jobs whose statements another daemon did not take.
  StatementInbox inbox_;
  LoopTimer retry_;
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
