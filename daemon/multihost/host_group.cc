#include "daemon/multihost/host_group.h"

#include <algorithm>
#include <utility>

#include "daemon/cluster/messages/pair.h"
#include "daemon/communicator/communicator.h"
#include "daemon/communicator/late_explainer.h"
#include "daemon/multihost/collective_outcomes.h"
#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// Most operations of a peer that are dropped: more than a rank has under way by any sane quota.
constexpr uint64_t kMostDropped = 256 << 10;

/// Most open cases that are looked at again at once, before the engine looks at other tenants'
/// work. A look goes through what each host has said.
constexpr size_t kCasesAtOnce = 32;

// Does one step of SplitMix64 (Steele, Lea, Flood, 2014). It spreads the names of operations over
// all numbers, so that those of different communicators meet once in some billion years.
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

/// Whether it is the daemon of another host, and was reached.
bool IsOther(const std::optional<transport::PeerId>& peer) {
  return peer.has_value() && *peer != kThisDaemon;
}

/// Returns whether the message is about the end of ranks, of all, or of pipes, or says that an end
/// is to be told. It is sent however much waits: a communicator has few of them, and others would
/// wait for what never comes.
bool IsAboutEnds(const ClusterMessage& message) {
  const auto* const pipes = message.As<PipesClosedMessage>();
  if (pipes != nullptr) return pipes->all;
  return message.As<PipesOpenedMessage>() != nullptr || message.As<BrokenMessage>() != nullptr ||
         message.As<LeftMessage>() != nullptr || message.As<ClosedMessage>() != nullptr;
}

}  // namespace

HostGroup::HostGroup(const HostServices& services, Communicator* communicator,
                     CollectiveOutcomes* outcomes, Roster roster)
    : services_(services),
      communicator_(communicator),
      outcomes_(outcomes),
      roster_(std::move(roster)),
      plans_(services, communicator, this),
      first_staying_(static_cast<size_t>(roster_.hosts()), 0),
      looks_(communicator, kCasesAtOnce, [this] { return LookAtOneCase(); }) {
  if (!is_home()) return;
  arbiter_ =
      std::make_unique<OutcomeArbiter>(roster_.hosts(), [this](int host) { return HasLeft(host); });
  confirmations_ = std::make_unique<StartConfirmations>(roster_.hosts());
}

HostGroup::~HostGroup() = default;

const KnownFabric* HostGroup::fabric() const {
  return services_.fabrics->Find(roster_.fabric);
}

void HostGroup::ReachHost(int host, std::function<void(const Status&)> done) {
  const auto place = static_cast<size_t>(host);
  if (roster_.peers[place].has_value()) return done(Status::Ok());
  const auto reached = [this, place, host, done](const Result<transport::PeerId>& peer) {
    if (!peer.ok()) {
      return done(RemoteError("{}: their host's daemon cannot be reached", roster_.RanksOf(host)));
    }
    roster_.peers[place] = *peer;
    done(Status::Ok());
  };
  services_.cluster->Reach(roster_.addresses[place], lifetime_.Guard(reached));
}

// ---------------------------------------------------------------------------------------------
// Names

uint64_t HostGroup::CollectiveNumber(uint64_t key, uint64_t sequence) {
  return Mix(Mix(key) ^ sequence);
}

uint64_t HostGroup::PipeNumber(uint64_t key, uint32_t pipe) {
  return Mix(Mix(key + 2) ^ pipe);
}

uint64_t HostGroup::NotesNumber(uint64_t key, int rank) {
  return Mix(Mix(key + 3) ^ static_cast<uint64_t>(rank));
}

uint64_t HostGroup::PairNumber(uint64_t key, int from, int to, uint64_t number) {
  const uint64_t pair = uint64_t{static_cast<uint32_t>(from)} << 32 | static_cast<uint32_t>(to);
  return Mix(Mix(Mix(key + 1) ^ pair) ^ number);
}

void HostGroup::DropCollectives(Cluster* cluster, transport::PeerId peer, uint64_t key,
                                uint64_t first, uint64_t begun) {
  if (first >= begun) return;
  // Drops the oldest ones, and does not go through all of an impossible number.
  const uint64_t end = first + std::min(begun - first, kMostDropped);
  cluster->CancelMany(peer, first, end,
                      [key](uint64_t sequence) { return CollectiveNumber(key, sequence); });
}

void HostGroup::Forget(uint64_t number) {
  for (const auto& peer : roster_.peers) {
    if (IsOther(peer)) services_.cluster->transport().Cancel(*peer, number);
  }
}

void HostGroup::ForgetAt(int rank, uint64_t number) {
  const auto host = static_cast<size_t>(roster_.host_of_rank[static_cast<size_t>(rank)]);
  const auto& peer = roster_.peers[host];
  if (IsOther(peer)) services_.cluster->transport().Cancel(*peer, number);
}

// ---------------------------------------------------------------------------------------------
// What is said

void HostGroup::Tell(transport::PeerId peer, const ClusterMessage& message) {
  if (IsAboutEnds(message)) return services_.cluster->Send(peer, message);
  const Status sent = services_.cluster->SendFor(communicator_->tenant().identity, peer, message);
  if (!sent.ok()) BreakSoon(sent);
}

