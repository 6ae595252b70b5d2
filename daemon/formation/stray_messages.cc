#include "daemon/formation/stray_messages.h"

#include <algorithm>
#include <utility>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/messages/pair.h"
#include "daemon/communicator/communicator.h"
#include "daemon/multihost/host_group.h"
#include "daemon/runtime/guarded.h"

namespace harmonaize::daemon {
namespace {

/// Most messages that are handed over or dropped at once, before the engine looks at other tenants'
/// work. A message takes some microseconds.
constexpr int kClearedAtOnce = 64;

/// Bytes of memory that a byte of an encoded message may take where it is decoded: a number of one
/// byte becomes one of four.
constexpr size_t kBytesPerEncoded = 4;

size_t EstimateBytes(const ClusterMessage& message) {
  return sizeof(ClusterMessage) + kBytesPerEncoded * EncodeMessage(message).size();
}

}  // namespace

void StrayMessages::OnMessage(transport::PeerId peer, uint64_t key, const ClusterMessage& message) {
  if (HasEnded(key) && !Keeps(key)) return Drop(peer, key, message);
  Kept& kept = PlaceFor(key)->second;
  if (kept.overflowed) return;
  const size_t bytes = EstimateBytes(message);
  kept.messages.push_back({peer, message, bytes});
  kept.bytes += bytes;
  bytes_ += bytes;
  if (kept.bytes > kMostBytesOfKey) Overflow(&kept);
  if (bytes_ > kMostBytes) OverflowLargest();
}

// Returns the place for a communicator's messages. The oldest of others may have to make room.
StrayMessages::KeptByKey::iterator StrayMessages::PlaceFor(uint64_t key) {
  const auto found = kept_.find(key);
  if (found != kept_.end()) return found;
  if (by_age_.size() >= kMostKeys) Erase(kept_.find(by_age_.front()));
  const auto age = by_age_.insert(by_age_.end(), key);
  try {
    const auto place = kept_.try_emplace(key).first;
    place->second.age = age;
    return place;
  } catch (...) {
    by_age_.erase(age);
    throw;
  }
}

// A communicator of which messages are lost cannot go on. It ends when it is here.
void StrayMessages::Overflow(Kept* kept) {
  kept->overflowed = true;
  kept->messages.clear();
  bytes_ -= std::exchange(kept->bytes, 0);
}

// Looks at all of them: what that takes is little beside the messages that it took to get here, as
// the largest has a kMostKeys-th of all bytes at least.
void StrayMessages::OverflowLargest() {
  const auto largest = std::max_element(
      kept_.begin(), kept_.end(),
      [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; });
  Overflow(&largest->second);
}

void StrayMessages::Erase(KeptByKey::iterator kept) {
  bytes_ -= kept->second.bytes;
  if (!kept->second.clearing) by_age_.erase(kept->second.age);
  kept_.erase(kept);
}

void StrayMessages::DeliverTo(Communicator* communicator, uint64_t key) {
  const auto found = kept_.find(key);
  if (found == kept_.end()) return;
  found->second.communicator = communicator;
  Clear(found);
}

void StrayMessages::NoteEnded(uint64_t key, uint64_t collectives) {
  if (ended_.try_emplace(key, collectives).second) ended_order_.push_back(key);
  if (ended_order_.size() > kMostEnded) {
    ended_.erase(ended_order_.front());
    ended_order_.pop_front();
  }
  const auto found = kept_.find(key);
  if (found == kept_.end()) return;
  // If they are being handed over, the rest is dropped.
  found->second.communicator = nullptr;
  if (!found->second.clearing) Clear(found);
}

// Hands over or drops what is kept for the communicator.
void StrayMessages::Clear(KeptByKey::iterator kept) {
  clearing_.push_back(kept->first);
  kept->second.clearing = true;
  by_age_.erase(kept->second.age);
  if (!posted_) ClearSome();
}

void StrayMessages::ClearSome() {
  posted_ = false;
  for (int i = 0; i < kClearedAtOnce && !clearing_.empty(); ++i) {
    const auto kept = kept_.find(clearing_.front());
    const bool done =
        kept == kept_.end() || (kept->second.messages.empty() && !kept->second.overflowed);
    if (!done) {
      TakeOut(kept->first, kept);
      continue;
    }
    if (kept != kept_.end()) Erase(kept);
    clearing_.pop_front();
  }
  GoOn();
}

void StrayMessages::GoOn() {
  if (clearing_.empty()) return;
  loop_->Post(lifetime_.Guard([this] { ClearSome(); }));
  posted_ = true;
}

// Hands over or drops the first message that is kept for a communicator.
void StrayMessages::TakeOut(uint64_t key, KeptByKey::iterator kept) {
  Communicator* const communicator = kept->second.communicator;
  if (std::exchange(kept->second.overflowed, false)) {
    if (communicator == nullptr) return;
    return communicator->Break(RemoteError(
        "other hosts sent more than is kept for a communicator that has not formed here"));
  }
  const Message message = std::move(kept->second.messages.front());
  kept->second.messages.pop_front();
  kept->second.bytes -= message.bytes;
  bytes_ -= message.bytes;
  if (communicator != nullptr) return Deliver(communicator, message);
  Drop(message.peer, key, message.content);
}

void StrayMessages::Deliver(Communicator* communicator, const Message& message) {
  Guarded([&] { communicator->other_hosts()->OnMessage(message.peer, message.content); },
          [&](const Status& exception) { communicator->Break(exception); });
}

void StrayMessages::OnPeerLost(transport::PeerId peer) {
  for (auto& entry : kept_) {
    auto& kept = entry.second;
    std::erase_if(kept.messages, [&](const Message& message) {
      if (message.peer != peer) return false;
      kept.bytes -= message.bytes;
      bytes_ -= message.bytes;
      return true;
    });
  }
}

// The peer has sent, or offers to send, what nobody here will take.
void StrayMessages::Drop(transport::PeerId peer, uint64_t key, const ClusterMessage& message) {
  transport::Transport& transport = cluster_->transport();
  if (const auto* offer = message.As<OfferMessage>()) {
    transport.Cancel(peer, HostGroup::PairNumber(key, offer->from, offer->to, offer->number));
    cluster_->Answer(peer, key,
                     AnswerMessage{key, offer->from, offer->to, offer->number,
                                   RemoteError("rank {} has left the communicator", offer->to)});
  }
  if (const auto* opened = message.As<PipesOpenedMessage>()) {
    cluster_->Answer(peer, key, PipesClosedMessage{key, opened->to, opened->from, 0, true, 0});
  }
  if (const auto* pipes = message.As<PipesClosedMessage>(); pipes != nullptr && !pipes->all) {
    transport.Cancel(peer, HostGroup::PipeNumber(key, pipes->pipe));
  }
  const auto* closed = message.As<ClosedMessage>();
  if (closed == nullptr) return;
  const auto ended = ended_.find(key);
  if (ended == ended_.end()) return;
  HostGroup::DropCollectives(cluster_, peer, key, ended->second, closed->collectives);
}

}  // namespace harmonaize::daemon
