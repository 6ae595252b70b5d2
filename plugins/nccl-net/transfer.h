#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "plugins/nccl-net/message_slots.h"
#include "src/base/status.h"
#include "src/client/operation/staging.h"
#include "src/client/pipes/pipe_port.h"

namespace harmonaize::nccl_net {

/// One message of a connection, sent or received in pieces:
///
///     piece 0   the first kPieceBytes, or all of a shorter message
///     piece 1   where piece 0 is full: the number of bytes of the message
///     piece 2, 3, ...   the rest
///
/// So the receiver need not know how long the message is, and neither side needs to know whether
/// the other copies its data through shared buffers, piece by piece. Thread: one.
class Transfer {
 public:
  /// A message of this tag that is the `number`-th of its connection and direction.
  struct Name {
    int tag = 0;
    uint32_t number = 0;
  };
  /// `place` is where the daemon finds the data; kNoBuffer: it is copied. `bytes` are to be sent,
  /// or are the most that are received.
  struct Data {
    std::byte* memory = nullptr;
    uint64_t bytes = 0;
    BufferReference place;
  };

  Transfer(PipePort* port, MessageSlots* slots, uint32_t pipe, bool sends, const Name& name,
           const Data& data)
      : port_(port), slots_(slots), pipe_(pipe), sends_(sends), name_(name), data_(data) {
    if (sends) total_ = data.bytes;
  }
  Transfer(Transfer&&) = default;

  /// Takes in pieces that have ended, and posts others. Returns ok once the message has ended,
  /// kInProgress before, or why it has failed.
  Status Advance();
  /// Returns whether no piece was posted, so that the message can be given up.
  bool untouched() const { return next_ == 0; }
  /// Returns the bytes of a message that has ended.
  uint64_t moved() const { return moved_; }
  /// Gives back what pieces that have ended hold. Returns whether none is under way any more.
  bool Abandon();

  /// Bytes of a piece. They stay in a processor's cache while they are copied, and NCCL sends as
  /// many at a time. Pieces of messages of many GiB are larger, since pieces have a largest number.
  static constexpr uint64_t kPieceBytes = uint64_t{512} << 10;
  /// Largest message that is carried.
  static constexpr uint64_t kMostBytes = uint64_t{64} << 30;

 private:
  struct Piece {
    MessageSlot slot;
    std::byte* staged = nullptr;  // nullptr: the data is not copied
    uint64_t offset = 0;
    uint64_t bytes = 0;  // due at most
    uint32_t index = 0;
  };

  bool MayPostNext() const;
  Piece Describe(uint32_t index) const;
  uint64_t RestPieceBytes() const;
  Status PostNext();
  Status Post(Piece* piece);
  Status TakeIn(const Piece& piece);
  void Free(const Piece& piece);
  uint64_t NameOf(uint32_t index) const;

  PipePort* port_;
  MessageSlots* slots_;
  uint32_t pipe_;
  bool sends_;
  Name name_;
  Data data_;
  std::optional<uint64_t> total_;  // bytes of the message, once they are known
  uint32_t next_ = 0;              // the piece that is posted next
  uint64_t moved_ = 0;
  std::deque<Piece> under_way_;
};

}  // namespace harmonaize::nccl_net