void HostGroup::BreakSoon(const Status& why) {
  if (std::exchange(break_posted_, true)) return;
  communicator_->CallSoon([communicator = communicator_, why] { communicator->Break(why); });
}

// A message of the home to itself comes later, as it does to all others: never from within what it
// is about to do.
void HostGroup::TellHome(const ClusterMessage& message) {
  Tell(roster_.home, message);
}

void HostGroup::TellSelf(const ClusterMessage& message) {
  Tell(kThisDaemon, message);
}

void HostGroup::TellLeft(const LeftMessage& left) {
  if (is_home() || services_.cluster->Linked(roster_.home)) return TellHome(left);
  TellReached(left);
}

void HostGroup::TellHosts(const ClusterMessage& message, int except) {
  for (int host = 0; host < roster_.hosts(); ++host) {
    const auto& peer = roster_.peers[static_cast<size_t>(host)];
    if (IsOther(peer) && host != except) Tell(*peer, message);
  }
}

void HostGroup::TellHostOf(int rank, const ClusterMessage& message) {
  const int host = roster_.host_of_rank[static_cast<size_t>(rank)];
  if (const auto& peer = roster_.peers[static_cast<size_t>(host)]) return Tell(*peer, message);
  const Status paid = paid_unreached_.Cover(
      unreached_ + 1, [this](int64_t bytes) { return communicator_->Pay(bytes); });
  if (!paid.ok()) return BreakSoon(paid);
  ++unreached_;
  ReachHost(host, [this, host, message](const Status& reached) {
    --unreached_;
    if (!reached.ok()) return communicator_->Break(reached);
    Tell(*roster_.peers[static_cast<size_t>(host)], message);
  });
}

void HostGroup::TellReached(const ClusterMessage& message) {
  TellHosts(message);
}

// Goes on where the last call for this host stopped: a rank that has left does not come back.
bool HostGroup::HasLeft(int host) {
  int& rank = first_staying_[static_cast<size_t>(host)];
  for (; rank < communicator_->ranks(); ++rank) {
    const bool here = roster_.host_of_rank[static_cast<size_t>(rank)] == host;
    if (here && !communicator_->HasLeft(rank)) return false;
  }
  return true;
}

void HostGroup::OnProgress(int host, const ProgressMessage& progress) {
  ActOn(progress.sequence, arbiter_->Take(host, progress, MonotonicNanoseconds()));
}

void HostGroup::EndFrom(uint64_t sequence) {
  if (sequence == 0) unconfirmed_starts_.Clear();
  CountUntold();
  if (!is_home()) return;
  // What ranks disagreed about may be why one has left, or why the communicator broke.
  for (const Mismatch& mismatch : arbiter_->EndFrom(sequence)) {
    communicator_->observers().Tell(&CommunicatorObserver::OnMismatch, *communicator_, mismatch);
  }
  confirmations_->EndFrom(sequence);
  CountOpenCases();
  LookAgainSoon();
}

void HostGroup::NoteBegun(const BegunCollective& begun, bool asks) {
  unconfirmed_starts_.Begin(begun);
  if (asks || unconfirmed_starts_.due(begun.sequence)) return TellBegun(asks);
  CountUntold();
}

void HostGroup::NoteOther(uint64_t sequence) {
  if (unconfirmed_starts_.due(sequence)) TellBegun();
}

void HostGroup::TellBegun(bool asks) {
  if (unconfirmed_starts_.anything_to_tell()) {
    TellHome(BegunMessage{roster_.key, unconfirmed_starts_.TakeUntold(), asks});
  }
  CountUntold();
}

void HostGroup::OnBegun(int host, const BegunMessage& message) {
  std::vector<uint64_t> disagreed;
  for (const BegunCollective& one : message.begun) {
    const StartConfirmations::Outcome outcome = confirmations_->Take(host, one);
    if (outcome == StartConfirmations::Outcome::kDisagree) disagreed.push_back(one.sequence);
  }
  if (message.asks && !message.begun.empty())
    confirmations_->Ask(host, message.begun.back().sequence);
  const AgreedMessage agreed{roster_.key, confirmations_->agreed()};
  for (const int listener : confirmations_->TakeListeners()) {
    if (listener == roster_.self) {
      outcomes_->OnAgreed(agreed.sequence);
    } else {
      Tell(*roster_.peers[static_cast<size_t>(listener)], agreed);
    }
  }
  for (const uint64_t sequence : disagreed) {
    // The arbiter puts into words what each host asks for.
    arbiter_->NoteDisagreement(sequence);
    std::vector<int> all;
    for (int each = 0; each < roster_.hosts(); ++each) all.push_back(each);
    ActOn(sequence, {.ask = std::move(all), .verdict = {}, .mismatch = {}, .breaks = {}});
  }
}

// Has the engine come by while there is something to tell, whether or not a rank waits.
void HostGroup::CountUntold() {
  untold_ =
      unconfirmed_starts_.anything_to_tell() ? WaitingHold(*services_.waiting) : WaitingHold();
}

