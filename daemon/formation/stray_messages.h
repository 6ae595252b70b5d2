#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <unordered_map>

#include "daemon/cluster/messages/message.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/lifetime.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Cluster;
class Communicator;

/// Messages of other daemons about communicators that are not here. A message about a communicator
/// that the home has not announced yet is kept until it does. A message about one that has ended is
/// dropped, with an answer where the sender waits for one.
///
/// The messages for a communicator are bounded: beyond the bound the communicator ends as soon as
/// it is here. Many messages are handed over, or dropped, in portions. Thread: engine.
class StrayMessages {
 public:
  /// `cluster` is nullptr where this host stands alone, and no message comes.
  StrayMessages(Cluster* cluster, EventLoop* loop) : cluster_(cluster), loop_(loop) {}

  /// Takes in what a peer says about the communicator. Requires: it is not here, or Keeps(key).
  void OnMessage(transport::PeerId peer, uint64_t key, const ClusterMessage& message);
  /// Hands the communicator what was kept for it: some now, the rest soon.
  void DeliverTo(Communicator* communicator, uint64_t key);
  /// Returns whether messages are kept for the communicator. A new one waits behind them.
  bool Keeps(uint64_t key) const { return kept_.contains(key); }
  /// Notes that the communicator has ended here, after so many collectives had begun, and drops
  /// what was kept for it.
  void NoteEnded(uint64_t key, uint64_t collectives);
  /// Forgets what was kept of a peer.
  void OnPeerLost(transport::PeerId peer);

  // Bounds of what is kept, and remembered.

  /// For one communicator, in bytes by a rough estimate: some thousands of offers.
  static constexpr size_t kMostBytesOfKey = size_t{4} << 20;
  /// For all communicators, in bytes by a rough estimate.
  static constexpr size_t kMostBytes = size_t{64} << 20;
  /// Communicators for which messages are kept. Beyond it the oldest is forgotten.
  static constexpr size_t kMostKeys = 4096;
  /// Communicators that have ended and are remembered. Beyond it the oldest is forgotten.
  static constexpr size_t kMostEnded = 16'384;

 private:
  struct Message {
    transport::PeerId peer;
    ClusterMessage content;
    size_t bytes;
  };
  /// The messages that are kept for one communicator.
  struct Kept {
    std::deque<Message> messages;
    size_t bytes = 0;
    bool overflowed = false;               ///< Messages were lost.
    Communicator* communicator = nullptr;  ///< It gets them; nullptr: it is not here.
    bool clearing = false;                 ///< They are handed over or dropped.
    std::list<uint64_t>::iterator age;     ///< Its place in by_age_, until they are.
  };
  using KeptByKey = std::unordered_map<uint64_t, Kept>;

  bool HasEnded(uint64_t key) const { return ended_.contains(key); }
  KeptByKey::iterator PlaceFor(uint64_t key);
  void Overflow(Kept* kept);
  void OverflowLargest();
  void Erase(KeptByKey::iterator kept);
  void Clear(KeptByKey::iterator kept);
  void GoOn();
  void ClearSome();
  void TakeOut(uint64_t key, KeptByKey::iterator kept);
  void Deliver(Communicator* communicator, const Message& message);
  void Drop(transport::PeerId peer, uint64_t key, const ClusterMessage& message);

  Cluster* const cluster_;
  EventLoop* const loop_;
  KeptByKey kept_;
  std::list<uint64_t> by_age_;     // keys of kept_ that are not in clearing_, the oldest first
  size_t bytes_ = 0;               // of all kept messages
  std::deque<uint64_t> clearing_;  // keys whose messages are handed over or dropped
  bool posted_ = false;            // a call of ClearSome is posted
  std::unordered_map<uint64_t, uint64_t> ended_;  // by key: the collectives that had begun
  std::deque<uint64_t> ended_order_;              // keys of ended_, the oldest first
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
