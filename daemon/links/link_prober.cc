#include "daemon/links/link_prober.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "src/base/clock.h"

namespace harmonaize::daemon {
namespace {

/// Length of a probe, in seconds at the stated rate: twice what policers and switches let through
/// at once after a pause.
constexpr double kBurstSeconds = 4e-3;

int MessagesFor(double bytes_per_second) {
  const double messages =
      std::ceil(bytes_per_second * kBurstSeconds / static_cast<double>(LinkProber::kMessageBytes));
  const double even = 2 * std::ceil(messages / 2);
  return static_cast<int>(
      std::clamp(even, double{LinkProber::kLeastMessages}, double{LinkProber::kMostMessages}));
}

std::span<const std::byte> Nothing() {
  static const std::array<std::byte, LinkProber::kMessageBytes> kNothing{};
  return kNothing;
}

}  // namespace

void LinkProber::Send(transport::PeerId peer, size_t rail, double stated, uint64_t probe,
                      uint64_t now_ns, std::function<void(double)> done) {
  const int messages = MessagesFor(stated);
  if (!sending_.try_emplace(probe, Sending{peer, now_ns, messages, std::move(done)}).second) return;
  tell_(peer, LinkProbeMessage{probe, messages});
  const transport::Completion ignore{[](void*, const Status&, size_t) {}, nullptr};
  for (int i = 0; i < messages; ++i) {
    const transport::MessageTag tag{probe, static_cast<uint32_t>(i), 0};
    if (transport_->PostSend(peer, {rail, true}, tag, Nothing(), ignore).ok()) continue;
    sending_.erase(probe);  // the peer is gone, or has no such rail
    return;
  }
}

void LinkProber::OnProbe(transport::PeerId peer, const LinkProbeMessage& message, uint64_t now_ns) {
  const auto [found, is_new] = receiving_.try_emplace(message.probe);
  if (!is_new) return;
  found->second = std::make_unique<Receiving>();
  Receiving* const receiving = found->second.get();
  receiving->prober = this;
  receiving->peer = peer;
  receiving->probe = message.probe;
  receiving->began_ns = now_ns;
  receiving->messages = message.messages;
  receiving->buffer.resize(kMessageBytes);
  for (int i = 0; i < message.messages; ++i) {
    const transport::MessageTag tag{message.probe, static_cast<uint32_t>(i), 0};
    const Status posted =
        transport_->PostReceive(peer, tag, receiving->buffer, {&LinkProber::OnReceived, receiving});
    if (posted.ok()) continue;
    // The peer is gone, and with it all receives that were posted before.
    receiving->messages = i;
    receiving->failed = true;
    break;
  }
}

void LinkProber::OnReceived(void* context, const Status& status, size_t) {
  auto* const receiving = static_cast<Receiving*>(context);
  receiving->failed |= !status.ok();
  ++receiving->ended;
  const uint64_t now_ns = MonotonicNanoseconds();
  if (receiving->ended == receiving->messages / 2) receiving->half_ns = now_ns;
  if (receiving->ended < receiving->messages) return;
  LinkProber* const prober = receiving->prober;
  if (!receiving->failed) prober->OnAllReceived(*receiving);
  prober->receiving_.erase(receiving->probe);
}

void LinkProber::OnAllReceived(const Receiving& receiving) {
  const uint64_t took_ns = std::max<uint64_t>(MonotonicNanoseconds() - receiving.half_ns, 1000);
  const int timed = receiving.messages - receiving.messages / 2;
  const double bytes = static_cast<double>(timed) * static_cast<double>(kMessageBytes);
  tell_(receiving.peer,
        LinkProbedMessage{receiving.probe, bytes / (static_cast<double>(took_ns) * 1e-9)});
}

void LinkProber::OnProbed(transport::PeerId peer, const LinkProbedMessage& message,
                          uint64_t now_ns) {
  const auto found = sending_.find(message.probe);
  if (found == sending_.end() || found->second.peer != peer) return;
  const Sending sending = std::move(found->second);
  sending_.erase(found);
  const double bytes = static_cast<double>(sending.messages) * static_cast<double>(kMessageBytes);
  const uint64_t took_ns = std::max<uint64_t>(now_ns - sending.began_ns, 1000);
  const double most = bytes / (static_cast<double>(took_ns) * 1e-9);
  sending.done(std::min(message.bytes_per_second, most));
}

void LinkProber::Tick(uint64_t now_ns) {
  const auto late = [now_ns](uint64_t began_ns) {
    return now_ns - std::min(now_ns, began_ns) > kGivenUpNs;
  };
  for (auto one = sending_.begin(); one != sending_.end();) {
    if (!late(one->second.began_ns)) {
      ++one;
      continue;
    }
    transport_->Cancel(one->second.peer, one->first);
    one = sending_.erase(one);
  }
  for (auto one = receiving_.begin(); one != receiving_.end();) {
    const Receiving& receiving = *one->second;
    const bool nothing_posted = receiving.ended >= receiving.messages;
    // The posted receives end by this, and take the entry along.
    if (late(receiving.began_ns)) transport_->Cancel(receiving.peer, receiving.probe);
    one = nothing_posted ? receiving_.erase(one) : std::next(one);
  }
}

}  // namespace harmonaize::daemon
