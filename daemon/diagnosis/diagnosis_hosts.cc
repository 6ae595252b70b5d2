// How the hosts of a communicator find out together which rank keeps an operation from ending.
//
//     host                              home
//     ranks here wait: Standing  ->     keeps it; asks the hosts that have not told
//                                <-     AskStanding
//     Standing: its absent ranks ->     judges by all of it
//                                <-     Hang: the verdict, also as the answer to Standing
//
// A host tells again every period_ns_ while its ranks wait, and the home asks as often. Whoever
// does not answer for long is unreachable. Nothing is sent while nothing is late.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/messages/message.h"
#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/diagnosis/diagnosis.h"
#include "daemon/multihost/host_group.h"
#include "src/base/clock.h"

namespace harmonaize::daemon {
namespace {

/// Most operations of one communicator that its home keeps the words of hosts about.
constexpr int64_t kMostShared = 32;
/// Most questions of homes that are answered anew when the processes have been looked at.
constexpr size_t kMostAsked = 64;
/// Periods after which what a host has said of an operation is not believed any more.
constexpr uint64_t kPeriodsKept = 4;
/// Periods after which a host forgets a verdict that the home has not repeated.
constexpr uint64_t kPeriodsTold = 10;
/// Factor of the silence after which a daemon is unreachable that does not answer while bytes of it
/// arrive. A slow link holds up an answer by as much as its queues hold: several seconds.
constexpr uint64_t kTimesSilentWhileHeard = 4;

constexpr uint64_t kMillisecond = 1'000'000;

bool IsHome(const Communicator& communicator) {
  return communicator.host_group() == nullptr || communicator.host_group()->is_home();
}

const Roster& RosterOf(const Communicator& communicator) {
  return communicator.host_group()->roster();
}

int HostOfRank(const Communicator& communicator, int rank) {
  return rank < communicator.ranks()
             ? RosterOf(communicator).host_of_rank[static_cast<size_t>(rank)]
             : -1;
}

/// Returns the rank that the process of a pair's peer is asked about at a host; -1 if none is
/// there.
int PairRankAt(const Communicator& communicator, const OperationKey& key, int host) {
  if (HostOfRank(communicator, key.to) == host) return key.to;
  return HostOfRank(communicator, key.from) == host ? key.from : -1;
}

Verdict VerdictFrom(const Communicator& communicator, const HangMessage& hang, uint64_t now_ns) {
  Verdict verdict{.communicator = communicator.id(),
                  .label = communicator.label(),
                  .key = hang.operation,
                  .operation = hang.name,
                  .since_ns = now_ns - std::min(now_ns, hang.waited_ms * kMillisecond),
                  .hang = hang.hang,
                  .roots = hang.roots,
                  .waits_for = hang.waits_for,
                  .stage = hang.stage,
                  .text = hang.notice};
  verdict.asked = hang.notice;
  if (!verdict.roots.empty()) verdict.doing = verdict.roots.front().doing;
  return verdict;
}

HangMessage MessageOf(const Communicator& communicator, const Verdict& verdict, uint64_t now_ns) {
  return {.about = RosterOf(communicator).key,
          .operation = verdict.key,
          .name = verdict.operation,
          .hang = verdict.hang,
          .waited_ms = AgeAt(verdict.since_ns, now_ns) / kMillisecond,
          .roots = verdict.roots,
          .notice = verdict.text,
          .waits_for = verdict.waits_for,
          .stage = verdict.stage};
}

}  // namespace

void Diagnosis::Send(const Communicator& communicator, transport::PeerId peer,
                     const ClusterMessage& message) const {
  // What a daemon does not take, since too much of the tenant's waits for it, is said again.
  static_cast<void>(services_.cluster->SendFor(communicator.tenant().identity, peer, message));
}

// Returns whether a host that has not answered since `unanswered_ns` (0: it has) is unreachable.
// The answers stand behind data in the queues of a slow network: data that comes shows that the
// daemon is there.
bool Diagnosis::IsSilent(const std::optional<transport::PeerId>& peer, uint64_t unanswered_ns,
                         uint64_t now_ns) const {
  const uint64_t waited_ns = unanswered_ns == 0 ? 0 : AgeAt(unanswered_ns, now_ns);
  if (waited_ns < services_.silent_ns) return false;
  if (!peer.has_value() || waited_ns >= kTimesSilentWhileHeard * services_.silent_ns) return true;
  const uint64_t heard_ns = services_.cluster->transport().HeardNs(*peer);
  return AgeAt(heard_ns, now_ns) >= services_.silent_ns;
}

// ---------------------------------------------------------------------------------------------
// At all hosts

// The home decides, by what all hosts say (JudgeShared).
void Diagnosis::NoteWhoDecides(const Communicator& communicator, WaitFact* fact) const {
  fact->decided_elsewhere = communicator.other_hosts() != nullptr;
  if (IsHome(communicator)) return;
  const Verdict* const verdict = judge_.Of(communicator.id());
  if (verdict != nullptr && verdict->key == fact->key) fact->told = verdict->roots;
}

void Diagnosis::ShareWaits(uint64_t now_ns, Gathered* gathered) {
  if (services_.cluster == nullptr) return;
  const WaitIndex index(gathered->facts);
  for (WaitFact& fact : gathered->facts) {
    const Communicator* const communicator = services_.communicators->FindById(fact.communicator);
    if (communicator == nullptr || communicator->other_hosts() == nullptr) continue;
    if (IsHome(*communicator)) {
      shared_[{fact.communicator, fact.key}].Note(
          RosterOf(*communicator).self, StandingOf(*communicator, fact, index, now_ns), now_ns);
    } else {
      TellHome(*communicator, index, now_ns, &fact);
    }
  }
  JudgeShared(now_ns, gathered);
  TellHomeOfEnds(*gathered);
  std::vector<uint64_t> expired;
  for (const auto& [id, told_ns] : told_here_) {
    if (now_ns > told_ns + kPeriodsTold * period_ns_) expired.push_back(id);
  }
  for (const uint64_t id : expired) {
    told_here_.erase(id);
    Tell(judge_.Clear(id, false, now_ns), nullptr);
  }
}

// Tells the home of an operation in which ranks here wait. If the home does not answer, its ranks
// are what the operation waits for, as far as this host can say.
void Diagnosis::TellHome(const Communicator& communicator, const WaitIndex& waits, uint64_t now_ns,
                         WaitFact* fact) {
  ToldHome& told = told_home_[{fact->communicator, fact->key}];
  if (told.told_ns == 0 || now_ns >= told.told_ns + period_ns_) {
    told.told_ns = now_ns;
    if (told.unanswered_ns == 0) told.unanswered_ns = now_ns;
    Send(communicator, RosterOf(communicator).home, StandingOf(communicator, *fact, waits, now_ns));
  }
  if (!IsSilent(RosterOf(communicator).home, told.unanswered_ns, now_ns)) return;
  const Roster& roster = RosterOf(communicator);
  const int home = roster.HostOf(roster.home);
  std::vector<int> ranks;
  if (home >= 0) communicator.host_group()->AddRanksOf(home, kMostStandings, &ranks);
  if (ranks.empty()) return;
  fact->decided_elsewhere = false;
  fact->told.clear();
  fact->awaited.clear();
  for (const int rank : ranks) fact->awaited.push_back({.rank = rank, .unreachable = true});
}

// Tells the home of operations in which no rank here waits any more.
void Diagnosis::TellHomeOfEnds(const Gathered& gathered) {
  std::erase_if(told_home_, [&](const auto& entry) {
    if (gathered.parts.contains(entry.first)) return false;
    const Communicator* const communicator = services_.communicators->FindById(entry.first.first);
    if (communicator == nullptr || communicator->host_group() == nullptr) return true;
    const Roster& roster = RosterOf(*communicator);
    Send(*communicator, roster.home,
         StandingMessage{.about = roster.key, .operation = entry.first.second});
    return true;
  });
}

StandingMessage Diagnosis::StandingOf(const Communicator& communicator, const WaitFact& fact,
                                      const WaitIndex& waits, uint64_t now_ns) const {
  StandingMessage standing{.about = RosterOf(communicator).key,
                           .operation = fact.key,
                           .name = fact.operation,
                           .waits = !fact.waiting.empty(),
                           .under_way = fact.all_posted,
                           .waited_ms = AgeAt(fact.since_ns, now_ns) / kMillisecond,
                           .late_after_ms = fact.late_after_ns / kMillisecond,
                           .usual_ms = fact.usual_ns / kMillisecond,
                           .senders = fact.senders};
  if (standing.senders.size() > kMostStandings) standing.senders.resize(kMostStandings);
  for (const AwaitedFact& rank : fact.awaited) {
    if (standing.ranks.size() == kMostStandings) break;
    RankStanding& one = standing.ranks.emplace_back(
        RankStanding{.rank = rank.rank, .awaited = rank.awaited, .doing = rank.does.doing});
    // A process that sleeps in another operation waits there for these.
    const WaitFact alone{
        .communicator = fact.communicator, .label = fact.label, .key = fact.key, .awaited = {rank}};
    for (const HangRoot& root : judge_.RootsOf(alone, waits)) {
      const bool itself = root.communicator == fact.label && root.rank == rank.rank;
      if (!itself && one.behind.size() < kMostRoots) one.behind.push_back(root);
    }
  }
  return standing;
}

// ---------------------------------------------------------------------------------------------
// At the home

void Diagnosis::JudgeShared(uint64_t now_ns, Gathered* gathered) {
  const WaitIndex index(gathered->facts);
  std::vector<WaitFact> combined;
  for (auto next = shared_.begin(); next != shared_.end();) {
    const auto& [id, key] = next->first;
    const Communicator* const communicator = services_.communicators->FindById(id);
    const bool ready =
        communicator != nullptr && communicator->state() == Communicator::State::kReady;
    if (!ready || !AskHosts(*communicator, key, &next->second, now_ns, index)) {
      next = shared_.erase(next);
      continue;
    }
    combined.push_back(CombinedFact(*communicator, key, next->second, now_ns, *gathered));
    ++next;
  }
  for (WaitFact& fact : combined) gathered->facts.push_back(std::move(fact));
}

// Asks the hosts that have not told of an operation of late. Returns false if none waits in it any
// more.
bool Diagnosis::AskHosts(const Communicator& communicator, const OperationKey& key,
                         SharedWait* shared, uint64_t now_ns, const WaitIndex& waits) {
  const Roster& roster = RosterOf(communicator);
  if (!shared->AnyWaits(roster.self, now_ns, kPeriodsKept * period_ns_)) return false;
  for (int host = 0; host < roster.hosts(); ++host) {
    if (key.pair && PairRankAt(communicator, key, host) < 0) continue;
    if (host == roster.self) {
      if (shared->HasSpokenAt(host, now_ns)) continue;
      shared->Note(host, AbsentHere(communicator, key, waits, now_ns), now_ns);
      continue;
    }
    const auto& peer = roster.peers[static_cast<size_t>(host)];
    if (!shared->IsToBeAsked(host, now_ns, period_ns_) || !peer.has_value()) continue;
    shared->NoteAsked(host, now_ns);
    Send(communicator, *peer, AskStandingMessage{roster.key, key});
  }
  return true;
}

// Puts together what the hosts have said of an operation.
WaitFact Diagnosis::CombinedFact(const Communicator& communicator, const OperationKey& key,
                                 const SharedWait& shared, uint64_t now_ns,
                                 const Gathered& gathered) const {
  WaitFact fact{.communicator = communicator.id(),
                .label = communicator.label(),
                .key = key,
                .since_ns = now_ns,
                .all_posted = true,
                .asked_late_after_ns = communicator.terms().faults().late_after_ns()};
  for (const WaitFact& own : gathered.facts) {
    if (own.communicator != fact.communicator || own.key != key) continue;
    fact.waiting = own.waiting;
    fact.still_since_ns = own.still_since_ns;
    fact.begun = own.begun;
  }
  const std::vector<int> silent = shared.AddTo(
      communicator.ranks(),
      [&](int host, uint64_t unanswered_ns) {
        const auto& peer = RosterOf(communicator).peers[static_cast<size_t>(host)];
        return IsSilent(peer, unanswered_ns, now_ns);
      },
      &fact);
  std::vector<int> unreachable;
  for (const int host : silent) {
    communicator.host_group()->AddRanksOf(host, kMostStandings, &unreachable);
  }
  // The ranks of a daemon that does not answer may be what the others are said to wait for.
  for (const int rank : unreachable) {
    if (key.pair && rank != key.from && rank != key.to) continue;
    std::erase_if(fact.awaited, [rank](const AwaitedFact& one) { return one.rank == rank; });
    fact.awaited.push_back({.rank = rank, .unreachable = true});
  }
  return fact;
}

void Diagnosis::TellHosts(const Communicator& communicator, const Verdict& verdict, bool cleared) {
  if (services_.cluster == nullptr || communicator.other_hosts() == nullptr) return;
  HangMessage message = MessageOf(communicator, verdict, MonotonicNanoseconds());
  if (cleared) message.hang = HangClass::kNone;
  const Roster& roster = RosterOf(communicator);
  if (!IsHome(communicator)) {
    // A host alone knows that a rank of its own has died.
    const bool own_loss = verdict.hang == HangClass::kDead && !verdict.roots.empty() &&
                          HostOfRank(communicator, verdict.roots.front().rank) == roster.self;
    if (own_loss && !cleared) Send(communicator, roster.home, message);
    return;
  }
  for (const auto& peer : roster.peers) {
    if (peer.has_value() && *peer != kThisDaemon) Send(communicator, *peer, message);
  }
}

// ---------------------------------------------------------------------------------------------
// Messages

bool Diagnosis::OnMessage(transport::PeerId peer, const ClusterMessage& message) {
  const auto about = [&](uint64_t key) {
    Communicator* const found = services_.communicators->FindByKey(key);
    return found != nullptr && found->host_group() != nullptr ? found : nullptr;
  };
  if (const auto* const question = message.As<AskStandingMessage>()) {
    Communicator* const communicator = about(question->about);
    const bool may_ask = communicator != nullptr && RosterOf(*communicator).home == peer;
    if (may_ask) OnAskStanding(*communicator, *question);
    return true;
  }
  if (const auto* const standing = message.As<StandingMessage>()) {
    Communicator* const communicator = about(standing->about);
    if (communicator == nullptr || !IsHome(*communicator)) return true;
    const int host = RosterOf(*communicator).HostOf(peer);
    if (host >= 0) OnStanding(*communicator, host, *standing);
    return true;
  }
  if (const auto* const hang = message.As<HangMessage>()) {
    Communicator* const communicator = about(hang->about);
    if (communicator != nullptr) OnHang(communicator, peer, *hang);
    return true;
  }
  return false;
}

void Diagnosis::OnAskStanding(const Communicator& communicator,
                              const AskStandingMessage& question) {
  const uint64_t now_ns = MonotonicNanoseconds();
  TellStanding(communicator, question.operation, now_ns);
  // What the processes do is known a moment later.
  if (asked_here_.size() < kMostAsked) asked_here_.insert({communicator.id(), question.operation});
  LookAtProcesses();
}

// Answers what the home has asked anew, with what the processes were seen doing.
void Diagnosis::AnswerAnew(uint64_t now_ns) {
  for (const auto& [id, key] : std::exchange(asked_here_, {})) {
    const Communicator* const communicator = services_.communicators->FindById(id);
    if (communicator != nullptr) TellStanding(*communicator, key, now_ns);
  }
  LookAtProcesses();
}

void Diagnosis::TellStanding(const Communicator& communicator, const OperationKey& key,
                             uint64_t now_ns) {
  if (communicator.state() != Communicator::State::kReady || IsHome(communicator)) return;
  const Gathered gathered = Gather(now_ns);
  const WaitIndex index(gathered.facts);
  const auto own = std::find_if(
      gathered.facts.begin(), gathered.facts.end(),
      [&](const WaitFact& one) { return one.communicator == communicator.id() && one.key == key; });
  Send(communicator, RosterOf(communicator).home,
       own != gathered.facts.end() ? StandingOf(communicator, *own, index, now_ns)
                                   : AbsentHere(communicator, key, index, now_ns));
}

// Returns where the ranks of this host stand that do not wait in an operation themselves.
StandingMessage Diagnosis::AbsentHere(const Communicator& communicator, const OperationKey& key,
                                      const WaitIndex& waits, uint64_t now_ns) {
  CommunicatorWait absent;
  if (key.pair) {
    const int rank = PairRankAt(communicator, key, RosterOf(communicator).self);
    if (rank >= 0) absent.Add(rank, Awaited::kCall);
  } else {
    absent = communicator.waits().Absent(key);
  }
  WaitFact fact{.communicator = communicator.id(),
                .label = communicator.label(),
                .key = key,
                .operation = absent.operation,
                .since_ns = now_ns,
                .all_posted = absent.awaited.empty()};
  const RanksOfProcesses ranks = CountRanks(communicator);
  for (const AwaitedRank& rank : absent.awaited) {
    fact.awaited.push_back(AwaitedOf(communicator, rank, ranks, now_ns));
  }
  const GapEstimate& gap = key.pair ? communicator.pair_gap() : communicator.collective_gap();
  fact.late_after_ns = 3 * gap.gap_ns();
  return StandingOf(communicator, fact, waits, now_ns);
}

void Diagnosis::OnStanding(const Communicator& communicator, int host,
                           const StandingMessage& standing) {
  if (communicator.state() != Communicator::State::kReady) return;
  const uint64_t now_ns = MonotonicNanoseconds();
  const WaitKey key{communicator.id(), standing.operation};
  if (!shared_.contains(key)) {
    const WaitKey first{communicator.id(), OperationKey{.from = INT32_MIN}};
    const WaitKey end{communicator.id() + 1, OperationKey{.from = INT32_MIN}};
    const auto kept = std::distance(shared_.lower_bound(first), shared_.lower_bound(end));
    if (!standing.waits || kept >= kMostShared) return;
  }
  shared_[key].Note(host, standing, now_ns);
  HoldWhileNeeded();
  const Verdict* const verdict = judge_.Of(communicator.id());
  HangMessage answer{.about = standing.about, .operation = standing.operation};
  if (verdict != nullptr && verdict->key == standing.operation) {
    answer = MessageOf(communicator, *verdict, now_ns);
  } else if (!standing.waits) {
    return;
  }
  Send(communicator, *RosterOf(communicator).peers[static_cast<size_t>(host)], answer);
}

void Diagnosis::OnHang(Communicator* communicator, transport::PeerId peer,
                       const HangMessage& hang) {
  const Roster& roster = RosterOf(*communicator);
  const uint64_t now_ns = MonotonicNanoseconds();
  if (IsHome(*communicator)) {
    // From a host that has lost a rank of its own.
    const int host = roster.HostOf(peer);
    const bool own = hang.hang == HangClass::kDead && !hang.roots.empty() && host >= 0 &&
                     HostOfRank(*communicator, hang.roots.front().rank) == host;
    if (own) Tell(judge_.Set(VerdictFrom(*communicator, hang, now_ns), now_ns), nullptr);
    return;
  }
  if (peer != roster.home) return;
  const auto told = told_home_.find({communicator->id(), hang.operation});
  if (told != told_home_.end()) told->second.unanswered_ns = 0;
  const Verdict* const before = judge_.Of(communicator->id());
  if (hang.hang == HangClass::kNone) {
    told_here_.erase(communicator->id());
    const bool over = before != nullptr && before->key == hang.operation;
    if (over) Tell(judge_.Clear(communicator->id(), true, now_ns), nullptr);
    return HoldWhileNeeded();
  }
  const bool lasts = hang.hang == HangClass::kDead || hang.hang == HangClass::kMismatch;
  if (!lasts) told_here_[communicator->id()] = now_ns;
  HoldWhileNeeded();
  if (before != nullptr && before->hang == HangClass::kDead) return;
  Tell(judge_.Set(VerdictFrom(*communicator, hang, now_ns), now_ns), nullptr);
}

void Diagnosis::OnPeerLost(transport::PeerId peer) {
  const uint64_t now_ns = MonotonicNanoseconds();
  for (const auto& [id, communicator] : services_.communicators->all()) {
    if (communicator->host_group() == nullptr) continue;
    const Roster& roster = RosterOf(*communicator);
    const int host = roster.HostOf(peer);
    const Verdict* const before = judge_.Of(id);
    const bool dead = before != nullptr && before->hang == HangClass::kDead;
    const bool over = communicator->state() != Communicator::State::kReady;
    if (host < 0 || dead || over) continue;
    Verdict verdict{.communicator = id, .label = communicator->label()};
    if (before != nullptr) verdict = *before;
    if (before == nullptr) verdict.since_ns = now_ns;
    verdict.hang = HangClass::kDaemonUnreachable;
    verdict.roots.clear();
    verdict.waits_for.clear();
    communicator->host_group()->AddRanksOf(host, kMostRoots, &verdict.waits_for);
    for (const int rank : verdict.waits_for) {
      verdict.roots.push_back(
          {rank, communicator->label(), HangClass::kDaemonUnreachable, Doing::kUnknown});
    }
    verdict.asked = fmt::format(
        "the daemon of {} in communicator '{}' is lost: look at its host "
        "and the links to it, and start the job again",
        roster.RanksOf(host), communicator->label());
    verdict.text = verdict.asked;
    told_here_.erase(id);
    Tell(judge_.Set(std::move(verdict), now_ns), nullptr);
  }
}

}  // namespace harmonaize::daemon
