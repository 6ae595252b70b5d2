#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/tenant/posted_operation.h"

namespace harmonaize::daemon {

/// The sends and receives between ranks of this host whose other half has not been posted. Each
/// pair of ranks matches its halves in the order in which they were posted. Thread: engine.
class PairMatcher {
 public:
  struct Match {
    PostedOperation* send = nullptr;
    PostedOperation* receive = nullptr;
  };
  /// Bytes of the daemon's memory that a pair of ranks takes while a half of theirs waits.
  static constexpr size_t kPairBytes = 128;

  /// Takes in one half, whose rank and peer exist. Returns the match if that makes one.
  std::optional<Match> Add(PostedOperation* part);
  /// Removes and returns the halves that this rank has posted, and those that wait for it.
  std::vector<PostedOperation*> TakeWith(int rank);
  std::vector<PostedOperation*> TakeAll();

  /// Number of halves that wait.
  size_t size() const { return size_; }
  /// Number of pairs of ranks that have them: up to the square of the ranks.
  size_t pairs() const { return queues_.size(); }

  /// Calls `call` with the first waiting half of up to `most` pairs of ranks, and with the time at
  /// which to report that its peer is late. Begins behind the pairs that were looked at last.
  template <typename Call>
  void LookAtSome(size_t most, Call&& call) {
    auto next = queues_.upper_bound(looked_at_);
    for (size_t i = 0; i < most && i < queues_.size(); ++i, ++next) {
      if (next == queues_.end()) next = queues_.begin();
      looked_at_ = next->first;
      Queue& queue = next->second;
      call(queue.first, &queue.next_report_ns);
    }
  }
  /// Calls `call` with up to `most` halves. Returns how many others wait.
  template <typename Call>
  size_t ForFirst(size_t most, Call&& call) const {
    size_t looked_at = 0;
    for (const auto& [ranks, queue] : queues_) {
      for (PostedOperation* part = queue.first; part != nullptr; part = part->next_of_pair) {
        if (looked_at == most) return size_ - looked_at;
        call(part);
        ++looked_at;
      }
    }
    return 0;
  }

 private:
  /// Halves of one kind, since the other kind would match.
  struct Queue {
    PostedOperation* first = nullptr;
    PostedOperation* last = nullptr;
    uint64_t next_report_ns = 0;
  };
  using Ranks = std::pair<int, int>;  // sender, receiver

  template <typename Wanted>
  std::vector<PostedOperation*> TakeWhere(Wanted&& wanted);

  std::map<Ranks, Queue> queues_;  ///< None of them is empty.
  Ranks looked_at_{-1, -1};
  size_t size_ = 0;
};

}  // namespace harmonaize::daemon
