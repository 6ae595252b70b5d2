#include "daemon/diagnosis/diagnosis.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/log_tenant.h"
#include "daemon/tenant/operation_text.h"
#include "daemon/tenant/rank_list.h"
#include "daemon/tenant/session.h"
#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// The least time between two looks, in nanoseconds: the engine comes by more often where ranks are
/// late soon.
constexpr uint64_t kLeastBetweenLooks = 50'000'000;
/// Most operations of one tenant that a look judges.
constexpr size_t kWaitsOfTenant = 128;
/// Factor of the usual gap between a communicator's operations by which a rank is late.
constexpr uint64_t kGapsUntilLate = 3;

/// Returns the ranks that asked for what fewest asked for, which are likely wrong; of several
/// requests that equally few asked for, the ranks of all.
std::vector<int> Minority(const Mismatch& mismatch) {
  std::map<std::string, std::vector<int>> by_request;
  for (const RankAsked& one : mismatch.asked) {
    by_request[RequestOf(one.descriptor)].push_back(one.rank);
  }
  std::vector<int> fewest;
  size_t least = 0;
  for (const auto& [request, ranks] : by_request) {
    if (least == 0 || ranks.size() < least) fewest.clear();
    if (least == 0 || ranks.size() <= least)
      fewest.insert(fewest.end(), ranks.begin(), ranks.end());
    least = least == 0 ? ranks.size() : std::min(least, ranks.size());
  }
  std::sort(fewest.begin(), fewest.end());
  return fewest;
}

// Ranks that wait get the sentence as a notice, which is logged too.
void LogVerdict(const Communicator& communicator, const HangJudge::Told& told) {
  const Verdict& verdict = told.verdict;
  const LogFor log_for(communicator.tenant().identity);
  std::string roots;
  for (const HangRoot& root : verdict.roots) {
    roots += fmt::format("{}rank {} of '{}'", roots.empty() ? " by " : ", ", root.rank,
                         root.communicator);
  }
  const bool cleared = told.what == HangJudge::What::kCleared;
  Log(LogLevel::kInfo, kLogCollective, "communicator {} '{}': {} {}: {} ({}){}", communicator.id(),
      communicator.name(), verdict.operation.empty() ? "it" : verdict.operation,
      cleared ? "gets on" : "does not get on", NameOf(verdict.hang), NameOf(verdict.doing), roots);
}

}  // namespace

Diagnosis::Diagnosis(const Services& services)
    : services_(services),
      times_(HangJudge::TimesFor(services.late_after_ns)),
      period_ns_(std::clamp(times_.early_ns, kNanosecondsPerSecond / 10, kNanosecondsPerSecond)),
      judge_(times_),
      processes_(times_.settle_ns),
      watch_([loop = services.loop](std::function<void()> call) { loop->Post(std::move(call)); }) {}

// ---------------------------------------------------------------------------------------------
// Looks

void Diagnosis::Tick(uint64_t now_ns) {
  if (now_ns < next_ns_) return;
  next_ns_ = now_ns + kLeastBetweenLooks;
  ForgetMismatches(now_ns);
  Gathered gathered = Gather(now_ns);
  ShareWaits(now_ns, &gathered);
  Tell(judge_.Update(gathered.facts, now_ns), &gathered);
  GiveUp(gathered, now_ns);
  LookAtProcesses();
  processes_.ForgetOld(now_ns);
  HoldWhileNeeded();
}

// Ends communicators whose operations have waited for longer than their jobs want to wait.
void Diagnosis::GiveUp(const Gathered& gathered, uint64_t now_ns) {
  for (const WaitFact& fact : gathered.facts) {
    Communicator* const communicator = services_.communicators->FindById(fact.communicator);
    const double seconds = communicator->terms().faults().give_up_after_seconds;
    const uint64_t age_ns = AgeAt(fact.since_ns, now_ns);
    if (seconds <= 0 || age_ns < static_cast<uint64_t>(seconds * 1e9)) continue;
    const Verdict* const verdict = judge_.Of(fact.communicator);
    const Status why = RemoteError(
        "{} of communicator '{}' has waited {:.1f} s, and the job gives up after {:g} s "
        "(faults.give_up_after){}{}",
        fact.operation, communicator->label(), static_cast<double>(age_ns) * 1e-9, seconds,
        verdict == nullptr ? "" : ": ", verdict == nullptr ? "" : verdict->text);
    communicator->CallSoon([communicator, why] { communicator->Break(why); });
  }
}

