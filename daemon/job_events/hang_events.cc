#include "daemon/job_events/hang_events.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_wait.h"
#include "daemon/multihost/host_group.h"
#include "daemon/tenant/rank_list.h"
#include "src/base/clock.h"
#include "src/base/wall_clock.h"
#include "src/events/event_data.h"

namespace harmonaize::daemon {
namespace {

/// Returns what rank.late says of the ranks in its field `why`, which is older than `class` and
/// `doing`.
std::string_view WhyOf(const Verdict& verdict) {
  switch (verdict.hang) {
    case HangClass::kComputing: return "computing";
    case HangClass::kNotFilled: return "not_filled";
    case HangClass::kNotCalled: break;
    default: return "unknown";
  }
  switch (verdict.doing) {
    case Doing::kStopped:
    case Doing::kTraced: return "stopped";
    case Doing::kSleeping: return "sleeping";
    case Doing::kSwapping: return "swapping";
    case Doing::kOutOfMemory: return "out_of_memory";
    default: return "not_called";
  }
}

std::string SubjectOf(const Communicator& communicator, const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("ranks/{}", ranks.front());
  return "communicators/" + communicator.label();
}

/// Names the ranks of the first root's communicator, if that is another one.
void SetRootElsewhere(const Verdict& verdict, EventData* data) {
  if (verdict.roots.empty()) return;
  const std::string& where = verdict.roots.front().communicator;
  if (where == verdict.label) return;
  std::vector<int> ranks;
  for (const HangRoot& root : verdict.roots) {
    if (root.communicator == where) ranks.push_back(root.rank);
  }
  data->Set(fields::kRootCommunicator, where).Set(fields::kRootRanks, ranks);
}

/// Returns whether the communicator's home is what does not answer.
bool IsLossOfHome(const HostGroup& group, const Verdict& verdict) {
  if (verdict.hang != HangClass::kDaemonUnreachable || verdict.roots.empty()) return false;
  const Roster& roster = group.roster();
  const auto rank = static_cast<size_t>(verdict.roots.front().rank);
  return rank < roster.host_of_rank.size() &&
         roster.host_of_rank[rank] == roster.HostOf(roster.home);
}

/// Returns whether other events tell of it.
bool IsToldOtherwise(HangClass hang) {
  return hang == HangClass::kNone || hang == HangClass::kDead || hang == HangClass::kMismatch ||
         hang == HangClass::kCalledLate;
}

double SecondsSince(uint64_t since_ns) {
  return static_cast<double>(AgeAt(since_ns, MonotonicNanoseconds())) * 1e-9;
}

}  // namespace

void HangEvents::OnRaised(const Communicator& communicator, const Verdict& verdict) {
  TellLate(communicator, verdict);
}

void HangEvents::OnChanged(const Communicator& communicator, const Verdict& before,
                           const Verdict& now) {
  const auto told = late_.find(communicator.id());
  // Another operation waits: the one that was told of has got on.
  if (told != late_.end() && before.key != now.key && !IsToldOtherwise(now.hang)) {
    TellRecovered(communicator, told->second);
  }
  late_.erase(communicator.id());
  TellLate(communicator, now);
}

// A communicator that has broken, or is about to go, has ended its operations: nobody caught up.
void HangEvents::OnCleared(const Communicator& communicator, const Verdict& /*verdict*/) {
  const auto told = late_.find(communicator.id());
  if (told == late_.end()) return;
  const Late late = std::move(told->second);
  late_.erase(told);
  if (communicator.state() == Communicator::State::kReady) TellRecovered(communicator, late);
}

void HangEvents::TellLate(const Communicator& communicator, const Verdict& verdict) {
  if (IsToldOtherwise(verdict.hang)) return;
  // A daemon was lost while nobody had waited for long: its ranks are lost, and not late.
  if (verdict.operation.empty()) return;
  const HostGroup* const group = communicator.host_group();
  const bool decides = group == nullptr || group->is_home();
  if (!decides && !IsLossOfHome(*group, verdict)) return;
  if (!events_->MayTellMore(communicator)) return;
  Late late{.since_ns = verdict.since_ns,
            .operation = verdict.operation,
            .ranks = AwaitedRanks(verdict),
            .here_alone = !decides};
  const double seconds = SecondsSince(verdict.since_ns);
  EventData data(EventType::kRankLate,
                 fmt::format("communicator '{}': {}", communicator.label(), verdict.text));
  data.Set(fields::kRanks, late.ranks)
      .Set(fields::kCommunicator, communicator.label())
      .Set(fields::kOperation, late.operation)
      .Set(fields::kForSeconds, seconds)
      .Set(fields::kWhy, WhyOf(verdict))
      .Set(fields::kClass, NameOf(verdict.hang))
      .Set(fields::kSince, static_cast<int64_t>((UnixSeconds() - seconds) * 1e9));
  const bool is_seen =
      verdict.hang != HangClass::kSlowTransfer && verdict.hang != HangClass::kDaemonUnreachable;
  if (is_seen) data.Set(fields::kDoing, NameOf(verdict.doing));
  if (!verdict.stage.empty()) data.Set(fields::kStage, verdict.stage);
  SetRootElsewhere(verdict, &data);
  Tell(communicator, late.here_alone,
       {.type = EventType::kRankLate,
        .subject = SubjectOf(communicator, late.ranks),
        .data = std::move(data),
        .severity = verdict.fault() ? Severity::kWarning : Severity::kInfo});
  late_[communicator.id()] = std::move(late);
}

void HangEvents::TellRecovered(const Communicator& communicator, const Late& late) {
  const double seconds = SecondsSince(late.since_ns);
  const std::string who = late.ranks.empty() ? "" : " for " + RankList(late.ranks);
  EventData data(
      EventType::kRankRecovered,
      fmt::format("communicator '{}': {} gets on, {:.1f} s after its first rank began to "
                  "wait{}",
                  communicator.label(), late.operation, seconds, who));
  data.Set(fields::kRanks, late.ranks)
      .Set(fields::kCommunicator, communicator.label())
      .Set(fields::kOperation, late.operation)
      .Set(fields::kForSeconds, seconds);
  Tell(communicator, late.here_alone,
       {.type = EventType::kRankRecovered,
        .subject = SubjectOf(communicator, late.ranks),
        .data = std::move(data)});
}

void HangEvents::Tell(const Communicator& communicator, bool here_alone, JobEvents::News news) {
  Job& job = *communicator.job();
  if (here_alone) return events_->TellHere(job, std::move(news));
  events_->Tell(job, std::move(news));
}

}  // namespace harmonaize::daemon
