#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/transport/channel.h"
#include "src/transport/link/arrival_delay.h"
#include "src/transport/link/connection_choice.h"
#include "src/transport/queue/pace.h"
#include "src/transport/queue/send_buffer.h"
#include "src/transport/queue/send_queue.h"
#include "src/transport/queue/send_rate.h"
#include "src/transport/queue/tenant_mix.h"
#include "src/transport/stream/movable_stream.h"
#include "src/transport/tcp/poller.h"

namespace harmonaize::transport {

/// Messages over one TCP connection whose ends have proved the cluster key to each other.
///
/// A small message goes at once, behind its header ("eager"). A large one is offered; the receiver
/// says when its buffer is there; then it goes in frames of kBulkBytes straight from the sender's
/// buffer into the receiver's, taking turns with those of other operations and tenants (SendQueue),
/// and small ones overtake it between frames. What small messages may pile up at a receiver that
/// has not posted for them is bounded: beyond kEagerWindow bytes that the receiver has not told to
/// be consumed, they are offered like large ones.
class TcpChannel final : public Channel, public Poller::Handler, public StreamUser {
 public:
  /// Up to here a message goes without being offered. An offer costs a round trip, which 64 KiB
  /// still feel; going at once costs a copy when the receive is not posted.
  static constexpr size_t kMaxEagerBytes = size_t{64} << 10;
  /// A frame of a large message, which small ones wait for. Larger frames leave more in the
  /// sockets' buffers than caches hold: 128 KiB were slower in both directions at once, 256 KiB
  /// in one, too (docs/transport.md).
  static constexpr size_t kBulkBytes = size_t{64} << 10;
  /// The same while several tenants send, and what of small messages goes in one call: the
  /// kernel takes what it is given in one call whole, and then others wait for it.
  static constexpr size_t kSharedBulkBytes = size_t{16} << 10;
  static constexpr size_t kEagerWindow = size_t{1} << 20;

  /// As it lies on the wire, before each frame.
  struct Header {
    uint32_t type = 0;
    uint32_t payload = 0;
    MessageTag tag;
    uint64_t total = 0;    ///< Of the message; kConsumed: bytes.
    uint64_t slot = 0;     ///< The request that this is about, at the side this goes to.
    uint64_t answer = 0;   ///< kClear: the receiver's request; kBulk: offset; kOffer: the sender's.
    uint64_t sent_ns = 0;  ///< By the sender's clock, about when it was written.
  };
  static_assert(sizeof(Header) == 56);

  /// All pointers must outlive the channel. `name` stands in reasons: "rail 0 (10.0.0.1)".
  TcpChannel(Poller* poller, MessageBoard* board, TenantMix* tenants, Owner* owner, PeerId peer,
             std::string name, FileDescriptor socket);
  ~TcpChannel() override;

  Status Start() override;
  void Send(Request* send) override;
  void Accept(Arrival* offer, Request* receive) override;
  void Refuse(Arrival* offer) override;
  void OnConsumed(Arrival* arrival) override;
  void Abort(Request* request, const Status& status) override;
  void Close(const Status& status) override;
  uint64_t received_bytes() const override { return stream_.read_bytes(); }
  RailTraffic Traffic() const override;
  void Limit(const RailLimits& limits) override;
  /// With other connections of its rail; before Limit.
  void SharePaces(std::shared_ptr<TenantPaces> paces) { paces_ = std::move(paces); }
  const std::shared_ptr<TenantPaces>& paces() const { return paces_; }

  bool Stalled() override { return stream_.Stalled(); }
  void Poke() override;
  Status Freeze() override;
  uint64_t Drain() override;
  Status Continue(FileDescriptor socket, uint64_t expected) override;

  void OnReady(uint32_t events) override;
  void OnLater() override { Flush(); }

  /// Asks the kernel, unless all was acknowledged when it was asked last.
  Backlog BacklogAt(uint64_t now_ns);

 private:
  enum Type : uint32_t { kEager = 1, kOffer, kClear, kBulk, kStop, kAbandon, kConsumed };

  /// A frame that is being written.
  struct Outgoing {
    Header header;
    const std::byte* payload = nullptr;
    Request* owner = nullptr;  ///< Whose buffer `payload` is in; null: nobody's any more.
  };
  static constexpr size_t kBatch = 16;
  // What of a payload comes along with its header is copied, so this is no larger than it need be
  // for headers and tiny messages.
  static constexpr size_t kInputBytes = size_t{4} << 10;

  // Writing.
  void Note(uint32_t type, const MessageTag& tag, uint64_t slot, uint64_t answer,
            uint64_t total = 0);
  void Flush();
  void FlushLater();
  void FillBatch();
  bool TakeNote();
  void AddToBatch(const Header& header, const std::byte* payload, Request* owner);
  size_t AddSend(Request* send);
  void Offer(Request* send);
  size_t AddBulk(Request* send);
  bool WriteOwed();
  bool WriteBatch();
  void TouchBatch() const;
  void StampBatch();
  void OnBatchWritten();
  void Detach(Request* request);
  void WatchForRoom(bool wanted);
  /// In few bytes at a time, since others wait for them.
  bool InBits() const { return tenants_->shared() || !paces_->empty(); }

  // Reading.
  void Read();
  bool Receive();
  void Digest();
  void OnHeader(const Header& header);
  void OnEager(const Header& header);
  void OnOffer(const Header& header);
  void OnClear(const Header& header);
  void OnBulk(const Header& header);
  void OnStop(const Header& header);
  void OnAbandon(const Header& header);
  void OnPayload();
  void OnArrivalComplete(Arrival* arrival);
  void TakePayload(std::byte* target, size_t bytes, Request* request, Arrival* arrival);
  void Consumed(size_t payload);
  void Violation(const char* what);
  void Fail(const std::string& reason);

  bool failed() const { return failed_; }

  Poller* poller_;
  MessageBoard* board_;
  TenantMix* tenants_;
  Owner* owner_;
  PeerId peer_;
  std::string name_;
  MovableStream stream_;
  RailTraffic before_;  // over connections that the stream has left
  bool started_ = false;
  bool failed_ = false;

  // Writing: notes first, then what is small, then a frame of what is large.
  std::vector<Header> notes_;
  size_t notes_taken_ = 0;
  std::shared_ptr<TenantPaces> paces_;
  SendQueue queue_;
  SendBuffer send_buffer_;
  SendRate send_rate_;
  std::array<Outgoing, kBatch> batch_;
  size_t batch_size_ = 0;
  size_t batch_written_ = 0;  // bytes
  std::vector<std::byte> detached_;
  size_t unsent_ = 0;            // bytes of sends that are not in a batch that was written whole
  bool unacknowledged_ = false;  // whether the kernel may hold something
  uint64_t queueing_ns_ = 0;     // when it was asked last
  uint64_t asked_ns_ = 0;
  bool waits_for_room_ = false;
  size_t eager_unconsumed_ = 0;

  // Reading: the payload under way, and bytes that came behind it.
  uint64_t received_ns_ = 0;  // when bytes came last
  ArrivalDelay arrival_delay_;
  size_t payload_left_ = 0;
  std::byte* target_ = nullptr;        // null: the payload is thrown away
  Request* target_request_ = nullptr;  // the receive that target_ is in
  Arrival* filling_ = nullptr;         // or the arrival
  bool payload_is_eager_ = false;
  size_t payload_bytes_ = 0;
  std::array<std::byte, kInputBytes> input_;
  size_t input_start_ = 0;
  size_t input_end_ = 0;
  size_t consumed_unsaid_ = 0;
};

}  // namespace harmonaize::transport
