#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/tenant/posted_operation.h"

namespace harmonaize::daemon {

/// The sends and receives between ranks of this host whose other half has not been posted. Each
/// pair of ranks matches in the order in which they post. Thread: engine.
class PairMatcher {
 public:
  struct Match {
    PostedOperation* send = nullptr;
    PostedOperation* receive = nullptr;
  };

  /// Takes in one half, whose rank and peer exist; its match if that makes one.
  std::optional<Match> Add(PostedOperation* part);
  /// Removes and returns the halves of this rank and those that wait for it.
  std::vector<PostedOperation*> TakeWith(int rank);
  std::vector<PostedOperation*> TakeAll();

  /// Calls with the first that waits of each pair of ranks, and when it is to be reported that its
  /// peer is late.
  template <typename Call>
  void ForEachFirst(Call&& call) {
    for (auto& [ranks, queue] : queues_) {
      PostedOperation* const first =
          queue.sends.empty() ? queue.receives.front() : queue.sends.front();
      call(first, &queue.next_report_ns);
    }
  }
  template <typename Call>
  void ForEach(Call&& call) const {
    for (const auto& [ranks, queue] : queues_) {
      for (const PostedOperation* part : queue.sends) call(part);
      for (const PostedOperation* part : queue.receives) call(part);
    }
  }

 private:
  struct Queue {
    std::deque<PostedOperation*> sends;
    std::deque<PostedOperation*> receives;
    uint64_t next_report_ns = 0;
  };
  using Ranks = std::pair<int, int>;  // sender, receiver

  template <typename Wanted>
  std::vector<PostedOperation*> TakeWhere(Wanted&& wanted);

  /// None of them is empty: there could be as many as the square of the ranks.
  std::map<Ranks, Queue> queues_;
};

}  // namespace harmonaize::daemon
