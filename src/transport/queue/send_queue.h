#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/transport/link/message_board.h"
#include "src/transport/link/rail_traffic.h"
#include "src/transport/queue/bulk_queue.h"
#include "src/transport/queue/fair_turns.h"
#include "src/transport/queue/numbered_pool.h"
#include "src/transport/queue/owner_rates.h"
#include "src/transport/queue/pace.h"
#include "src/transport/queue/turn_index.h"

namespace harmonaize::transport {

/// The messages that one connection is to send, of several tenants and their jobs. While several
/// tenants have something to send they share the connection by their weights, and the jobs of each
/// get equal shares, whatever the number and sizes of their messages. Jobs of one tenant that have
/// different priorities share as those of different tenants do. Within bounds, the flow that is
/// nearer to the end of its operation goes first (FairTurns).
///
/// A job whose owner has had less than its floor on this device goes before all others; that costs
/// its tenant no turn. Who is held to a cap or a limit lets the others pass.
///
/// The steps of a turn grow with the logarithm of the jobs and owners that wait, however many a
/// tenant has: limits hold for owners and tenants, and one that has reached its limit is put aside
/// as a whole until the limit lets it go on. These steps are linear: a turn looks at each tenant
/// that is put aside, at kMostFloorLooks owners with floors at most, and now and then at all
/// tenants (FairTurns::SetBack). A large send that is added looks at the operations of its own job.
/// The first message of a tenant may look at all jobs of one whose place it takes; SetPaces and
/// AddTraffic look at all owners or jobs.
///
/// Small messages of a job go before frames of its large ones. Requests may leave by Unlink.
/// Allocates nothing for as many tenants, owners and jobs at a time as it has seen.
class SendQueue {
 public:
  SendQueue() = default;
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  /// Adds a send that was just made.
  void Push(Request* send);
  /// Adds a large send whose receiver is ready.
  void PushBulk(Request* send);
  /// Puts back a send of which a frame has gone and more is to go, before all others of its
  /// operation.
  void ReturnBulk(Request* send);

  struct Turn {
    Request* send = nullptr;
    bool bulk = false;  ///< It was added by PushBulk.
  };
  /// Removes and returns the send whose turn it is; none when nothing is left. The caller reports
  /// the bytes sent by Charge.
  Turn Next();
  void Charge(const Request& send, size_t bytes);

  /// Sets the paces that owners and tenants keep to. When one that had to wait may go on, `writer`
  /// is called. Both arguments must stay valid until they are set anew.
  void SetPaces(const RailPaces& paces, Poller::Handler* writer);
  /// Sets where the floors and caps of owners on this connection's device are kept. Both arguments
  /// must stay valid as long as the queue.
  void SetRates(OwnerRates* rates, Poller::Handler* writer);
  /// Adds the traffic of jobs to `traffic`, which is sorted by tenant and job.
  void AddTraffic(std::vector<JobTraffic>* traffic) const;

  /// Sets the connection's rate, as far as it is known. Tenants and jobs may get ahead of each
  /// other by kLeadSeconds of it.
  void SetRate(double bytes_per_second);

  /// Seconds of the connection's rate by which tenants and jobs may get ahead of each other.
  static constexpr double kLeadSeconds = 0.2;
  /// Turns in a row that floors may have while others wait: so a connection that carries less than
  /// was promised does not shut the others out.
  static constexpr int kMostFloorTurns = 15;
  /// Owners with floors that one turn looks at to find the one that is furthest behind, so that a
  /// turn stays short however many there are. The next turn looks at the next ones.
  static constexpr int kMostFloorLooks = 64;

  /// Returns at how many owners turns have looked so far: tests count a turn's steps.
  uint64_t looks() const { return looks_; }

 private:
  struct Owner;
  struct Job : FairTurn {
    Owner* owner = nullptr;
    IntrusiveList<Request> small;
    BulkQueue bulk;
    uint64_t sent = 0;

    void Begin() { sent = 0; }
    Request* Front() { return small.empty() ? bulk.Front() : small.Front(); }
  };
  struct Group;
  /// A place in the list of owners with floors.
  struct FloorPlace : ListNode {
    explicit FloorPlace(Owner* of) : owner(of) {}
    Owner* const owner;
  };
  /// The jobs of an owner in a group. They are looked at through their owner, so that limits, which
  /// hold for owners, need not be looked at for each.
  struct Owner : TurnPlace, ListNode {
    uint64_t id = 0;
    Group* group = nullptr;
    TurnIndex jobs;                   // that have something to send
    Pace* pace = nullptr;             // on this rail; nullptr: it has no limit
    std::shared_ptr<OwnerRate> rate;  // while it has something to send; nullptr: it has no terms
    bool held = false;                // whether it is in held_owners_ and not in its group's index
    FloorPlace by_floor{this};        // linked while it is in its group's index and has a floor
  };
  /// The jobs of a tenant that have one priority.
  struct Group : FairTurn {
    FairTurns<Job> jobs;
    NumberedPool<Owner> owners;
    TurnIndex ready;       // owners that have something to send and, as far as is known, may
    int held_owners = 0;   // with this group
    Pace* pace = nullptr;  // the tenant's, as Owner::pace
    std::shared_ptr<OwnerRate> rate;  // likewise
    bool held = false;                // whether it is in held_groups_ and not in ready_
    uint64_t due_ns = 0;              // while it is held: when it may go on

    void Begin() { jobs.BeginAll(); }
  };
  /// The number of a group: the tenant's, with the priority above it. No terms hold for the
  /// daemon's own messages, so they are a group of their own.
  static constexpr uint64_t kOwnMessages = uint64_t{1} << 40;
  static uint64_t GroupOf(const TenantShare& share) {
    return (share.owner == 0 ? kOwnMessages : 0) | uint64_t{share.priority} << 32 | share.tenant;
  }

  Job* JobOf(const TenantShare& share);
  Owner* OwnerOf(const TenantShare& share, Group* group);
  void SetTerms(const TenantShare& share, Owner* owner);
  void SetPaces(Owner* owner) const;
  void Place(Job* job);
  void Place(Owner* owner);
  void Place(Group* group);
  Owner* NextByFloor(uint64_t now_ns);
  Owner* NextByTurn();
  Job* Admit(Owner* owner, uint64_t now_ns);
  double WaitNs(const Owner& owner, uint64_t now_ns) const;
  double WaitNs(const Group& group, uint64_t now_ns) const;
  void Hold(Owner* owner, double wait_ns, uint64_t now_ns);
  void Hold(Group* group, double wait_ns, uint64_t now_ns);
  void Release(Owner* owner);
  void Release(Group* group);
  void ReleaseDue(uint64_t now_ns);
  void CallWhenDue(uint64_t now_ns);
  void CallLater(Pace* pace, double wait_ns, uint64_t now_ns);

  FairTurns<Group> groups_;
  TurnIndex ready_;                   // groups that have something to send and may
  TurnIndex held_owners_;             // by when they are due
  IntrusiveList<Group> held_groups_;  // by their limits and caps
  IntrusiveList<FloorPlace> floors_;
  const RailPaces* paces_ = nullptr;
  OwnerRates* rates_ = nullptr;
  Poller::Handler* writer_ = nullptr;
  double lead_ = 0;
  bool by_floor_ = false;  // whether the last turn was given for a floor
  int floor_turns_ = 0;    // in a row
  uint64_t looks_ = 0;
};

}  // namespace harmonaize::transport
