#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/cluster/messages/diagnosis.h"

namespace harmonaize::daemon {

// What anyone may read of a process from the kernel, and what it tells. The texts are the kernel's,
// but a process chooses its name, which stands in one of them.

/// What the kernel tells of a process at one moment (proc(5)).
struct ProcessSight {
  char state = '?';  ///< Of its first thread: R, S, D, T, t, Z, ...
  uint64_t major_faults = 0;
  uint64_t ticks = 0;    ///< Processor time of all its threads, in clock ticks.
  bool swapped = false;  ///< Some of its memory is swapped out.
  /// Processes of its control group that were killed for lack of memory; none: not known.
  std::optional<uint64_t> oom_kills;
};

/// Reads /proc/PID/stat into a sight; none for a text that is no such line.
std::optional<ProcessSight> ParseStat(std::string_view text);
/// Returns whether /proc/PID/status tells of swapped memory.
bool ParseSwapped(std::string_view text);
/// Returns the path of the control group (cgroup v2) in /proc/PID/cgroup; "" if there is none that
/// may be looked at.
std::string ParseControlGroup(std::string_view text);
/// Returns the number of kills in a control group's memory.events; none if it is not there.
std::optional<uint64_t> ParseOomKills(std::string_view text);

/// Says what a process does, by two sights `ticks_between` clock ticks apart. `oom_kills_before`
/// is what ProcessSight::oom_kills was when the process was first looked at.
Doing WhatItDoes(const ProcessSight& first, const ProcessSight& second, uint64_t ticks_between,
                 std::optional<uint64_t> oom_kills_before);

/// Reads all of this for a process. Returns none for one that is not there. May wait for the
/// kernel. Thread: any but the engine's.
std::optional<ProcessSight> LookAtProcess(pid_t process);

}  // namespace harmonaize::daemon
