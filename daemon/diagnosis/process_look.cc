#include "daemon/diagnosis/process_look.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "src/base/file_descriptor.h"

namespace harmonaize::daemon {
namespace {

/// Bytes that are read of a file of the kernel: more than any of those below has.
constexpr size_t kKernelFileBytes = 8192;
/// Most bytes of the path of a control group that is looked at.
constexpr size_t kControlGroupBytes = 1024;

/// Part of the time, one in so many ticks, from which on a process counts as running. A thread that
/// only wakes now and then, to look after a queue, uses less.
constexpr uint64_t kRunningPart = 5;

/// Major faults between two sights from which on a process counts as waiting for its memory, though
/// its first thread does not at this moment.
constexpr uint64_t kManyFaults = 20;

// Where the fields of /proc/PID/stat are, counted from the state on, which follows the name.
constexpr size_t kState = 0;
constexpr size_t kMajorFaults = 9;
constexpr size_t kUserTicks = 11;
constexpr size_t kSystemTicks = 12;

std::vector<std::string_view> SplitAt(std::string_view text, char separator, size_t most) {
  std::vector<std::string_view> parts;
  while (parts.size() < most) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

std::optional<uint64_t> LeadingNumber(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc()) return std::nullopt;
  return number;
}

/// Returns what follows `name` at the beginning of a line; none if no line begins so.
std::optional<std::string_view> AfterName(std::string_view text, std::string_view name) {
  for (const std::string_view line : SplitAt(text, '\n', 256)) {
    if (line.starts_with(name)) return line.substr(name.size());
  }
  return std::nullopt;
}

std::string ReadKernelFile(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) return "";
  std::string text(kKernelFileBytes, '\0');
  size_t length = 0;
  while (length < text.size()) {
    const ssize_t got = read(file.get(), text.data() + length, text.size() - length);
    if (got <= 0) break;
    length += static_cast<size_t>(got);
  }
  text.resize(length);
  return text;
}

bool IsStopped(const ProcessSight& sight) {
  return sight.state == 'T' || sight.state == 't';
}

}  // namespace

std::optional<ProcessSight> ParseStat(std::string_view text) {
  // The name may hold anything, closing brackets too: the last one ends it.
  const size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string_view::npos || end_of_name + 2 >= text.size()) return std::nullopt;
  const auto fields = SplitAt(text.substr(end_of_name + 2), ' ', kSystemTicks + 2);
  if (fields.size() <= kSystemTicks || fields[kState].size() != 1) return std::nullopt;
  const auto faults = LeadingNumber(fields[kMajorFaults]);
  const auto user = LeadingNumber(fields[kUserTicks]);
  const auto system = LeadingNumber(fields[kSystemTicks]);
  if (!faults || !user || !system) return std::nullopt;
  return ProcessSight{.state = fields[kState].front(),
                      .major_faults = *faults,
                      .ticks = *user + *system,
                      .oom_kills = std::nullopt};
}

bool ParseSwapped(std::string_view text) {
  const auto swapped = AfterName(text, "VmSwap:");
  return swapped.has_value() && LeadingNumber(*swapped).value_or(0) > 0;
}

std::string ParseControlGroup(std::string_view text) {
  const auto path = AfterName(text, "0::");
  if (!path.has_value() || path->empty() || path->front() != '/' ||
      path->size() > kControlGroupBytes) {
    return "";
  }
  // A group outside of what this daemon sees has such a path.
  if (path->find("/..") != std::string_view::npos) return "";
  return std::string(*path);
}

std::optional<uint64_t> ParseOomKills(std::string_view text) {
  const auto kills = AfterName(text, "oom_kill ");
  return kills.has_value() ? LeadingNumber(*kills) : std::nullopt;
}

Doing WhatItDoes(const ProcessSight& first, const ProcessSight& second, uint64_t ticks_between,
                 std::optional<uint64_t> oom_kills_before) {
  if (second.state == 'Z' || second.state == 'X') return Doing::kEnded;
  if (IsStopped(first) && IsStopped(second)) {
    return second.state == 't' ? Doing::kTraced : Doing::kStopped;
  }
  const uint64_t ran = second.ticks - std::min(first.ticks, second.ticks);
  const bool runs = ran * kRunningPart >= std::max<uint64_t>(ticks_between, 1) ||
                    (first.state == 'R' && second.state == 'R');
  if (oom_kills_before.has_value() && second.oom_kills.value_or(0) > *oom_kills_before && !runs) {
    return Doing::kOutOfMemory;
  }
  const uint64_t faults = second.major_faults - std::min(first.major_faults, second.major_faults);
  const bool on_disk = first.state == 'D' || second.state == 'D';
  if (second.swapped && (faults >= kManyFaults || (on_disk && faults > 0))) return Doing::kSwapping;
  if (runs) return Doing::kRunning;
  if (on_disk && (faults > 0 || first.state == second.state)) return Doing::kOnDisk;
  return Doing::kSleeping;
}

std::optional<ProcessSight> LookAtProcess(pid_t process) {
  const std::string folder = fmt::format("/proc/{}/", process);
  std::optional<ProcessSight> sight = ParseStat(ReadKernelFile(folder + "stat"));
  if (!sight.has_value()) return std::nullopt;
  sight->swapped = ParseSwapped(ReadKernelFile(folder + "status"));
  const std::string group = ParseControlGroup(ReadKernelFile(folder + "cgroup"));
  if (!group.empty()) {
    sight->oom_kills = ParseOomKills(ReadKernelFile("/sys/fs/cgroup" + group + "/memory.events"));
  }
  return sight;
}

}  // namespace harmonaize::daemon
