#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/cluster/messages/ticket.h"
#include "daemon/identity/job_identity.h"
#include "daemon/quota/holdings.h"
#include "daemon/runtime/waiting_count.h"
#include "daemon/tenant/tenant.h"
#include "src/base/status.h"
#include "src/ipc/ticket.h"
#include "src/ipc/unique_id.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

/// SHA-256 of the secret of a ticket. The desk keeps no secret.
using TicketDigest = std::array<uint8_t, kTicketDigestBytes>;

TicketDigest DigestOf(const Ticket& ticket);
/// Returns the digest in a message; zeros stand for what it lacks.
TicketDigest DigestIn(const std::vector<uint8_t>& bytes);

/// A process that waits for a place in a job, by its daemon and the number of its call there.
struct NewcomerKey {
  transport::PeerId peer = 0;
  uint64_t call = 0;
  auto operator<=>(const NewcomerKey&) const = default;
};

/// A place in the communicator to which a job's grows.
struct JobPlace {
  UniqueId id;
  int ranks = 0;  ///< Of the grown communicator.
  int rank = 0;
};

/// The tickets of the jobs that have their home at this daemon, and the newcomers that have come
/// with them. A newcomer holds one use of its ticket from its coming on; the use is spent once the
/// newcomer has become a rank, and free again where that fails. Sends nothing itself, and is given
/// the time. Thread: engine.
class TicketDesk {
 public:
  /// A job of a tenant: TenantIdentity::number, and the job's id.
  using JobKey = std::pair<uint32_t, JobIdentity>;

  struct Order {
    JobKey job;
    Tenant* owner = nullptr;
    bool made_here = false;  ///< A process of this host has asked for the ticket.
    TicketDigest digest{};
    int uses = 1;
    uint64_t expires_ns = 0;
    TicketView view;  ///< For people; without the uses.
  };
  /// Who comes with a ticket.
  struct Asker {
    uint32_t user = 0;               ///< TenantIdentity::across_hosts.
    const Tenant* tenant = nullptr;  ///< nullptr for a process of another host.
    JobIdentity job;                 ///< The job that it names.
  };
  /// Tells a newcomer that it is admitted, or refused. Does not call the desk.
  using Tell = std::function<void(const NewcomerKey&, const Result<JobPlace>&)>;

  TicketDesk(WaitingCount& waiting, Tell tell) : waiting_(waiting), tell_(std::move(tell)) {}

  /// Takes a ticket in. Errors: kInvalidUsage where the tenant has as many as it may.
  Status Add(const Order& order, uint64_t now_ns);
  /// Burns all tickets of a job: newcomers that wait with them are refused, those with a place keep
  /// it. `why` is what the owner's processes are told from now on.
  void Burn(const JobKey& job, const Status& why, uint64_t now_ns);
  /// Returns the job's tickets that can be used, the oldest first.
  std::vector<TicketView> List(const JobKey& job, uint64_t now_ns);

  /// Returns the job of a ticket that the asker may use, whatever newcomers hold of it. Errors:
  /// those of Come.
  Result<JobKey> Check(const TicketDigest& digest, const Asker& asker, uint64_t now_ns);
  /// Lets a newcomer wait. Errors: kInvalidUsage. A stranger gets the same for every ticket; only
  /// the owner's processes are told what is wrong.
  Status Come(const NewcomerKey& newcomer, const TicketDigest& digest, const Asker& asker,
              uint64_t now_ns);
  /// Returns whether there is, or was, such a ticket of the asker's tenant.
  bool Knows(const TicketDigest& digest, const Asker& asker) const;
  /// Returns how many newcomers wait for a place in the job.
  int Waiting(const JobKey& job, uint64_t now_ns);
  /// The newcomer does not wait any more, or has died. Returns the communicator whose growth cannot
  /// complete without it; 0: none.
  uint64_t Leave(const NewcomerKey& newcomer);
  /// The daemon that spoke for newcomers is lost. Returns likewise.
  std::vector<uint64_t> LeaveAllOf(transport::PeerId peer);

