#include "daemon/diagnosis/process_table.h"

#include <algorithm>
#include <utility>

namespace harmonaize::daemon {
namespace {

/// Time between two looks at one process, in nanoseconds; less where ranks are late sooner. A look
/// reads four files.
constexpr uint64_t kMostBetweenLooks = kNanosecondsPerSecond;
/// Most looks at the processes of one tenant in a second.
constexpr size_t kLooksPerSecond = 64;
/// Most processes that are kept: beyond it the ones of tenants who come later are not looked at.
constexpr size_t kMostProcesses = 4096;
/// Time after which a process that nobody asks about is forgotten, in nanoseconds.
constexpr uint64_t kForgotten = 30 * kNanosecondsPerSecond;

}  // namespace

void ProcessTable::Want(uint32_t process, uint32_t tenant, uint64_t now_ns) {
  if (processes_.size() >= kMostProcesses && !processes_.contains(process)) return;
  Entry& entry = processes_[process];
  entry.wanted_ns = now_ns;
  const uint64_t between = std::min(kMostBetweenLooks, settle_ns_);
  if (entry.looked_ns != 0 && now_ns < entry.looked_ns + between) return;
  Budget& budget = budgets_[tenant];
  if (now_ns >= budget.second_ns + kNanosecondsPerSecond)
    budget = {.second_ns = now_ns, .looks = 0};
  if (budget.looks >= kLooksPerSecond) return;
  ++budget.looks;
  entry.looked_ns = now_ns;
  wanted_.push_back(process);
}

std::vector<uint32_t> ProcessTable::TakeWanted() {
  return std::exchange(wanted_, {});
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
  const bool ran_of_late = entry.running_ns != 0 && now_ns < entry.running_ns + settle_ns_;
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