// Looks at the open cases again, later, since the caller is about to change what is looked at; and
// once for all ranks that leave until then.
void HostGroup::LookAgainSoon() {
  if (look_posted_) return;
  communicator_->CallSoon([this] { LookAgain(); });
  look_posted_ = true;
}

// Looks at all open cases again, in portions, if a host is gone whose word they may have waited
// for.
void HostGroup::LookAgain() {
  look_posted_ = false;
  int gone = 0;
  for (int host = 0; host < roster_.hosts(); ++host) gone += HasLeft(host) ? 1 : 0;
  if (std::exchange(hosts_gone_, gone) == gone) return;
  look_from_ = 0;
  looks_.Begin();
}

// Returns false if there is no case that was not looked at.
bool HostGroup::LookAtOneCase() {
  const std::optional<OutcomeArbiter::LookedAt> looked =
      arbiter_->LookAgain(look_from_, MonotonicNanoseconds());
  if (!looked.has_value()) {
    CountOpenCases();
    return false;
  }
  look_from_ = looked->sequence + 1;
  const OutcomeArbiter::Outcome& outcome = looked->outcome;
  const bool nothing = outcome.ask.empty() && outcome.verdict.ok() && outcome.breaks.ok();
  if (!nothing) ActOn(looked->sequence, outcome);
  return true;
}

// Has the engine look for late ranks while a case is not decided, whether or not a rank of this
// host waits.
void HostGroup::CountOpenCases() {
  undecided_ = arbiter_->open() > 0 ? WaitingHold(*services_.waiting) : WaitingHold();
  if (!arbiter_->settles()) return;
  // The first look asks anew, and the second one decides.
  services_.tick_by(MonotonicNanoseconds() + OutcomeArbiter::kSettleNanoseconds / 2);
}

bool HostGroup::NotePeer(int rank, transport::PeerId peer) {
  std::optional<transport::PeerId>& known =
      roster_.peers[static_cast<size_t>(roster_.host_of_rank[static_cast<size_t>(rank)])];
  if (!known.has_value()) known = peer;
  return known == peer;
}

bool HostGroup::MaySpeakFor(int rank, transport::PeerId peer) const {
  if (peer == roster_.home) return true;
  const auto host = static_cast<size_t>(roster_.host_of_rank[static_cast<size_t>(rank)]);
  const std::optional<transport::PeerId>& known = roster_.peers[host];
  return known.has_value() ? *known == peer : roster_.HostOf(peer) < 0;
}

bool HostGroup::MayBelong(transport::PeerId peer) const {
  if (peer == roster_.home || roster_.HostOf(peer) >= 0) return true;
  return std::find(roster_.peers.begin(), roster_.peers.end(), std::nullopt) != roster_.peers.end();
}

void HostGroup::AddRanksOf(int host, size_t most, std::vector<int>* ranks) const {
  for (size_t rank = 0; rank < roster_.host_of_rank.size() && ranks->size() < most; ++rank) {
    if (roster_.host_of_rank[rank] == host) ranks->push_back(static_cast<int>(rank));
  }
}

void HostGroup::ActOn(uint64_t sequence, const OutcomeArbiter::Outcome& outcome) {
  for (const int host : outcome.ask) {
    const AskProgressMessage question{roster_.key, sequence};
    if (host == roster_.self) {
      outcomes_->TellProgress(sequence);
    } else {
      Tell(*roster_.peers[static_cast<size_t>(host)], question);
    }
  }
  CountOpenCases();
  if (!outcome.breaks.ok()) return communicator_->Break(outcome.breaks);
  if (outcome.verdict.ok()) return;
  if (outcome.mismatch.has_value()) {
    communicator_->observers().Tell(&CommunicatorObserver::OnMismatch, *communicator_,
                                    *outcome.mismatch);
  }
  confirmations_->Forget(sequence);
  TellHosts(VerdictMessage{roster_.key, sequence, outcome.verdict});
  outcomes_->OnVerdict(sequence, outcome.verdict);
}

void HostGroup::ReportLate(uint64_t now_ns, uint64_t late_after_ns) {
  TellBegun();
  if (!is_home()) return;
  for (const OutcomeArbiter::LookedAt& looked : arbiter_->Settle(now_ns)) {
    ActOn(looked.sequence, looked.outcome);
    if (communicator_->state() != Communicator::State::kReady) return;
  }
  for (const OutcomeArbiter::LateOperation& late : arbiter_->Late(now_ns, late_after_ns)) {
    ActOn(late.sequence, {.ask = late.ask, .verdict = {}, .mismatch = {}, .breaks = {}});
    if (late.notice.empty()) continue;
    const LateExplainer* const explainer = services_.explainer;
    const std::string why =
        explainer == nullptr
            ? ""
            : explainer->Explain(*communicator_, {.sequence = late.sequence}, late.missing);
    const LateMessage message{roster_.key, late.sequence, late.notice + why, late.missing};
    TellHosts(message);
    outcomes_->OnLate(message);
  }
}

}  // namespace harmonaize::daemon