// Keeps the engine coming by.
void Diagnosis::HoldWhileNeeded() {
  const bool needed = by_ranks_ || !shared_.empty() || !told_here_.empty() || !told_home_.empty() ||
                      judge_.goes_by_facts();
  watching_ = needed ? WaitingHold(*services_.waiting) : WaitingHold();
}

Diagnosis::Gathered Diagnosis::Gather(uint64_t now_ns) {
  Gathered gathered;
  for (const auto& [id, communicator] : services_.communicators->all()) {
    if (communicator->state() != Communicator::State::kReady) continue;
    GatherOf(*communicator, now_ns, &gathered);
  }
  progress_ = gathered.progress;
  by_ranks_ = !gathered.ranks.empty();
  return gathered;
}

void Diagnosis::GatherOf(const Communicator& communicator, uint64_t now_ns, Gathered* gathered) {
  size_t& of_tenant = gathered->of_tenant[communicator.tenant().identity.number];
  if (of_tenant >= kWaitsOfTenant) return;
  // Processes are looked at before it is time to tell.
  const uint64_t asked_ns = communicator.terms().faults().late_after_ns();
  const uint64_t early_ns = asked_ns > 0 ? std::min(times_.early_ns, asked_ns) : times_.early_ns;
  CommunicatorWaits waits = communicator.waits().List(now_ns, early_ns / 2);
  for (CommunicatorWait& wait : waits.listed) {
    if (++of_tenant > kWaitsOfTenant) return;
    WaitFact& fact = gathered->facts.emplace_back(FactOf(communicator, wait, now_ns, gathered));
    NoteWhoDecides(communicator, &fact);
    const WaitKey key{communicator.id(), wait.key};
    if (wait.key.by_ranks) gathered->ranks[key] = std::move(wait.waiting_ranks);
    gathered->parts[key] = std::move(wait.waiting);
  }
}

WaitFact Diagnosis::FactOf(const Communicator& communicator, const CommunicatorWait& wait,
                           uint64_t now_ns, Gathered* gathered) {
  const WaitKey key{communicator.id(), wait.key};
  const auto before = progress_.find(key);
  Progress& progress = gathered->progress[key];
  progress = {wait.progress, wait.since_ns};
  if (before != progress_.end()) {
    const bool same = before->second.progress == wait.progress;
    // Ranks that say that they wait have waited for a while when they say so.
    progress.since_ns = same ? before->second.since_ns : wait.key.by_ranks ? wait.since_ns : now_ns;
  }
  const GapEstimate& gap = wait.key.pair ? communicator.pair_gap() : communicator.collective_gap();
  WaitFact fact{.communicator = communicator.id(),
                .label = communicator.label(),
                .key = wait.key,
                .operation = wait.operation,
                .since_ns = wait.key.by_ranks ? progress.since_ns : wait.since_ns,
                .still_since_ns = progress.since_ns,
                .all_posted = wait.all_posted,
                .begun = wait.begun,
                .usual_ns = static_cast<uint64_t>(wait.usual_seconds * 1e9),
                .late_after_ns = std::max(times_.late_after_ns, kGapsUntilLate * gap.gap_ns()),
                .asked_late_after_ns = communicator.terms().faults().late_after_ns(),
                .senders = wait.senders};
  const RanksOfProcesses ranks =
      wait.awaited.empty() ? RanksOfProcesses() : CountRanks(communicator);
  for (const AwaitedRank& rank : wait.awaited) {
    fact.awaited.push_back(AwaitedOf(communicator, rank, ranks, now_ns));
  }
  for (const PostedOperation* part : wait.waiting) {
    fact.waiting.push_back(part->member->session->id());
  }
  for (const int rank : wait.waiting_ranks) {
    const Member* const member = communicator.member(rank);
    if (member != nullptr) fact.waiting.push_back(member->session->id());
  }
  return fact;
}

