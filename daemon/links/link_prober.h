#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "daemon/cluster/messages/link.h"
#include "daemon/cluster/messages/message.h"
#include "src/transport/transport.h"

namespace harmonaize::daemon {

/// Finds out what a rail carries, by some messages over it: for links that were slow, and over
/// which too little goes now to see whether they still are. A probe is between the daemon that
/// sends and the one that receives; a home that wants to know (LinkState) asks the sender.
///
/// The first half uses up what a link lets through at once after a pause; the receiver times the
/// second half. The sender does not believe more than fits into the time until it hears of that: a
/// receiver that was held up finds several messages at once.
///
/// Thread: one, the transport's.
class LinkProber {
 public:
  /// `tell` sends a control message to a peer.
  LinkProber(transport::Transport* transport,
             std::function<void(transport::PeerId, const ClusterMessage&)> tell)
      : transport_(transport), tell_(std::move(tell)) {}
  LinkProber(const LinkProber&) = delete;
  LinkProber& operator=(const LinkProber&) = delete;

  /// Sends over a rail to a peer; `stated` is what it should carry, in bytes per second. Calls
  /// `done` once, later, with what it carries; not if that is not known after kGivenUpNs. `probe`
  /// is a random number, and names the messages.
  void Send(transport::PeerId peer, size_t rail, double stated, uint64_t probe, uint64_t now_ns,
            std::function<void(double bytes_per_second)> done);
  /// Receives a probe that a peer sends.
  void OnProbe(transport::PeerId peer, const LinkProbeMessage& message, uint64_t now_ns);
  /// Takes in how fast a peer has got a probe.
  void OnProbed(transport::PeerId peer, const LinkProbedMessage& message, uint64_t now_ns);
  /// Gives up probes that take too long.
  void Tick(uint64_t now_ns);
  /// Returns whether Tick is to be called.
  bool busy() const { return !sending_.empty() || !receiving_.empty(); }

  /// Time, in nanoseconds, after which a probe is given up.
  static constexpr uint64_t kGivenUpNs = 2'000'000'000;
  /// Bytes of one message of a probe.
  static constexpr size_t kMessageBytes = size_t{64} << 10;
  /// Fewest messages of a probe.
  static constexpr int kLeastMessages = 4;
  /// Most messages of a probe.
  static constexpr int kMostMessages = 64;

 private:
  struct Sending {
    transport::PeerId peer = 0;
    uint64_t began_ns = 0;
    int messages = 0;
    std::function<void(double)> done;
  };
  struct Receiving {
    LinkProber* prober = nullptr;
    transport::PeerId peer = 0;
    uint64_t probe = 0;
    uint64_t began_ns = 0;
    uint64_t half_ns = 0;
    int messages = 0;
    int ended = 0;
    bool failed = false;
    std::vector<std::byte> buffer;  ///< One for all messages: nobody reads it.
  };
  static void OnReceived(void* context, const Status& status, size_t bytes);
  void OnAllReceived(const Receiving& receiving);

  transport::Transport* const transport_;
  const std::function<void(transport::PeerId, const ClusterMessage&)> tell_;
  std::map<uint64_t, Sending> sending_;  // by probe
  std::map<uint64_t, std::unique_ptr<Receiving>> receiving_;
};

}  // namespace harmonaize::daemon
