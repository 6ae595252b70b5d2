#include "daemon/diagnosis/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "daemon/tenant/rank_list.h"

namespace harmonaize::daemon {
namespace {

constexpr std::array<std::string_view, kHangClassCount> kHangNames = {
    "none",     "computing", "called_late",   "not_called",        "not_filled",
    "mismatch", "dead",      "slow_transfer", "daemon_unreachable"};
constexpr std::array<std::string_view, kDoingCount> kDoingNames = {
    "unknown",  "running", "sleeping",      "stopped", "traced",
    "swapping", "on_disk", "out_of_memory", "ended"};

/// What a rank does, after "which", and what can be done about it.
struct DoingText {
  std::string_view does;
  std::string_view way_out;
};

DoingText TextOf(Doing doing) {
  switch (doing) {
    case Doing::kStopped: return {"is stopped", "let it go on with SIGCONT, or end it"};
    case Doing::kTraced: return {"a debugger has stopped", "let it go on there, or end it"};
    case Doing::kSwapping:
      return {"waits for memory that was swapped out", "give its host more memory, or less to do"};
    case Doing::kOnDisk:
      return {"waits for a disk, a file system or a device", "look at what it reads"};
    case Doing::kOutOfMemory:
      return {"is in a group of processes of which the kernel has killed one for lack of memory",
              "raise the group's limit, and start again"};
    case Doing::kEnded: return {"has ended", ""};
    case Doing::kSleeping:
      return {"sleeps outside of this library, for data, a lock or another process",
              "a debugger or py-spy shows where"};
    case Doing::kRunning: return {"computes", ""};
    case Doing::kUnknown: return {"cannot be looked at", ""};
  }
  return {};
}

std::string DoesAndWayOut(Doing doing) {
  const DoingText text = TextOf(doing);
  return fmt::format("{}{}{}", text.does, text.way_out.empty() ? "" : ": ", text.way_out);
}

std::vector<int> RanksOf(const std::vector<HangRoot>& roots, const std::string& communicator) {
  std::vector<int> ranks;
  for (const HangRoot& root : roots) {
    if (root.communicator == communicator) ranks.push_back(root.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// Returns the ranks that the operation waits for and that are no roots themselves: they wait for
// the roots, in another operation. Where there are more roots than a verdict lists, that is not
// told of those in the same communicator.
std::vector<int> RanksBehind(const Verdict& verdict) {
  const bool elsewhere =
      std::any_of(verdict.roots.begin(), verdict.roots.end(),
                  [&](const HangRoot& root) { return root.communicator != verdict.label; });
  if (!elsewhere && verdict.roots.size() >= kMostRoots) return {};
  const std::vector<int> roots = RanksOf(verdict.roots, verdict.label);
  std::vector<int> behind;
  for (const int rank : verdict.waits_for) {
    if (!std::binary_search(roots.begin(), roots.end(), rank)) behind.push_back(rank);
  }
  return behind;
}

std::string ReasonOfClass(HangClass hang, Doing doing, bool one) {
  const std::string_view which = one ? "which" : "each of which";
  switch (hang) {
    case HangClass::kComputing: return fmt::format("{} computes and has not called it yet", which);
    case HangClass::kNotCalled:
      if (doing == Doing::kUnknown) return fmt::format("{} has not called it", which);
      return fmt::format("{} {}", which, DoesAndWayOut(doing));
    case HangClass::kNotFilled:
      if (doing == Doing::kUnknown || doing == Doing::kRunning) {
        return fmt::format("{} does not get on with copying it", which);
      }
      if (doing == Doing::kSleeping) {
        return fmt::format("{} sleeps while it copies it: a debugger or py-spy shows where", which);
      }
      return fmt::format("{} {}", which, DoesAndWayOut(doing));
    case HangClass::kDaemonUnreachable:
      return fmt::format(
          "whose {} not answer: look at {}", one ? "daemon does" : "daemons do",
          one ? "its host and the links to it" : "their hosts and the links to them");
    case HangClass::kDead: return fmt::format("{} has ended: start the job again", which);
    case HangClass::kCalledLate: return fmt::format("{} called it late", which);
    default: return "";
  }
}

}  // namespace

std::string_view NameOf(HangClass hang) {
  const auto place = static_cast<size_t>(hang);
  return place < kHangNames.size() ? kHangNames[place] : kHangNames[0];
}

std::string_view NameOf(Doing doing) {
  const auto place = static_cast<size_t>(doing);
  return place < kDoingNames.size() ? kDoingNames[place] : kDoingNames[0];
}

std::vector<int> AwaitedRanks(const Verdict& verdict) {
  return verdict.waits_for.empty() ? RanksOf(verdict.roots, verdict.label) : verdict.waits_for;
}

std::string WayOutOf(const Verdict& verdict) {
  switch (verdict.hang) {
    case HangClass::kComputing: return "wait for it, or give it less to do";
    case HangClass::kMismatch: return "have all ranks ask for the same";
    case HangClass::kDead: return "start the job again, or go on without it by ncclCommShrink";
    case HangClass::kDaemonUnreachable: return "look at its host and the links to it";
    case HangClass::kNotCalled:
    case HangClass::kNotFilled: break;
    default: return "";
  }
  const std::string_view known = TextOf(verdict.doing).way_out;
  return std::string(known.empty() ? "a debugger or py-spy shows what it does" : known);
}

std::string ReasonOf(const Verdict& verdict) {
  if (verdict.roots.empty()) return "";
  const HangRoot& first = verdict.roots.front();
  const std::vector<int> behind = RanksBehind(verdict);
  if (behind.empty()) {
    return ReasonOfClass(first.hang, first.doing, verdict.roots.size() == 1);
  }
  // The roots of one communicator; all of them are listed in the verdict.
  const std::vector<int> ranks = RanksOf(verdict.roots, first.communicator);
  const std::string there = first.communicator == verdict.label
                                ? ""
                                : fmt::format(" in communicator '{}'", first.communicator);
  const std::string reason = ReasonOfClass(first.hang, first.doing, ranks.size() == 1);
  return fmt::format("{} for {}{}{}",
                     fmt::format("which {} waiting{}", behind.size() > 1 ? "are" : "is", there),
                     RankList(ranks), reason.empty() ? "" : ", ", reason);
}

std::string SentenceOf(const Verdict& verdict, uint64_t now_ns) {
  const double seconds = static_cast<double>(now_ns - std::min(now_ns, verdict.since_ns)) * 1e-9;
  const std::string reason = ReasonOf(verdict);
  const std::string after = reason.empty() ? "" : ", " + reason;
  const std::vector<int> behind = RanksBehind(verdict);
  const std::vector<int> ranks = behind.empty() ? AwaitedRanks(verdict) : behind;
  switch (verdict.hang) {
    case HangClass::kNone: return "";
    case HangClass::kMismatch: return verdict.asked;
    case HangClass::kDead: return verdict.asked;
    case HangClass::kSlowTransfer:
      return fmt::format("{} has been under way for {:.1f} s, far longer than usual{}{}",
                         verdict.operation, seconds, verdict.stage.empty() ? "" : ": ",
                         verdict.stage);
    default:
      return fmt::format(
          "{} has waited {:.1f} s for {}{}{}", verdict.operation, seconds,
          verdict.hang == HangClass::kNotFilled && behind.empty() ? "the data of " : "",
          RankList(ranks), after);
  }
}

}  // namespace harmonaize::daemon