  // Admissions: places in the communicator to which another one, `parent`, grows.

  /// Returns the size of the communicator to which `parent` is to grow by an admission that has
  /// not ended; nullopt if there is none.
  std::optional<int> Admitted(uint64_t parent) const;
  /// Gives the first `count` newcomers of the job that wait the places from `first_rank` on.
  /// Requires: so many wait, and `parent` has no admission that has not ended.
  void Admit(uint64_t parent, const JobKey& job, const UniqueId& id, int first_rank, int count,
             uint64_t until_ns);
  /// The growth has ended. Where `outcome` is ok the newcomers are ranks. Otherwise the admission
  /// is kept until its time is over, for ranks that come to the growth later (CheckGrowth).
  void EndAdmission(uint64_t parent, const Status& outcome);
  /// Returns why the growth of `parent` to so many ranks has failed before this rank came to it.
  Status CheckGrowth(uint64_t parent, int ranks, uint64_t now_ns) const;
  /// The communicator is gone, and with it what is known of its admission.
  void ForgetParent(uint64_t parent);

  /// Refuses newcomers whose ticket has expired. Returns the communicators whose admission has
  /// waited until its time was over.
  std::vector<uint64_t> Tick(uint64_t now_ns);

  size_t tickets() const { return tickets_.size(); }
  size_t newcomers() const { return newcomers_.size(); }

 private:
  struct Kept {
    Order order;
    uint64_t number = 0;  ///< Tells which of two tickets is older.
    int held = 0;         ///< Uses that newcomers hold.
    Holding place = {};
    Holding memory = {};
  };
  struct Newcomer {
    TicketDigest ticket{};
    JobKey job;
    uint64_t turn = 0;
    uint64_t parent = 0;  ///< The communicator by whose growth it is to become a rank; 0: it waits.
    Holding place = {};
    WaitingHold waiting = {};
  };
  struct OfJob {
    std::map<uint64_t, TicketDigest> tickets;  ///< By Kept::number.
    std::map<uint64_t, NewcomerKey> waiting;   ///< By Newcomer::turn.
    bool empty() const { return tickets.empty() && waiting.empty(); }
  };
  struct Admission {
    std::vector<NewcomerKey> newcomers;
    int ranks = 0;
    uint64_t until_ns = 0;
    Status failed = {};  ///< Ok: it has not ended.
  };
  /// A ticket that can be used no more, kept so that its owner's processes are told why.
  struct Ended {
    uint32_t tenant = 0;
    uint32_t user = 0;
    Status why;
  };

  static bool IsOwner(const Order& order, const Asker& asker);
  static bool IsOwner(const Ended& ended, const Asker& asker);
  Status WhyNot(const TicketDigest& digest, const Asker& asker) const;
  void End(const TicketDigest& digest, const Status& why);
  void Remember(const TicketDigest& digest, const Order& order, const Status& why);
  void EndExpired(uint64_t now_ns);
  void RefuseWaiting(const TicketDigest& digest, const Status& why);
  void Drop(std::map<NewcomerKey, Newcomer>::iterator newcomer, bool used);
  void ForgetIfEmpty(const JobKey& job);

  WaitingCount& waiting_;
  const Tell tell_;
  uint64_t next_number_ = 1;
  std::map<TicketDigest, Kept> tickets_;
  std::set<std::pair<uint64_t, TicketDigest>> by_expiry_;
  std::map<NewcomerKey, Newcomer> newcomers_;
  std::map<JobKey, OfJob> of_job_;
  std::map<uint64_t, Admission> admissions_;  ///< By parent.
  std::map<TicketDigest, Ended> ended_;
  std::map<uint32_t, std::deque<TicketDigest>> ended_of_tenant_;  ///< The oldest first.
};

}  // namespace harmonaize::daemon
