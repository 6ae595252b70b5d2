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
#include "src/transport/queue/owner_rates.h"
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
/// A small message goes at once, behind its header ("eager"). A large one is offered, and the
/// receiver answers when its buffer is posted. Then it goes in frames of kBulkBytes straight from
/// the sender's buffer into the receiver's, taking turns with frames of other operations and
/// tenants (SendQueue); small messages overtake it between frames. The small messages that may pile
/// up at a receiver without posted buffers are bounded: beyond kEagerWindow bytes that the receiver
/// has not reported as consumed, they are offered like large ones.
class TcpChannel final : public Channel, public Poller::Handler, public StreamUser {
 public:
  /// Largest message that goes without an offer. An offer costs a round trip, which matters even
  /// for 64 KiB; going at once costs a copy when the receive is not posted.
  static constexpr size_t kMaxEagerBytes = size_t{64} << 10;
  /// Bytes of a frame of a large message, which small messages wait for. Larger frames leave more
  /// in the sockets' buffers than caches hold: 128 KiB were slower in both directions at once, 256
  /// KiB in one, too (docs/transport.md).
  static constexpr size_t kBulkBytes = size_t{64} << 10;
  /// Bytes of such a frame, and of small messages that go in one call, while several tenants send
  /// or one is held to a rate. The kernel takes the data of one call whole, and others wait for it.
  static constexpr size_t kSharedBulkBytes = size_t{16} << 10;
  /// Most bytes of small messages that go without an offer before the receiver has reported them as
  /// consumed.
  static constexpr size_t kEagerWindow = size_t{1} << 20;

  /// Precedes each frame on the wire.
  struct Header {
    uint32_t type = 0;
    uint32_t payload = 0;
    MessageTag tag;
    uint64_t total = 0;    ///< Bytes of the message; kConsumed: bytes consumed.
    uint64_t slot = 0;     ///< The request that this is about, at the receiving side.
    uint64_t answer = 0;   ///< kClear: the receiver's request; kBulk: offset; kOffer: the sender's.
    uint64_t sent_ns = 0;  ///< Sender's clock at about the time when it was written.
  };
  static_assert(sizeof(Header) == 56);

  /// All pointers must outlive the channel. `name`, such as "rail 0 (10.0.0.1)", is part of
  /// reasons.
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
  /// Shares paces with the other connections of its rail. Requires: called before Limit.
  void SharePaces(std::shared_ptr<RailPaces> paces) { paces_ = std::move(paces); }
  const std::shared_ptr<RailPaces>& paces() const { return paces_; }
  /// Shares floors and caps with all connections over its device. Requires: called before Start.
  void KeepRates(std::shared_ptr<OwnerRates> rates);

  bool Stalled() override { return stream_.Stalled(); }
  void Poke() override;
  Status Freeze() override;
  uint64_t Drain() override;
  Status Continue(FileDescriptor socket, uint64_t expected) override;

  void OnReady(uint32_t events) override;
  void OnLater() override { Flush(); }

  /// Returns the backlog. Asks the kernel, unless all was acknowledged at the last question.
  Backlog BacklogAt(uint64_t now_ns);

 private:
  enum Type : uint32_t { kEager = 1, kOffer, kClear, kBulk, kStop, kAbandon, kConsumed };

  /// A frame that is being written.
  struct Outgoing {
    Header header;
    const std::byte* payload = nullptr;
    Request* owner = nullptr;  ///< Request whose buffer holds `payload`; null: none any more.
  };
  // Most frames that one system call writes.
  static constexpr size_t kBatch = 16;
  // The part of a payload that arrives with its header is copied, so this is no larger than headers
  // and tiny messages need.
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
  /// Returns whether to write few bytes at a time, because others wait for them.
  bool InBits() const {
    return tenants_->shared() || !paces_->empty() || (rates_ != nullptr && !rates_->empty());
  }
  void ForgetWaits();

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

  // Writing: notes first, then small messages, then a frame of a large one.
  std::vector<Header> notes_;
  size_t notes_taken_ = 0;
  std::shared_ptr<RailPaces> paces_;
  std::shared_ptr<OwnerRates> rates_;  // nullptr: no floors and caps are kept
  SendQueue queue_;
  SendBuffer send_buffer_;
  SendRate send_rate_;
  std::array<Outgoing, kBatch> batch_;
  size_t batch_size_ = 0;
  size_t batch_written_ = 0;  // bytes
  std::vector<std::byte> detached_;
  size_t unsent_ = 0;            // bytes of sends that no wholly written batch contains
  bool unacknowledged_ = false;  // whether the kernel may hold unacknowledged bytes
  uint64_t queueing_ns_ = 0;     // at the last question to the kernel
  uint64_t asked_ns_ = 0;
  bool waits_for_room_ = false;
  size_t eager_unconsumed_ = 0;

  // Reading: the payload under way, and bytes that came behind it.
  uint64_t received_ns_ = 0;  // when bytes last arrived
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
