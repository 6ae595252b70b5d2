#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/transport/link/message_board.h"
#include "src/transport/link/rail_traffic.h"
#include "src/transport/queue/bulk_queue.h"
#include "src/transport/queue/fair_turns.h"
#include "src/transport/queue/owner_rates.h"
#include "src/transport/queue/pace.h"

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
/// Small messages of a job go before frames of its large ones. Requests may leave by Unlink.
/// Allocates nothing for as many tenants and jobs at a time as it has seen.
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

  /// Sets the paces that owners keep to. When one that had to wait may go on, `writer` is called.
  /// Both arguments must stay valid until they are set anew.
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

 private:
  struct Job : FairTurn {
    SendQueue* queue = nullptr;
    uint32_t tenant = 0;
    uint64_t owner = 0;
    IntrusiveList<Request> small;
    BulkQueue bulk;
    Pace* pace = nullptr;  // on this rail; nullptr: it has no limit
    uint64_t sent = 0;

    void Begin() { sent = 0; }
    bool Held() { return queue->Holds(*this); }
    bool HasSends() { return Front() != nullptr; }
    uint64_t Left() { return Front()->left; }
    Request* Front() { return small.empty() ? bulk.Front() : small.Front(); }
  };
  /// The jobs of a tenant that have one priority.
  struct Group : FairTurn {
    FairTurns<Job> jobs;

    void Begin() { jobs.BeginAll(); }
    bool Held() { return jobs.Next() == nullptr; }
    bool HasSends() { return jobs.AnyWaits(); }
    uint64_t Left() { return jobs.Next()->Left(); }
  };
  /// The number of a group: the tenant's, with the priority above it.
  static uint64_t GroupOf(const TenantShare& share) {
    return uint64_t{share.priority} << 32 | share.tenant;
  }
  Job* Waiting(const Request& send);
  bool Holds(const Job& job);
  Job* NextByFloor();

  FairTurns<Group> groups_;
  const RailPaces* paces_ = nullptr;
  OwnerRates* rates_ = nullptr;
  Poller::Handler* writer_ = nullptr;
  double lead_ = 0;
  bool by_floor_ = false;  // whether the last turn was given for a floor
  int floor_turns_ = 0;    // in a row
};

}  // namespace harmonaize::transport
