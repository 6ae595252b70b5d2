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

/// What one connection is to send, of several tenants and their jobs. While more than one of them
/// has something to send the tenants share the connection by their weights, and the jobs of each
/// alike, whatever the number and the sizes of their messages; but for a while whoever is nearer to
/// the end of its operation goes first (FairTurns).
///
/// Of one job small messages go before frames of large ones. Requests may leave by Unlink.
/// Allocates nothing once it has seen as many tenants and jobs at a time.
class SendQueue {
 public:
  SendQueue() = default;
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  /// A send that was just made.
  void Push(Request* send);
  /// A large one whose receiver is ready.
  void PushBulk(Request* send);
  /// A frame of it has gone, and more is to go: before all others of its operation.
  void ReturnBulk(Request* send);

  struct Turn {
    Request* send = nullptr;
    bool bulk = false;  ///< It was pushed as that.
  };
  /// Whose turn it is, taken out; none when nothing is left. What goes of it is told by Charge.
  Turn Next();
  void Charge(const Request& send, size_t bytes);

  /// From now on tenants keep to these. When one may go on that had to wait, `writer` is called;
  /// both are to stay until they are set anew.
  void SetPaces(const TenantPaces& paces, Poller::Handler* writer);
  /// Adds what jobs have sent to `traffic`, which is by tenant and job.
  void AddTraffic(std::vector<JobTraffic>* traffic) const;

  /// What the connection carries, as far as that is known: tenants and jobs may get ahead of each
  /// other by kLeadSeconds of it.
  void SetRate(double bytes_per_second);

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
