#include "daemon/formation/lost_ranks.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/formation/home_address.h"
#include "daemon/multihost/host_group.h"
#include "src/base/clock.h"
#include "src/ipc/messages.h"

namespace harmonaize::daemon {
namespace {

/// Nanoseconds for which a daemon may take to answer. One that is well needs a round trip; the
/// process's other requests wait meanwhile.
constexpr uint64_t kRanksAnswerWithinNs = 1'000'000'000;

static_assert(kMostLostInMessage == kMostLostRanksNamed);

LostRanks::Lost KnownHere(const Communicator& communicator) {
  LostRanks::Lost lost;
  for (int rank = 0; rank < communicator.ranks(); ++rank) {
    if (!communicator.HasLeft(rank)) continue;
    ++lost.count;
    if (lost.ranks.size() < kMostLostInMessage) lost.ranks.push_back(rank);
  }
  return lost;
}

/// Returns the ranks of this host that have left, of which a new home has not been told.
std::vector<int> LeftHere(const Communicator& communicator) {
  std::vector<int> left;
  for (int rank = 0; rank < communicator.ranks() && left.size() < kMostLostInMessage; ++rank) {
    if (!communicator.IsRemote(rank) && communicator.HasLeft(rank)) left.push_back(rank);
  }
  return left;
}

/// Returns what two daemons know together. The count is exact where both name all.
LostRanks::Lost Together(const LostRanks::Lost& one, const LostRanks::Lost& other) {
  LostRanks::Lost both;
  std::set_union(one.ranks.begin(), one.ranks.end(), other.ranks.begin(), other.ranks.end(),
                 std::back_inserter(both.ranks));
  both.count = std::max({one.count, other.count, static_cast<int>(both.ranks.size())});
  both.ranks.resize(std::min(both.ranks.size(), kMostLostInMessage));
  return both;
}

/// Returns the host of the first rank that is not among these, which rise.
int FirstHostLeft(const Roster& roster, const std::vector<int>& lost) {
  int first = 0;
  while (std::binary_search(lost.begin(), lost.end(), first)) ++first;
  return roster.host_of_rank[static_cast<size_t>(first)];
}

/// Returns the other hosts with ranks that are not known to be lost.
std::vector<int> OtherHostsLeft(const Communicator& communicator, const std::vector<int>& lost) {
  const Roster& roster = communicator.host_group()->roster();
  std::set<int> hosts;
  for (int rank = 0; rank < communicator.ranks(); ++rank) {
    if (communicator.HasLeft(rank) || std::binary_search(lost.begin(), lost.end(), rank)) continue;
    if (communicator.IsRemote(rank)) hosts.insert(roster.host_of_rank[static_cast<size_t>(rank)]);
  }
  return {hosts.begin(), hosts.end()};
}

std::vector<int> RanksAt(const Roster& roster, int host) {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < roster.host_of_rank.size(); ++rank) {
    if (roster.host_of_rank[rank] == host) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

/// Takes in that ranks of a daemon's host have left, as that daemon says. The communicator has to
/// have ended, as it has where the home is lost: then it does not matter after how many collectives
/// they left.
void TakeInLeft(transport::PeerId peer, const std::vector<int>& left, Communicator& communicator) {
  if (communicator.state() == Communicator::State::kReady) return;
  const uint64_t key = communicator.host_group()->roster().key;
  for (const int rank : left)
    communicator.other_hosts()->OnMessage(peer, LeftMessage{key, rank, 0});
}

}  // namespace

void LostRanks::Ask(const Communicator& communicator, Done done) {
  Call call{.communicator = communicator.id(),
            .until_ns = MonotonicNanoseconds() + kRanksAnswerWithinNs,
            .done = std::move(done),
            .waiting = WaitingHold(services_.waiting)};
  const Result<HomeAddress> home = HomeOf(communicator, services_.cluster);
  if (!home.ok()) return AskSuccessor(communicator, std::move(call));
  if (home->here) return call.done(KnownHere(communicator));
  Send(Begin(std::move(call)), *home->peer, {.about = communicator.host_group()->roster().key});
}

// The home is lost. Ranks that were lost at several hosts may have been told to few daemons: they
// meet at the one at which a shrink would form. Who asks may learn that this is another one: its
// first rank is lost as well. The next one's first rank has a higher number, so there is an end.
void LostRanks::AskSuccessor(const Communicator& communicator, Call call) {
  const Lost known = Together(KnownHere(communicator), call.found);
  if (known.ranks.size() == static_cast<size_t>(communicator.ranks())) return call.done(known);
  const Roster& roster = communicator.host_group()->roster();
  const int successor = FirstHostLeft(roster, known.ranks);
  if (successor == roster.self) return AskAll(communicator, std::move(call));
  if (successor == call.successor) return call.done(known);
  call.successor = successor;
  AskHost(communicator, std::move(call));
}

// All ranks of another host may be lost, whose daemon has told the lost home alone. It asks nobody,
// since it has no rank that does, so the successor asks it.
void LostRanks::AskAll(const Communicator& communicator, Call call) {
  const std::vector<int> hosts = OtherHostsLeft(communicator, call.found.ranks);
  const auto all = std::make_shared<Call>(std::move(call));
  const auto one_is_done = [this, all, open = std::make_shared<size_t>(hosts.size() + 1)] {
    if (--*open > 0) return;
    const Communicator* const about = services_.communicators.FindById(all->communicator);
    if (about == nullptr) return all->done(RemoteError("the communicator is gone"));
    all->done(Together(KnownHere(*about), all->found));
  };
  for (const int host : hosts) {
    AskHost(communicator, {.communicator = all->communicator,
                           .successor = host,
                           .is_one_of_all = true,
                           .until_ns = all->until_ns,
                           .done = [one_is_done](const Result<Lost>&) { one_is_done(); },
                           .waiting = WaitingHold(services_.waiting)});
  }
  one_is_done();
}

void LostRanks::AskHost(const Communicator& communicator, Call call) {
  const Roster& roster = communicator.host_group()->roster();
  const auto host = static_cast<size_t>(call.successor);
  const AskLostMessage ask{.about = roster.key, .left = LeftHere(communicator)};
  const uint64_t number = Begin(std::move(call));
  const std::optional<transport::PeerId> known = roster.peers[host];
  if (known.has_value() && services_.cluster->Linked(*known)) return Send(number, *known, ask);
  services_.cluster->Reach(
      roster.addresses[host],
      lifetime_.Guard([this, number, ask](const Result<transport::PeerId>& peer) {
        if (!peer.ok()) return End(number, nullptr);
        Send(number, *peer, ask);
      }));
}

uint64_t LostRanks::Begin(Call call) {
  const uint64_t number = next_call_++;
  call.peer.reset();
  services_.tick_by(call.until_ns);
  calls_.emplace(number, std::move(call));
  return number;
}

void LostRanks::Send(uint64_t call, transport::PeerId peer, AskLostMessage ask) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;  // answered meanwhile
  const Communicator* const communicator =
      services_.communicators.FindById(found->second.communicator);
  if (communicator == nullptr) return End(call, nullptr);
  found->second.peer = peer;
  ask.call = call;
  const TenantIdentity& tenant = communicator->tenant().identity;
  if (!services_.cluster->SendFor(tenant, peer, ask).ok()) End(call, nullptr);
}

// What the home has answered counts alone, so that all ranks are told the same.
void LostRanks::End(uint64_t call, const LostMessage* answer) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  Call ended = std::move(found->second);
  calls_.erase(found);
  Communicator* const communicator = services_.communicators.FindById(ended.communicator);
  if (communicator == nullptr) return ended.done(RemoteError("the communicator is gone"));
  const bool of_home = ended.successor == kHome;
  if (answer != nullptr && of_home && answer->known) {
    return ended.done(Lost{answer->count, answer->ranks});
  }
  if (answer == nullptr || of_home) {
    return ended.done(Together(KnownHere(*communicator), ended.found));
  }
  if (!answer->known) {
    const Roster& roster = communicator->host_group()->roster();
    TakeInLeft(*ended.peer, RanksAt(roster, ended.successor), *communicator);
  }
  if (ended.is_one_of_all) return ended.done(Lost{});
  ended.found = Together(ended.found, {answer->count, answer->ranks});
  AskSuccessor(*communicator, std::move(ended));
}

