#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "daemon/checkpoint/part_copies.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

/// Parts of this host that other hosts are to keep copies of: few at a time, and tenants take
/// turns, so that none waits for all that another one saves. A plain value.
class ReplicationQueue {
 public:
  /// Most parts that are copied at a time: one on its way while the next one's connection is made.
  static constexpr size_t kMostAtOnce = 2;
  /// Time, in nanoseconds, after which a copy that nobody has told the end of makes room: the other
  /// host may have refused it without a word.
  static constexpr uint64_t kPatienceNs = 120'000'000'000;

  /// Adds a part, unless its copy has begun. It takes the place of an earlier save of the same
  /// rank, which is not worth a copy any more.
  void Add(const PartName& name);
  /// Takes out the part whose copy is to begin now; nullopt: none is. It counts until End.
  std::optional<PartName> Next(uint64_t now_ns);
  /// Notes that a copy has ended, well or not. Returns whether it had begun.
  bool End(const PartName& name) { return begun_.erase(name) > 0; }

  bool empty() const { return waiting_.empty() && begun_.empty(); }

 private:
  using Rank = std::pair<JobTable::Key, int>;
  /// The parts of a tenant that wait: of each rank one.
  struct Waiting {
    std::deque<Rank> order = {};
    std::map<Rank, uint64_t> save_of = {};
  };

  std::map<uint32_t, Waiting> waiting_;  ///< By tenant (JobTable::Key::first).
  std::map<PartName, uint64_t> begun_;   ///< When, by the monotonic clock.
  uint32_t last_tenant_ = 0;             ///< Whose turn was the last one.
};

}  // namespace harmonaize::daemon
