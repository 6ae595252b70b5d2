#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "daemon/cluster/messages/outcome.h"

namespace harmonaize::daemon {

/// How a communicator's last collectives have ended on this host, for the home to ask. Thread:
/// engine.
class CollectiveHistory {
 public:
  void Add(ProgressMessage ended) {
    ended_.push_back(std::move(ended));
    if (ended_.size() > kMost) ended_.pop_front();
  }
  /// nullptr for one that has not ended, or that is forgotten.
  const ProgressMessage* Find(uint64_t sequence) const {
    for (const ProgressMessage& ended : ended_) {
      if (ended.sequence == sequence) return &ended;
    }
    return nullptr;
  }
  /// Whether the ranks were told that this collective of some time ago went well.
  bool EndedWell(uint64_t sequence) const {
    const ProgressMessage* const ended = Find(sequence);
    return ended == nullptr || ended->state != HostProgress::kFailed;
  }

 private:
  /// Collectives that are remembered.
  static constexpr size_t kMost = 256;

  std::deque<ProgressMessage> ended_;
};

}  // namespace harmonaize::daemon