void LostRanks::Tick(uint64_t now_ns) {
  std::vector<uint64_t> due;
  for (const auto& [call, waiting] : calls_) {
    if (waiting.until_ns <= now_ns) {
      due.push_back(call);
    } else {
      services_.tick_by(waiting.until_ns);
    }
  }
  for (const uint64_t call : due) End(call, nullptr);
}

// ---------------------------------------------------------------------------------------------
// What the cluster says

void LostRanks::OnAsk(transport::PeerId peer, const AskLostMessage& ask) {
  LostMessage answer{.call = ask.call};
  Communicator* const communicator = services_.communicators.FindByKey(ask.about);
  const HostGroup* const group = communicator == nullptr ? nullptr : communicator->host_group();
  if (group != nullptr && group->MayBelong(peer)) {
    TakeInLeft(peer, ask.left, *communicator);
    Lost known = KnownHere(*communicator);
    answer.known = true;
    answer.count = known.count;
    answer.ranks = std::move(known.ranks);
  }
  services_.cluster->Send(peer, answer);
}

void LostRanks::OnLost(transport::PeerId peer, const LostMessage& answer) {
  const auto call = calls_.find(answer.call);
  if (call == calls_.end() || call->second.peer != peer) return;
  End(answer.call, &answer);
}

void LostRanks::OnPeerLost(transport::PeerId peer) {
  std::vector<uint64_t> unanswered;
  for (const auto& [call, waiting] : calls_) {
    if (waiting.peer == peer) unanswered.push_back(call);
  }
  for (const uint64_t call : unanswered) End(call, nullptr);
}

}  // namespace harmonaize::daemon