Diagnosis::RanksOfProcesses Diagnosis::CountRanks(const Communicator& communicator) {
  RanksOfProcesses ranks;
  for (int rank = 0; rank < communicator.ranks(); ++rank) {
    const Member* const member = communicator.member(rank);
    if (member != nullptr) ++ranks[member->session];
  }
  return ranks;
}

AwaitedFact Diagnosis::AwaitedOf(const Communicator& communicator, const AwaitedRank& rank,
                                 const RanksOfProcesses& ranks, uint64_t now_ns) {
  AwaitedFact fact{.rank = rank.rank, .awaited = rank.awaited};
  const Member* const member = communicator.member(rank.rank);
  if (member == nullptr) return fact;
  Session* const session = member->session;
  fact.process = session->id();
  const auto counted = ranks.find(session);
  fact.alone = counted != ranks.end() && counted->second == 1;
  if (processes_.Want(session->id(), communicator.tenant().identity.number, now_ns)) {
    const int process_fd = session->connection().process_fd();
    const int copy = process_fd < 0 ? -1 : fcntl(process_fd, F_DUPFD_CLOEXEC, 0);
    wanted_.push_back(
        {.number = session->id(), .process = session->process(), .pidfd = FileDescriptor(copy)});
  }
  fact.does = processes_.Of(session->id(), now_ns);
  return fact;
}

void Diagnosis::LookAtProcesses() {
  watch_.Look(std::exchange(wanted_, {}),
              lifetime_.Guard([this](const std::vector<ProcessWatch::Seen>& all) {
                const uint64_t seen_ns = MonotonicNanoseconds();
                for (const ProcessWatch::Seen& one : all) {
                  processes_.Note(one.number, one.doing, seen_ns);
                }
                AnswerAnew(seen_ns);
              }));
}

// ---------------------------------------------------------------------------------------------
// What is told

void Diagnosis::Tell(const std::vector<HangJudge::Told>& told, const Gathered* gathered) {
  for (const HangJudge::Told& one : told) {
    Communicator* const communicator = services_.communicators->FindById(one.verdict.communicator);
    if (communicator == nullptr) continue;
    const bool cleared = one.what == HangJudge::What::kCleared;
    LogVerdict(*communicator, one);
    for (VerdictObserver* observer : observers_) {
      switch (one.what) {
        case HangJudge::What::kRaised: observer->OnRaised(*communicator, one.verdict); break;
        case HangJudge::What::kChanged:
          observer->OnChanged(*communicator, one.before, one.verdict);
          break;
        case HangJudge::What::kCleared: observer->OnCleared(*communicator, one.verdict); break;
      }
    }
    TellHosts(*communicator, one.verdict, cleared);
    if (!cleared && one.verdict.fault()) Notify(communicator, one.verdict, gathered);
  }
}

// Ranks that disagree, and those of a broken communicator, have been told with their error.
void Diagnosis::Notify(Communicator* communicator, const Verdict& verdict,
                       const Gathered* gathered) {
  if (verdict.hang == HangClass::kMismatch || verdict.hang == HangClass::kDead) return;
  if (communicator->other_hosts() != nullptr && !verdict.key.pair) {
    return communicator->other_hosts()->NotifyWaiting(verdict.key.sequence, verdict.text);
  }
  if (gathered == nullptr) return;
  const auto ranks = gathered->ranks.find({verdict.communicator, verdict.key});
  if (ranks != gathered->ranks.end()) {
    return communicator->NotifyRanks(ranks->second, verdict.text);
  }
  const auto parts = gathered->parts.find({verdict.communicator, verdict.key});
  if (parts != gathered->parts.end()) communicator->Notify(parts->second, verdict.text);
}

const Verdict* Diagnosis::Of(const Communicator& communicator) const {
  return judge_.Of(communicator.id());
}

std::vector<const Verdict*> Diagnosis::verdicts() const {
  return judge_.all();
}

std::string Diagnosis::Explain(const Communicator& communicator, const OperationKey& operation,
                               const std::vector<int>& ranks) const {
  const Verdict* const verdict = judge_.Of(communicator.id());
  if (verdict == nullptr || verdict->key != operation) return "";
  const std::string reason = ReasonOf(*verdict);
  if (reason.empty()) return "";
  if (verdict->waits_for == ranks) return ", " + reason;
  const bool named = std::any_of(ranks.begin(), ranks.end(), [&](int rank) {
    return std::find(verdict->waits_for.begin(), verdict->waits_for.end(), rank) !=
           verdict->waits_for.end();
  });
  return named ? fmt::format(", above all for {}, {}", RankList(verdict->waits_for), reason) : "";
}

