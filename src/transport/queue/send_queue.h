#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/transport/link/message_board.h"
#include "src/transport/link/rail_traffic.h"
#include "src/transport/queue/bulk_queue.h"
#include "src/transport/queue/fair_turns.h"
#include "src/transport/queue/pace.h"

namespace harmonaize::transport {

/// The messages that one connection is to send, of several tenants and their jobs. While several
/// tenants have something to send they share the connection by their weights, and the jobs of each
/// get equal shares, whatever the number and sizes of their messages. Within bounds, the flow that
/// is nearer to the end of its operation goes first (FairTurns).
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

  /// Sets the paces that tenants keep to. When a tenant that had to wait may go on, `writer` is
  /// called. Both arguments must stay valid until they are set anew.
  void SetPaces(const TenantPaces& paces, Poller::Handler* writer);
  /// Adds the traffic of jobs to `traffic`, which is sorted by tenant and job.
  void AddTraffic(std::vector<JobTraffic>* traffic) const;

  /// Sets the connection's rate, as far as it is known. Tenants and jobs may get ahead of each
  /// other by kLeadSeconds of it.
  void SetRate(double bytes_per_second);

  /// Seconds of the connection's rate by which tenants and jobs may get ahead of each other.
  static constexpr double kLeadSeconds = 0.2;

 private:
  struct Job : FairTurn {
    IntrusiveList<Request> small;
    BulkQueue bulk;
    uint64_t sent = 0;

    void Begin() { sent = 0; }
    bool Held() const { return false; }
    bool HasSends() { return Front() != nullptr; }
    uint64_t Left() { return Front()->left; }
    Request* Front() { return small.empty() ? bulk.Front() : small.Front(); }
  };
  struct Tenant : FairTurn {
    FairTurns<Job> jobs;
    Pace* pace = nullptr;
    Poller::Handler* writer = nullptr;

    void Begin() { jobs.BeginAll(); }
    bool Held() { return pace != nullptr && !pace->Admit(writer); }
    bool HasSends() { return jobs.Next() != nullptr; }
    uint64_t Left() { return jobs.Next()->Left(); }
  };
  Job* Waiting(const Request& send);

  FairTurns<Tenant> tenants_;
  const TenantPaces* paces_ = nullptr;
  Poller::Handler* writer_ = nullptr;
  double lead_ = 0;
};

}  // namespace harmonaize::transport
