#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/transport/transport.h"

namespace harmonaize::testing {

/// Returns the key of tests: 32 times `filling`.
transport::ClusterKey TestKey(char filling = 'k');

/// Returns options with TestKey and one rail on loopback.
transport::TransportOptions LoopbackOptions();

/// The outcome of a posted operation.
struct Outcome {
  bool done = false;
  Status status;
  size_t bytes = 0;
  int calls = 0;

  transport::Completion completion();
};

/// A transport and the events that it has reported.
class TransportNode final : public transport::TransportEvents {
 public:
  /// Fails the test when it cannot be made.
  explicit TransportNode(transport::TransportOptions options = LoopbackOptions(),
                         const std::string& address = "127.0.0.1:0");

  void OnPeerUp(transport::PeerId peer, const transport::PeerInfo& info) override;
  void OnPeerLost(transport::PeerId peer, const std::string& reason) override;
  void OnControl(transport::PeerId peer, std::span<const std::byte> message) override;

  /// Connects, and notes the result in `connected`.
  void Connect(const transport::NetworkAddress& address);
  /// Returns the peer that came last. 0: none yet.
  transport::PeerId peer() const { return ups.empty() ? 0 : ups.back().first; }

  /// Posts with a tag of `operation`; the result records the outcome.
  std::unique_ptr<Outcome> Send(transport::PeerId to, uint64_t operation,
                                std::span<const std::byte> bytes, size_t rail = 0);
  std::unique_ptr<Outcome> Receive(transport::PeerId from, uint64_t operation,
                                   std::span<std::byte> buffer);

  transport::Transport& operator*() { return *transport_; }
  transport::Transport* operator->() { return transport_.get(); }
  /// Ends the transport, like a daemon that is stopped.
  void Stop() { transport_.reset(); }
  bool stopped() const { return transport_ == nullptr; }

  transport::NetworkAddress address;
  std::vector<std::pair<transport::PeerId, transport::PeerInfo>> ups;
  std::vector<std::pair<transport::PeerId, std::string>> losses;
  std::vector<std::string> control;
  std::vector<Result<transport::PeerId>> connected;

 private:
  std::unique_ptr<transport::Transport> transport_;
};

/// Lets all nodes work until `done`. Returns false when that took longer than `seconds`.
bool PumpUntil(std::initializer_list<TransportNode*> nodes, const std::function<bool()>& done,
               double seconds = 20);
/// PumpUntil, but sleeping on the descriptors like a thread that has nothing else to do.
bool SleepUntil(std::initializer_list<TransportNode*> nodes, const std::function<bool()>& done,
                double seconds = 20);

/// Lets the nodes work for a while.
void PumpFor(std::initializer_list<TransportNode*> nodes, double seconds);

/// Connects `a` to `b`. Returns false, with a gtest failure, when that does not work.
bool Join(TransportNode* a, TransportNode* b);

/// Returns `bytes` bytes that depend on `seed`.
std::vector<std::byte> Pattern(size_t bytes, uint64_t seed);

}  // namespace harmonaize::testing
