#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "src/base/file_descriptor.h"
#include "src/transport/link/control_backlog.h"
#include "src/transport/stream/movable_stream.h"
#include "src/transport/tcp/poller.h"
#include "src/transport/tcp/wire.h"

namespace harmonaize::transport {

/// The framed connection between two daemons that have proved the key to each other. Never blocks:
/// frames that the other side does not take are kept, up to a limit. Thread: one, the transport's
/// owner.
class ControlLink final : public Poller::Handler, public StreamUser {
 public:
  class Owner {
   public:
    virtual void OnFrame(ControlLink* link, const Frame& frame) = 0;
    /// Called once when the connection is of no use any more, never from within Send.
    virtual void OnBroken(ControlLink* link, const std::string& reason) = 0;

   protected:
    ~Owner() = default;
  };

  ControlLink(Poller* poller, Owner* owner, FileDescriptor socket);
  ~ControlLink() { Close(); }
  ControlLink(const ControlLink&) = delete;
  ControlLink& operator=(const ControlLink&) = delete;

  Status Start();

  /// Sends a frame, now or as soon as the socket takes it. A broken link drops it. A peer that does
  /// not read, so that there is no room for one more, breaks the link.
  void Send(FrameType type, std::span<const std::byte> payload = {});
  void Send(FrameType type, const std::string& text);
  /// Sends a message in the same way. Errors: kUnavailable if too much of its sender waits; the
  /// link stays. Messages of the daemon itself break it instead.
  Status SendMessage(ControlSender sender, std::span<const std::byte> message);

  /// Sends what is left, ignores arriving frames, and reports OnBroken when the other side has
  /// closed.
  void CloseGently();
  /// Closes at once; the owner is not called any more.
  void Close();

  /// Times by the monotonic clock when bytes last arrived, and when something was last sent.
  uint64_t last_heard_ns() const { return last_heard_ns_; }
  uint64_t last_sent_ns() const { return last_sent_ns_; }
  /// Excuses the other side for a time in which this process did not listen.
  void Forgive(uint64_t nanoseconds) { last_heard_ns_ += nanoseconds; }
  /// Notes that the peer has shown elsewhere that it is alive.
  void NoteHeard(uint64_t now_ns) { last_heard_ns_ = now_ns; }

  /// Returns whether ReportBreak has OnBroken to call.
  bool HasNews() const { return !broken_.empty() && !reported_; }
  void ReportBreak();

  bool Stalled() override { return stream_.Stalled(); }
  void Poke() override { Send(FrameType::kHeartbeat); }
  Status Freeze() override;
  uint64_t Drain() override;
  Status Continue(FileDescriptor socket, uint64_t expected) override;

  void OnReady(uint32_t events) override;

 private:
  void Append(ControlSender sender, FrameType type, std::span<const std::byte> payload);
  void Flush();
  size_t WriteUnsent();
  void Read();
  void HandOut();
  void Break(std::string reason);

  Poller* poller_;
  Owner* owner_;
  MovableStream stream_;
  FrameReader reader_;
  ControlBacklog unsent_;
  std::string broken_;  // the reason; empty while it works
  bool reported_ = false;
  bool closing_ = false;
  bool waits_for_room_ = false;
  uint64_t last_heard_ns_;
  uint64_t last_sent_ns_;
};

}  // namespace harmonaize::transport
