#include "daemon/formation/stray_messages.h"

#include <algorithm>
#include <utility>

#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator.h"
#include "daemon/multihost/host_group.h"

namespace harmonaize::daemon {
namespace {

/// At most so many messages are kept for communicators to come.
constexpr size_t kMostKeptMessages = 4096;
/// At most so many communicators that have ended are remembered.
constexpr size_t kMostEnded = 1024;

}  // namespace

void StrayMessages::OnMessage(transport::PeerId peer, uint64_t key, const ClusterMessage& message) {
  if (HasEnded(key)) return Drop(peer, key, message);
  kept_.push_back({peer, key, message});
  if (kept_.size() > kMostKeptMessages) kept_.pop_front();
}

void StrayMessages::DeliverTo(Communicator* communicator, uint64_t key) {
  std::deque<Kept> kept;
  for (Kept& one : kept_) {
    if (one.key == key) kept.push_back(std::move(one));
  }
  std::erase_if(kept_, [&](const Kept& one) { return one.key == key; });
  for (const Kept& one : kept) communicator->other_hosts()->OnMessage(one.peer, one.message);
}

void StrayMessages::NoteEnded(uint64_t key, uint64_t collectives) {
  ended_.push_back({key, collectives});
  if (ended_.size() > kMostEnded) ended_.pop_front();
}

void StrayMessages::DropKeptFor(uint64_t key) {
  for (const Kept& one : kept_) {
    if (one.key == key) Drop(one.peer, one.key, one.message);
  }
  std::erase_if(kept_, [&](const Kept& one) { return one.key == key; });
}

void StrayMessages::OnPeerLost(transport::PeerId peer) {
  std::erase_if(kept_, [&](const Kept& one) { return one.peer == peer; });
}

bool StrayMessages::HasEnded(uint64_t key) const {
  return std::any_of(ended_.begin(), ended_.end(),
                     [&](const Ended& one) { return one.key == key; });
}

// The peer has sent, or offers to send, what nobody here will take.
void StrayMessages::Drop(transport::PeerId peer, uint64_t key, const ClusterMessage& message) {
  transport::Transport& transport = cluster_->transport();
  if (const auto* offer = message.As<OfferMessage>()) {
    transport.Cancel(peer, HostGroup::PairNumber(key, offer->from, offer->to, offer->number));
    cluster_->Send(peer,
                   AnswerMessage{key, offer->from, offer->to, offer->number,
                                 RemoteError("rank {} has left the communicator", offer->to)});
  }
  const auto* closed = message.As<ClosedMessage>();
  if (closed == nullptr) return;
  for (const Ended& ended : ended_) {
    if (ended.key != key) continue;
    HostGroup::DropCollectives(&transport, peer, key, ended.collectives, closed->collectives);
  }
}

}  // namespace harmonaize::daemon
