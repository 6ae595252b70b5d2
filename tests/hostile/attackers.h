#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/hostile/field.h"

namespace harmonaize::testing {

/// How attackers go about it.
struct AttackPlan {
  std::string socket_path;
  uint64_t seed = 1;
  /// Attackers at a time. Each makes one attack after the other, every one as often as any other.
  int attackers = 4;
  /// The name of the only attack to make; "": all.
  std::string only;
};

/// The numbers of the attacks to make, by AllAttacks; none where there is no attack of that name.
std::vector<size_t> AttacksOf(const AttackPlan& plan);

/// What a process and all that came of it have used.
struct ProcessorTime {
  double seconds = 0;
};

/// Attackers at work, as an unprivileged user, in a process number space of their own: when it
/// ends, nobody of them is left.
class Attackers {
 public:
  /// Starts them; they end by themselves after `seconds`. Which attacks they make, and with what
  /// draws, depends on the seed and on how many were begun before (Field::turns).
  Attackers(const AttackPlan& plan, Field* field, double seconds);
  /// Waits for the end; what they have used of the processors' time.
  ProcessorTime Wait();

 private:
  pid_t space_ = -1;
};

/// Why attackers cannot be had here; "" where they can.
std::string WhyNoAttackers();

/// As many processes of the attackers' user as there were attackers. Each uses as much of the
/// processors' time as one of them did in each of its runs, one after the other, and does not talk
/// to the daemon; `time` is what all used. Returns after `seconds`, with what was really used.
ProcessorTime BurnInstead(int processes, const Field& field, double seconds, ProcessorTime time);

}  // namespace harmonaize::testing
