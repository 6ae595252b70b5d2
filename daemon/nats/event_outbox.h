#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <string>

namespace harmonaize::daemon {

/// Events that wait to be published. Tenants take turns, and the events of one tenant go in the
/// order in which they came. Where too many wait the oldest are given up: those of the tenant that
/// has too many, or, where all together have, those of the tenant whose events take the most
/// memory. Thread: one at a time.
class EventOutbox {
 public:
  /// Most that waits. The memory that a tenant can take here is bounded by these alone.
  struct Limits {
    size_t events_of_tenant = 4096;
    size_t bytes_of_tenant = size_t{4} << 20;
    size_t events = 65536;
    size_t bytes = size_t{64} << 20;
  };
  struct Entry {
    uint32_t tenant = 0;  ///< TenantIdentity::number.
    std::string subject;
    std::string id;       ///< The event's, by which subscribers know it again.
    std::string content;  ///< What is sent.
  };

  explicit EventOutbox(Limits limits) : limits_(limits) {}

  /// Adds an event behind the others of its tenant.
  void Add(Entry entry);
  /// Removes and returns the first event of the tenant whose turn it is; nullopt if none waits.
  std::optional<Entry> Take();
  /// Puts the event that was taken last back before the others of its tenant, who waits for its
  /// next turn.
  void PutBack(Entry entry);

  bool empty() const { return events_ == 0; }
  size_t size() const { return events_; }
  /// Bytes that the events take, roughly.
  size_t bytes() const { return bytes_; }
  /// Events that have been given up since this object was made.
  uint64_t given_up() const { return given_up_; }

 private:
  struct Queue {
    uint32_t tenant = 0;
    std::deque<Entry> entries;
    size_t bytes = 0;
  };
  using Queues = std::list<Queue>;

  static size_t BytesOf(const Entry& entry);
  Queues::iterator QueueOf(uint32_t tenant);
  Entry RemoveFirst(Queues::iterator queue);
  void KeepWithinLimits(Queues::iterator queue);
  void GiveUpFirst(Queues::iterator queue);

  const Limits limits_;
  Queues queues_;                                ///< In the order of turns; none is empty.
  std::map<uint32_t, Queues::iterator> places_;  ///< By tenant.
  size_t events_ = 0;
  size_t bytes_ = 0;
  uint64_t given_up_ = 0;
};

}  // namespace harmonaize::daemon
