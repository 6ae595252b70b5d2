#include "tests/support/transport_node.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>

#include "src/base/clock.h"

namespace harmonaize::testing {

using transport::Completion;
using transport::NetworkAddress;
using transport::PeerId;
using transport::PeerInfo;
using transport::RailOptions;
using transport::Transport;
using transport::TransportOptions;

transport::ClusterKey TestKey(char filling) {
  const std::vector<std::byte> bytes(32, static_cast<std::byte>(filling));
  return *transport::ClusterKey::FromBytes(bytes);
}

TransportOptions LoopbackOptions() {
  TransportOptions options;
  options.key = TestKey();
  RailOptions rail;
  rail.device = "lo";
  rail.address = *NetworkAddress::Parse("127.0.0.1");
  rail.prefix_bits = 8;
  options.rails = {rail};
  return options;
}

Completion Outcome::completion() {
  return Completion{[](void* context, const Status& result, size_t moved) {
                      auto* self = static_cast<Outcome*>(context);
                      self->done = true;
                      self->status = result;
                      self->bytes = moved;
                      ++self->calls;
                    },
                    this};
}

TransportNode::TransportNode(TransportOptions options, const std::string& listen) {
  Result<std::unique_ptr<Transport>> made = Transport::Create(std::move(options), this);
  if (!made.ok()) {
    ADD_FAILURE() << made.status().ToString();
    return;
  }
  transport_ = std::move(*made);
  Result<NetworkAddress> bound = transport_->Listen(*NetworkAddress::Parse(listen));
  if (!bound.ok()) {
    ADD_FAILURE() << bound.status().ToString();
    return;
  }
  address = *bound;
}

void TransportNode::OnPeerUp(PeerId peer, const PeerInfo& info) {
  ups.emplace_back(peer, info);
}

void TransportNode::OnPeerLost(PeerId peer, const std::string& reason) {
  losses.emplace_back(peer, reason);
}

void TransportNode::OnControl(PeerId, std::span<const std::byte> message) {
  control.emplace_back(reinterpret_cast<const char*>(message.data()), message.size());
}

void TransportNode::Connect(const NetworkAddress& to) {
  transport_->Connect(to, [this](const Result<PeerId>& peer) { connected.push_back(peer); });
}

std::unique_ptr<Outcome> TransportNode::Send(PeerId to, uint64_t operation,
                                             std::span<const std::byte> bytes, size_t rail) {
  auto outcome = std::make_unique<Outcome>();
  const Status posted =
      transport_->PostSend(to, {rail}, {operation, 0, 0}, bytes, outcome->completion());
  EXPECT_TRUE(posted.ok()) << posted.ToString();
  return outcome;
}

std::unique_ptr<Outcome> TransportNode::Receive(PeerId from, uint64_t operation,
                                                std::span<std::byte> buffer) {
  auto outcome = std::make_unique<Outcome>();
  const Status posted =
      transport_->PostReceive(from, {operation, 0, 0}, buffer, outcome->completion());
  EXPECT_TRUE(posted.ok()) << posted.ToString();
  return outcome;
}

bool PumpUntil(std::initializer_list<TransportNode*> nodes, const std::function<bool()>& done,
               double seconds) {
  const uint64_t deadline = MonotonicNanoseconds() + static_cast<uint64_t>(seconds * 1e9);
  while (!done()) {
    if (MonotonicNanoseconds() > deadline) return false;
    for (TransportNode* node : nodes) {
      if (!node->stopped()) (*node)->Progress();
    }
  }
  return true;
}

bool SleepUntil(std::initializer_list<TransportNode*> nodes, const std::function<bool()>& done,
                double seconds) {
  const uint64_t deadline = MonotonicNanoseconds() + static_cast<uint64_t>(seconds * 1e9);
  while (!done()) {
    const uint64_t now = MonotonicNanoseconds();
    if (now > deadline) return false;
    std::vector<pollfd> waiting;
    bool may_sleep = true;
    for (TransportNode* node : nodes) {
      if (node->stopped()) continue;
      (*node)->Progress();
      waiting.push_back({(*node)->fd(), POLLIN, 0});
    }
    for (TransportNode* node : nodes) may_sleep &= node->stopped() || (*node)->Arm();
    if (done()) return true;
    const auto left_ms = static_cast<int>((deadline - now) / 1'000'000 + 1);
    poll(waiting.data(), waiting.size(), may_sleep ? left_ms : 0);
  }
  return true;
}

void PumpFor(std::initializer_list<TransportNode*> nodes, double seconds) {
  PumpUntil(
      nodes, [] { return false; }, seconds);
}

bool Join(TransportNode* a, TransportNode* b) {
  const size_t before = b->ups.size();
  a->Connect(b->address);
  const bool done =
      PumpUntil({a, b}, [&] { return !a->connected.empty() && b->ups.size() > before; });
  if (done && a->connected.back().ok()) return true;
  ADD_FAILURE() << (a->connected.empty() ? "no answer" : a->connected.back().status().ToString());
  return false;
}

std::vector<std::byte> Pattern(size_t bytes, uint64_t seed) {
  std::vector<std::byte> pattern(bytes);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (size_t i = 0; i < bytes; ++i) {
    if (i % 8 == 0) state = state * 6364136223846793005u + 1442695040888963407u;
    pattern[i] = static_cast<std::byte>(state >> (56 - i % 8 * 7));
  }
  return pattern;
}

}  // namespace harmonaize::testing
