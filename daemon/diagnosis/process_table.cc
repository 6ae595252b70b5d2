#include "daemon/diagnosis/process_table.h"

#include <algorithm>

namespace harmonaize::daemon {
namespace {

/// Time between two looks at one process, in nanoseconds; less where ranks are late sooner. A look
/// reads four files.
constexpr uint64_t kMostBetweenLooks = kNanosecondsPerSecond;
/// Looks for which a process counts as running that was seen running: one that computes for a third
/// of the time is seen at one of three looks or so.
constexpr uint64_t kLooksAsRunning = 4;
/// Most looks at the processes of one tenant in a second.
constexpr size_t kLooksPerSecond = 64;
/// Most processes that are kept: beyond it the ones of tenants who come later are not looked at.
constexpr size_t kMostProcesses = 4096;
/// Time after which a process that nobody asks about is forgotten, in nanoseconds.
constexpr uint64_t kForgotten = 30 * kNanosecondsPerSecond;

}  // namespace

ProcessTable::ProcessTable(uint64_t settle_ns)
    : settle_ns_(settle_ns),
      between_looks_ns_(std::min(kMostBetweenLooks, settle_ns)),
      runs_on_ns_(std::max(settle_ns, kLooksAsRunning * between_looks_ns_)) {}

bool ProcessTable::Want(uint32_t process, uint32_t tenant, uint64_t now_ns) {
  if (processes_.size() >= kMostProcesses && !processes_.contains(process)) return false;
  Entry& entry = processes_[process];
  entry.wanted_ns = now_ns;
  if (entry.looked_ns != 0 && now_ns < entry.looked_ns + between_looks_ns_) return false;
  Budget& budget = budgets_[tenant];
  if (now_ns >= budget.second_ns + kNanosecondsPerSecond)
    budget = {.second_ns = now_ns, .looks = 0};
  if (budget.looks >= kLooksPerSecond) return false;
  ++budget.looks;
  entry.looked_ns = now_ns;
  return true;
}

void ProcessTable::Note(uint32_t process, Doing doing, uint64_t now_ns) {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return;
  Entry& entry = found->second;
  entry.seen_ns = now_ns;
  if (doing == Doing::kRunning) entry.running_ns = now_ns;
  if (entry.since_ns != 0 && entry.doing == doing) return;
  entry.doing = doing;
  entry.since_ns = now_ns;
}

ProcessTable::Known ProcessTable::Of(uint32_t process, uint64_t now_ns) const {
  const auto found = processes_.find(process);
  if (found == processes_.end() || found->second.since_ns == 0) return {};
  const Entry& entry = found->second;
  // Who is stopped or dead does not run on, whatever it did before.
  const bool still = entry.doing == Doing::kStopped || entry.doing == Doing::kTraced ||
                     entry.doing == Doing::kEnded || entry.doing == Doing::kUnknown;
  const bool ran_of_late = entry.running_ns != 0 && now_ns < entry.running_ns + runs_on_ns_;
  if (!still && ran_of_late) return {Doing::kRunning, entry.running_ns, true};
  return {entry.doing, entry.since_ns, now_ns >= entry.since_ns + settle_ns_};
}

void ProcessTable::ForgetOld(uint64_t now_ns) {
  std::erase_if(processes_,
                [&](const auto& entry) { return now_ns > entry.second.wanted_ns + kForgotten; });
  std::erase_if(budgets_,
                [&](const auto& entry) { return now_ns > entry.second.second_ns + kForgotten; });
}

}  // namespace harmonaize::daemon
