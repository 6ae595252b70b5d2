#include "daemon/diagnosis/hang_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "daemon/communicator/communicator_wait.h"
#include "daemon/tenant/rank_list.h"

namespace harmonaize::daemon {
namespace {

/// Most operations that one chain of causes goes through. Jobs have a handful of communicators one
/// behind the other.
constexpr size_t kMostFollowed = 64;

/// Factor of the time that a change must hold, for a rank that was said to sleep and now runs: one
/// that only wakes now and then is seen running for less (ProcessTable).
constexpr uint64_t kTimesUntilComputing = 5;

/// An operation is slow from this many times its usual time on. Plans and links change, and a busy
/// network makes an operation take several times as long.
constexpr uint64_t kTimesUsual = 8;

/// Returns how certain and how bad a cause is: of several the greatest one is told.
int WeightOf(const HangRoot& root) {
  switch (root.hang) {
    case HangClass::kDead: return 90;
    case HangClass::kDaemonUnreachable: return 80;
    case HangClass::kNotFilled:
      return root.doing == Doing::kStopped || root.doing == Doing::kTraced ? 71 : 55;
    case HangClass::kNotCalled: break;
    case HangClass::kSlowTransfer: return 30;
    case HangClass::kComputing: return 10;
    default: return 0;
  }
  switch (root.doing) {
    case Doing::kStopped:
    case Doing::kTraced: return 70;
    case Doing::kOutOfMemory: return 65;
    case Doing::kEnded: return 60;
    case Doing::kSwapping: return 50;
    case Doing::kOnDisk: return 45;
    case Doing::kSleeping: return 40;
    default: return 35;
  }
}

/// Returns whether a process that does this stays so until somebody does something.
bool IsCertain(Doing doing) {
  return doing == Doing::kStopped || doing == Doing::kTraced || doing == Doing::kOutOfMemory ||
         doing == Doing::kEnded;
}

bool SaysTheSame(const Verdict& a, const Verdict& b) {
  return a.key == b.key && a.hang == b.hang && a.doing == b.doing && a.roots == b.roots;
}

void AddOnce(const HangRoot& root, std::vector<HangRoot>* roots) {
  if (roots->size() >= kMostRoots) return;
  if (std::find(roots->begin(), roots->end(), root) == roots->end()) roots->push_back(root);
}

}  // namespace

HangJudge::Times HangJudge::TimesFor(uint64_t late_after_ns) {
  constexpr uint64_t kLeastSettle = 100'000'000;
  return {.late_after_ns = late_after_ns,
          .early_ns = std::min(late_after_ns, kNanosecondsPerSecond),
          .settle_ns = std::clamp(late_after_ns / 3, kLeastSettle, 2 * kNanosecondsPerSecond)};
}

// ---------------------------------------------------------------------------------------------
// Causes

std::vector<HangRoot> HangJudge::RootsOf(const WaitFact& wait, const WaitIndex& waits) const {
  Visited visited{&wait};
  std::vector<HangRoot> roots;
  for (const Cause& cause : CausesOf(wait, waits, &visited)) AddOnce(cause.root, &roots);
  return roots;
}

std::vector<HangJudge::Cause> HangJudge::CausesOf(const WaitFact& wait, const WaitIndex& waits,
                                                  Visited* visited) const {
  std::vector<Cause> causes;
  for (const HangRoot& root : wait.told) causes.push_back({root});
  if (wait.decided_elsewhere && !causes.empty()) return causes;
  for (const AwaitedFact& rank : wait.awaited) {
    for (Cause& cause : CausesBy(wait, rank, waits, visited)) causes.push_back(std::move(cause));
    if (causes.size() >= kMostRoots) break;
  }
  return causes;
}

// Returns the causes by way of a rank that an operation waits for: itself, or those that it waits
// for elsewhere; none for one whose stream only has to come to the operation.
std::vector<HangJudge::Cause> HangJudge::CausesBy(const WaitFact& wait, const AwaitedFact& rank,
                                                  const WaitIndex& waits, Visited* visited) const {
  const auto itself = [&](HangClass hang) {
    return std::vector<Cause>{{{rank.rank, wait.label, hang, rank.does.doing}, rank.does.settled}};
  };
  if (rank.unreachable) return itself(HangClass::kDaemonUnreachable);
  if (rank.awaited == Awaited::kData) return itself(HangClass::kNotFilled);
  // A process that is stopped is the cause, wherever it waits, and one that runs waits nowhere. But
  // where the rank has posted the operation, its stream may wait for others.
  const bool queued = rank.awaited == Awaited::kStream;
  if (!queued && IsCertain(rank.does.doing)) return itself(HangClass::kNotCalled);
  if (!queued && rank.does.doing == Doing::kRunning) return itself(HangClass::kComputing);
  if (!rank.behind.empty()) {
    std::vector<Cause> causes;
    for (const HangRoot& root : rank.behind) causes.push_back({root});
    return causes;
  }
  const std::vector<Cause> nothing;
  if (rank.process == 0 || !rank.alone) return queued ? nothing : itself(HangClass::kNotCalled);
  for (const WaitFact* const other : waits.Of(rank.process)) {
    const bool same = other->communicator == wait.communicator && other->key == wait.key;
    if (same || visited->size() >= kMostFollowed) continue;
    // Two ranks that wait for each other are both roots: each has not called what the other is in.
    if (!visited->insert(other).second) return itself(HangClass::kNotCalled);
    std::vector<Cause> causes = CausesOf(*other, waits, visited);
    visited->erase(other);
    if (!causes.empty()) return causes;
  }
  return queued ? nothing : itself(HangClass::kNotCalled);
}

uint64_t HangJudge::LeastLateAfter(const WaitFact& wait) const {
  return wait.asked_late_after_ns > 0 ? wait.asked_late_after_ns : times_.late_after_ns;
}

bool HangJudge::IsRipe(const WaitFact& wait, const Cause& cause, uint64_t now_ns) const {
  const uint64_t age = AgeAt(wait.since_ns, now_ns);
  const HangRoot& root = cause.root;
  const bool asked = wait.asked_late_after_ns > 0;
  const uint64_t least_ns = LeastLateAfter(wait);
  const uint64_t early_ns = std::min(times_.early_ns, least_ns);
  if (root.hang == HangClass::kDaemonUnreachable || root.hang == HangClass::kDead ||
      IsCertain(root.doing)) {
    return age >= early_ns;
  }
  if (root.hang == HangClass::kNotFilled) return AgeAt(wait.still_since_ns, now_ns) >= least_ns;
  if (root.hang == HangClass::kComputing) return age >= least_ns;
  // What the job has said holds whatever its usual gaps are.
  const uint64_t late_after_ns = asked ? least_ns : std::max(least_ns, wait.late_after_ns);
  // What cannot be seen yet may be seen a moment later: other hosts are asked.
  const bool blind = root.doing == Doing::kUnknown;
  const uint64_t patience_ns = times_.settle_ns + 2 * early_ns;
  return age >= late_after_ns + (blind ? patience_ns : 0) && (cause.settled || blind);
}

std::optional<Verdict> HangJudge::Judge(const WaitFact& wait, const WaitIndex& waits,
                                        uint64_t now_ns) const {
  Verdict verdict{.communicator = wait.communicator,
                  .label = wait.label,
                  .key = wait.key,
                  .operation = wait.operation,
                  .since_ns = wait.since_ns};
  int weight = 0;
  for (const AwaitedFact& rank : wait.awaited) {
    Visited visited{&wait};
    for (const Cause& cause : CausesBy(wait, rank, waits, &visited)) {
      const int its_weight = WeightOf(cause.root);
      if (its_weight < weight || !IsRipe(wait, cause, now_ns)) continue;
      if (std::exchange(weight, its_weight) < its_weight) {
        verdict.roots.clear();
        verdict.waits_for.clear();
      }
      AddOnce(cause.root, &verdict.roots);
      if (verdict.waits_for.empty() || verdict.waits_for.back() != rank.rank) {
        verdict.waits_for.push_back(rank.rank);
      }
    }
  }
  if (verdict.roots.empty()) return SlowTransfer(wait, now_ns);
  verdict.hang = verdict.roots.front().hang;
  verdict.doing = verdict.roots.front().doing;
  verdict.text = SentenceOf(verdict, now_ns);
  return verdict;
}

// Where nothing is known of the usual time, an operation is slow that does not get on at all.
std::optional<Verdict> HangJudge::SlowTransfer(const WaitFact& wait, uint64_t now_ns) const {
  if (!wait.all_posted || !wait.awaited.empty()) return std::nullopt;
  const uint64_t least_ns = LeastLateAfter(wait);
  const bool slow = wait.usual_ns > 0 ? AgeAt(wait.since_ns, now_ns) >=
                                            std::max(least_ns, kTimesUsual * wait.usual_ns)
                                      : AgeAt(wait.still_since_ns, now_ns) >= least_ns;
  if (!slow) return std::nullopt;
  Verdict verdict{.communicator = wait.communicator,
                  .label = wait.label,
                  .key = wait.key,
                  .operation = wait.operation,
                  .since_ns = wait.since_ns,
                  .hang = HangClass::kSlowTransfer};
  for (const int rank : wait.senders) {
    AddOnce({rank, wait.label, HangClass::kSlowTransfer, Doing::kUnknown}, &verdict.roots);
  }
  if (!wait.begun) {
    verdict.stage = "it waits for its plan, or for its turn among other operations";
  } else if (wait.senders.empty()) {
    verdict.stage = "its data is here, and is being reduced and copied";
  } else {
    verdict.stage = "it waits for data of " + RankList(wait.senders);
  }
  verdict.text = SentenceOf(verdict, now_ns);
  return verdict;
}

// ---------------------------------------------------------------------------------------------
// Verdicts over time

std::vector<HangJudge::Told> HangJudge::Update(const std::vector<WaitFact>& waits,
                                               uint64_t now_ns) {
  const WaitIndex index(waits);
  struct Seen {
    std::optional<Verdict> worst;
    bool still_waits = false;
  };
  std::map<uint64_t, Seen> seen;
  for (const auto& [communicator, one] : cases_) seen[communicator];
  for (const WaitFact& wait : waits) {
    Seen& here = seen[wait.communicator];
    const Verdict* const before = Of(wait.communicator);
    if (before != nullptr && before->key == wait.key) here.still_waits = true;
    if (wait.decided_elsewhere) continue;
    std::optional<Verdict> verdict = Judge(wait, index, now_ns);
    if (!verdict.has_value()) continue;
    const auto rank_of = [&](const Verdict& one) {
      const int weight = one.roots.empty() ? 30 : WeightOf(one.roots.front());
      const bool same = before != nullptr && before->key == one.key;
      return std::tuple(weight, same, UINT64_MAX - one.since_ns);
    };
    if (!here.worst.has_value() || rank_of(*verdict) > rank_of(*here.worst)) {
      here.worst = std::move(verdict);
    }
  }
  std::vector<Told> told;
  for (auto& [communicator, here] : seen) {
    Follow(communicator, std::move(here.worst), here.still_waits, now_ns, &told);
  }
  return told;
}

void HangJudge::Follow(uint64_t communicator, std::optional<Verdict> seen, bool still_waits,
                       uint64_t now_ns, std::vector<Told>* told) {
  auto found = cases_.find(communicator);
  if (found != cases_.end() && !found->second.set && !still_waits) {
    told->push_back(End(std::move(found->second.verdict), true, now_ns));
    cases_.erase(found);
    found = cases_.end();
  }
  if (found == cases_.end()) {
    if (!seen.has_value()) return;
    told->push_back({What::kRaised, *seen, {}});
    cases_[communicator] = {.verdict = std::move(*seen)};
    return;
  }
  Case& one = found->second;
  if (one.set && !seen.has_value()) return;
  if (seen.has_value() && SaysTheSame(*seen, one.verdict)) {
    one.verdict = std::move(*seen);
    one.changing = false;
    return;
  }
  const bool differs = !one.changing || seen.has_value() != one.next.has_value() ||
                       (seen.has_value() && !SaysTheSame(*seen, *one.next));
  if (differs) one.changing_since_ns = now_ns;
  one.changing = true;
  one.next = seen;
  const bool certain = seen.has_value() && IsCertain(seen->doing);
  const bool was_certain = IsCertain(one.verdict.doing);
  const bool runs = seen.has_value() && seen->hang == HangClass::kComputing;
  const uint64_t settles_ns =
      runs && !was_certain ? kTimesUntilComputing * times_.settle_ns : times_.settle_ns;
  if (!certain && AgeAt(one.changing_since_ns, now_ns) < settles_ns) return;
  if (seen.has_value()) return Change(&one, std::move(*seen), now_ns, told);
  told->push_back(End(std::move(one.verdict), false, now_ns));
  cases_.erase(found);
}

void HangJudge::Change(Case* one, Verdict verdict, uint64_t /*now_ns*/, std::vector<Told>* told) {
  told->push_back({What::kChanged, verdict, std::move(one->verdict)});
  *one = {.verdict = std::move(verdict)};
}

HangJudge::Told HangJudge::End(Verdict verdict, bool got_on, uint64_t now_ns) {
  const bool was_late =
      verdict.hang == HangClass::kNotCalled || verdict.hang == HangClass::kComputing;
  if (got_on && was_late) {
    verdict.hang = HangClass::kCalledLate;
    verdict.text = fmt::format("{} goes on: {} called it {:.1f} s late", verdict.operation,
                               RankList(verdict.waits_for),
                               static_cast<double>(AgeAt(verdict.since_ns, now_ns)) * 1e-9);
  }
  return {What::kCleared, std::move(verdict), {}};
}

std::vector<HangJudge::Told> HangJudge::Set(Verdict verdict, uint64_t now_ns) {
  std::vector<Told> told;
  if (verdict.text.empty()) verdict.text = SentenceOf(verdict, now_ns);
  const auto found = cases_.find(verdict.communicator);
  if (found == cases_.end()) {
    told.push_back({What::kRaised, verdict, {}});
  } else if (!SaysTheSame(found->second.verdict, verdict)) {
    told.push_back({What::kChanged, verdict, found->second.verdict});
  }
  const uint64_t communicator = verdict.communicator;
  cases_[communicator] = {.verdict = std::move(verdict), .set = true};
  return told;
}

void HangJudge::Keep(uint64_t communicator) {
  const auto found = cases_.find(communicator);
  if (found != cases_.end() && found->second.verdict.fault()) found->second.set = true;
}

std::vector<HangJudge::Told> HangJudge::Clear(uint64_t communicator, bool got_on, uint64_t now_ns) {
  const auto found = cases_.find(communicator);
  if (found == cases_.end()) return {};
  std::vector<Told> told{End(std::move(found->second.verdict), got_on, now_ns)};
  cases_.erase(found);
  return told;
}

bool HangJudge::goes_by_facts() const {
  return std::any_of(cases_.begin(), cases_.end(),
                     [](const auto& entry) { return !entry.second.set; });
}

const Verdict* HangJudge::Of(uint64_t communicator) const {
  const auto found = cases_.find(communicator);
  return found == cases_.end() ? nullptr : &found->second.verdict;
}

std::vector<const Verdict*> HangJudge::all() const {
  std::vector<const Verdict*> verdicts;
  verdicts.reserve(cases_.size());
  for (const auto& [communicator, one] : cases_) verdicts.push_back(&one.verdict);
  return verdicts;
}

}  // namespace harmonaize::daemon
