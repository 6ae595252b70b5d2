#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/hostile/field.h"

namespace harmonaize::testing {

/// Settings of the attackers.
struct AttackPlan {
  /// Daemons that are attacked; each stands for a host.
  int hosts = 1;
  /// Their sockets, by host.
  std::vector<std::string> socket_paths;
  /// Their ports for NCCL's RAS clients, by host.
  std::vector<uint16_t> ras_ports;
  uint64_t seed = 1;
  /// Attackers at a time. Each makes one attack after the other. All attacks come equally often,
  /// except that those that need two hosts come kTimesOverHosts times as often.
  int attackers = 4;
  /// Name of the only attack to make; "": all.
  std::string only;
};

inline constexpr int kTimesOverHosts = 2;

/// Returns the numbers of the attacks to make, by AllAttacks; none where so many hosts have no
/// attack of that name.
std::vector<size_t> AttacksOf(const AttackPlan& plan);

/// Processor time of a process and all its descendants.
struct ProcessorTime {
  double seconds = 0;
};

/// Attackers at work, as an unprivileged user, in a process number space of their own: none of them
/// is left when it ends.
class Attackers {
 public:
  /// Starts them; they end by themselves after `seconds`. Their attacks and draws depend on the
  /// seed and on how many attacks were begun before (Field::turns).
  Attackers(const AttackPlan& plan, Field* field, double seconds);
  /// Waits for the end. Returns the processor time that they have used.
  ProcessorTime Wait();

 private:
  pid_t space_ = -1;
};

/// Returns why attackers cannot be started here; "" where they can.
std::string WhyNoAttackers();

/// Runs as many processes of the attackers' user as there were attackers. Each uses as much
/// processor time as one attacker did in each of its runs, one after the other, without talking to
/// the daemon; `time` is what all used. Returns after `seconds`, with the time that was really
/// used.
ProcessorTime BurnInstead(int processes, const Field& field, double seconds, ProcessorTime time);

}  // namespace harmonaize::testing