// ---------------------------------------------------------------------------------------------
// What becomes of communicators

void Diagnosis::OnRankLost(const Communicator& communicator, int rank, const RankLoss& loss) {
  if (communicator.ranks() == 1) return;  // it keeps nobody waiting
  if (!loss.failed_before.ok()) return;   // it is not the cause
  const uint64_t now_ns = MonotonicNanoseconds();
  const Verdict* const before = judge_.Of(communicator.id());
  Verdict verdict{.communicator = communicator.id(), .label = communicator.label()};
  if (before != nullptr) verdict = *before;
  // The first one that is lost is the cause: the others often follow it.
  if (before != nullptr && before->hang == HangClass::kDead) return;
  verdict.since_ns = before != nullptr ? before->since_ns : now_ns;
  verdict.hang = HangClass::kDead;
  verdict.doing = Doing::kEnded;
  verdict.roots = {{rank, communicator.label(), HangClass::kDead, Doing::kEnded}};
  verdict.waits_for = {rank};
  verdict.asked = fmt::format(
      "rank {} of communicator '{}' {}: start the job again, or go on "
      "without it by ncclCommShrink",
      rank, communicator.label(), loss.why);
  verdict.text = verdict.asked;
  Tell(judge_.Set(std::move(verdict), now_ns), nullptr);
}

void Diagnosis::OnMismatch(const Communicator& communicator, const Mismatch& mismatch) {
  const uint64_t now_ns = MonotonicNanoseconds();
  Verdict verdict{.communicator = communicator.id(),
                  .label = communicator.label(),
                  .key = {.sequence = mismatch.sequence},
                  .operation = fmt::format("operation #{}", mismatch.sequence),
                  .since_ns = now_ns,
                  .hang = HangClass::kMismatch,
                  .asked = mismatch.AsError().message()};
  for (const int rank : Minority(mismatch)) {
    if (verdict.roots.size() == kMostRoots) break;
    verdict.roots.push_back({rank, communicator.label(), HangClass::kMismatch, Doing::kUnknown});
  }
  verdict.text = verdict.asked;
  // The verdict keeps to a rank that has died. The log and the job's event tell of the disagreement
  // all the same.
  const Verdict* const before = judge_.Of(communicator.id());
  if (before != nullptr && before->hang == HangClass::kDead) {
    return LogVerdict(communicator, {HangJudge::What::kRaised, verdict, {}});
  }
  Tell(judge_.Set(std::move(verdict), now_ns), nullptr);
}

void Diagnosis::OnBroken(const Communicator& communicator, const Status& /*why*/) {
  judge_.Keep(communicator.id());
}

void Diagnosis::OnEnded(const Communicator& communicator) {
  const uint64_t id = communicator.id();
  const bool in_peace = communicator.state() == Communicator::State::kReady;
  Tell(judge_.Clear(id, in_peace, MonotonicNanoseconds()), nullptr);
  const WaitKey first{id, OperationKey{.pair = false, .sequence = 0, .from = INT32_MIN}};
  const auto erase_of = [&](auto* map) {
    auto next = map->lower_bound(first);
    while (next != map->end() && next->first.first == id) next = map->erase(next);
  };
  erase_of(&shared_);
  erase_of(&told_home_);
  erase_of(&progress_);
  told_here_.erase(id);
  HoldWhileNeeded();
}

// Ranks that disagreed, and have then carried out another operation, have got over it.
void Diagnosis::ForgetMismatches(uint64_t now_ns) {
  std::vector<uint64_t> over;
  for (const Verdict* const verdict : judge_.all()) {
    if (verdict->hang != HangClass::kMismatch) continue;
    const Communicator* const communicator =
        services_.communicators->FindById(verdict->communicator);
    if (communicator == nullptr || communicator->collectives_begun() > verdict->key.sequence + 1) {
      over.push_back(verdict->communicator);
    }
  }
  for (const uint64_t id : over) Tell(judge_.Clear(id, true, now_ns), nullptr);
}

}  // namespace harmonaize::daemon
