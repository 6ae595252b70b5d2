#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "daemon/cluster/messages/diagnosis.h"

namespace harmonaize::daemon {

inline constexpr uint64_t kNanosecondsPerSecond = 1'000'000'000;

/// What the processes do that keep others waiting, by the looks at them, and which are to be looked
/// at next. A process is called running for a while after it was seen running, so that one which
/// computes and reads in turns does not seem to hang. A state machine that is given the time.
/// Thread: engine.
class ProcessTable {
 public:
  /// `settle_ns`: what a process has done for this long is settled.
  explicit ProcessTable(uint64_t settle_ns);

  /// What is known of a process.
  struct Known {
    Doing doing = Doing::kUnknown;
    uint64_t since_ns = 0;  ///< Since when it was seen doing this and nothing else.
    bool settled = false;   ///< For longer than settle_ns.
  };

  /// Returns whether a process (Session::id) of a tenant (TenantIdentity::number) is to be looked
  /// at now, and counts it as looked at. One process is looked at about once a second, and of a
  /// tenant's processes so many a second.
  bool Want(uint32_t process, uint32_t tenant, uint64_t now_ns);
  /// Takes in what a look has shown. kUnknown: it could not be looked at.
  void Note(uint32_t process, Doing doing, uint64_t now_ns);
  Known Of(uint32_t process, uint64_t now_ns) const;
  /// Forgets processes that nobody has asked about for a while.
  void ForgetOld(uint64_t now_ns);
  size_t size() const { return processes_.size(); }

 private:
  struct Entry {
    uint64_t wanted_ns = 0;
    uint64_t looked_ns = 0;   // when it was last asked to be looked at
    uint64_t seen_ns = 0;     // when it was last seen
    uint64_t running_ns = 0;  // when it was last seen running
    Doing doing = Doing::kUnknown;
    uint64_t since_ns = 0;
  };
  struct Budget {
    uint64_t second_ns = 0;
    size_t looks = 0;
  };

  const uint64_t settle_ns_;
  const uint64_t between_looks_ns_;
  const uint64_t runs_on_ns_;  // who was seen running counts as running for so long
  std::map<uint32_t, Entry> processes_;
  std::map<uint32_t, Budget> budgets_;  // by tenant
};

}  // namespace harmonaize::daemon
