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
  /// Returns how a collective has ended; nullptr if it has not ended, or is forgotten.
  const ProgressMessage* Find(uint64_t sequence) const {
    for (const ProgressMessage& ended : ended_) {
      if (ended.sequence == sequence) return &ended;
    }
    return nullptr;
  }
  /// Returns whether the ranks were told that a collective that has ended here went well. A
  /// forgotten one counts as such.
  bool EndedWell(uint64_t sequence) const {
    const ProgressMessage* const ended = Find(sequence);
    return ended == nullptr || ended->state != HostProgress::kFailed;
  }

 private:
  /// Most ends that are remembered: more than a host may have begun without the home's word
  /// (kMostOpen in start_confirmation.cc).
  static constexpr size_t kMost = 256;

  std::deque<ProgressMessage> ended_;
};

}  // namespace harmonaize::daemon
