#include "src/client/inline/inline_quick.h"

#include <array>
#include <cstring>

#include "src/client/inline/inline_data.h"
#include "src/client/inline/inline_operation.h"
#include "src/client/inline/inline_path.h"
#include "src/client/operation/communicator.h"

namespace harmonaize {
namespace {

using State = QuickAttempt::State;

/// Looks for the other ranks, which are often there already or come within a fraction of a
/// microsecond. A longer wait gains nothing from being quick.
constexpr int kLooks = 64;
/// Looks with more ranks than processors: the awaited rank may need this very processor.
constexpr int kCrowdedLooks = 4;

bool StandsByItself(const Operation& operation) {
  return operation.stream == nullptr && operation.communicator->options().blocking;
}

// ---------------------------------------------------------------------------------------------
// One collective

/// Waits briefly for the other ranks.
bool AllCome(Rendezvous& place, uint64_t ticket, int looks) {
  for (; looks > 0; --looks) {
    const Rendezvous::State state = place.Poll(ticket);
    if (state == Rendezvous::State::kInline) return place.Agree(ticket);
    if (state == Rendezvous::State::kOffload) return false;
  }
  return false;
}

State TryCollective(const Operation& operation, InlinePath& path) {
  // The face has refused sizes that would overflow.
  const uint64_t published_bytes = PublishedBytes(operation, path.ranks());
  if (published_bytes >= kLeastDirectBytes || operation.count == 0 || !StandsByItself(operation) ||
      !path.Admits(operation)) {
    return State::kUntried;
  }
  InlinePath::Sequence& sequence = path.collectives();
  Rendezvous place = path.CollectiveAt(sequence.slot);
  if (place.Declined(sequence.ticket)) return State::kUntried;
  WriteLine(operation, place.own_line());
  const bool in_line = published_bytes <= kInlineLineBytes;
  PublishPiece(operation, WholePiece(operation), path.rank(), path.ranks(),
               in_line ? place.own_line().data : path.SlotOf(path.rank(), sequence.slot));
  place.Post(sequence.ticket);
  path.Notify();
  const int looks = path.crowded() ? kCrowdedLooks : kLooks;
  if (!AllCome(place, sequence.ticket, looks)) return State::kPosted;
  TakeInSlots(operation, path, place, sequence.slot, in_line, WholePiece(operation));
  ++sequence.ticket;
  ++sequence.slot;
  path.Count(operation.count * DataTypeSize(operation.type));
  return State::kDone;
}

// ---------------------------------------------------------------------------------------------
// A few sends and receives

/// Most sends and receives of a group that is tried this way.
constexpr size_t kMostTransfers = 8;

/// One send or receive. Without defaults, because most of a list is never used.
struct Transfer {
  const Operation* operation;
  InlinePath::Sequence* sequence;
  InlinePair* pair;
  std::byte* slot;  // in the pair's ring, for data that does not fit the line
  uint64_t bytes;
  bool sends;
  bool in_line;
  bool done;

  /// Returns where the two ranks meet.
  Rendezvous Place() const { return InlinePath::MeetIn(*pair, sequence->slot, sends); }
};

/// Returns whether `operation` may go this way now; if so, `transfer` is ready to be posted.
bool Prepare(const Operation& operation, InlinePath& path, Transfer* transfer) {
  const uint64_t bytes = operation.count * DataTypeSize(operation.type);
  if (!IsPointToPoint(operation.collective) || bytes >= kLeastDirectBytes ||
      !StandsByItself(operation) || !path.Admits(operation)) {
    return false;
  }
  const bool sends = operation.collective == Collective::kSend;
  const int peer = operation.root;
  InlinePath::Sequence& sequence = sends ? path.sends(peer) : path.receives(peer);
  const int sender = sends ? path.rank() : peer;
  const int receiver = sends ? peer : path.rank();
  const bool in_line = bytes <= kInlineLineBytes;
  *transfer = {&operation, &sequence, &path.Pair(sender, receiver), nullptr, bytes, sends,
               in_line,    false};
  if (transfer->Place().Declined(sequence.ticket)) return false;
  if (in_line) return true;
  transfer->slot = path.PairSlot(sender, receiver, sequence.ring);
  // Acquire: the receiver has read what the slot held before.
  return !sends ||
         sequence.ring - transfer->pair->drained.load(std::memory_order_acquire) < kInlinePairSlots;
}

void Post(const Transfer& transfer) {
  Rendezvous place = transfer.Place();
  InlineLine& line = place.own_line();
  WriteLine(*transfer.operation, line);
  if (transfer.sends) {
    line.scalar = transfer.in_line ? kSendInRing : kSendInRingFirstFilled;
    std::memcpy(transfer.in_line ? line.data : transfer.slot, transfer.operation->send,
                transfer.bytes);
  }
  place.Post(transfer.sequence->ticket);
}

/// Returns whether the peer has posted its half, and that half needs no more than this path offers.
bool Meets(const Transfer& transfer, const Rendezvous& place) {
  return place.BothAgree(transfer.sequence->ticket) &&
         (transfer.sends || transfer.in_line || place.line_of(0).scalar == kSendInRingFirstFilled);
}

void Finish(Transfer& transfer, const Rendezvous& place, InlinePath& path) {
  InlinePath::Sequence& sequence = *transfer.sequence;
  if (!transfer.sends) {
    std::memcpy(transfer.operation->receive,
                transfer.in_line ? place.line_of(0).data : transfer.slot, transfer.bytes);
  }
  if (!transfer.in_line) {
    ++sequence.ring;
    // Release: the slot has been read.
    if (!transfer.sends) transfer.pair->drained.store(sequence.ring, std::memory_order_release);
  }
  ++sequence.ticket;
  ++sequence.slot;
  path.Count(transfer.bytes);
  transfer.done = true;
}

/// Returns whether an earlier transfer uses the same sequence: the second would have to wait.
bool SharesSequence(std::span<const Transfer> earlier, const Transfer& transfer) {
  for (const Transfer& other : earlier) {
    if (other.sequence == transfer.sequence) return true;
  }
  return false;
}

QuickAttempt TryTransfers(std::span<const Operation> operations, InlinePath& path) {
  std::array<Transfer, kMostTransfers> all;
  const std::span transfers(all.data(), operations.size());
  for (size_t i = 0; i < transfers.size(); ++i) {
    if (operations[i].communicator != operations[0].communicator ||
        !Prepare(operations[i], path, &transfers[i]) ||
        SharesSequence(transfers.first(i), transfers[i])) {
      return {};
    }
  }
  for (const Transfer& transfer : transfers) Post(transfer);
  path.Notify();
  QuickAttempt attempt{State::kPosted};
  size_t left = transfers.size();
  for (int looks = path.crowded() ? kCrowdedLooks : kLooks; looks > 0 && left > 0; --looks) {
    for (size_t i = 0; i < transfers.size(); ++i) {
      if (transfers[i].done) continue;
      const Rendezvous place = transfers[i].Place();
      if (!Meets(transfers[i], place)) continue;
      Finish(transfers[i], place, path);
      attempt.done |= 1u << i;
      --left;
    }
  }
  // A drained slot is news for a sender that waits for room.
  path.Notify();
  if (left == 0) attempt.state = State::kDone;
  return attempt;
}

}  // namespace

QuickAttempt TryQuickly(std::span<const Operation> operations) {
  InlinePath* const path = operations.front().communicator->inline_path();
  if (path == nullptr || operations.size() > kMostTransfers) return {};
  if (IsPointToPoint(operations.front().collective)) return TryTransfers(operations, *path);
  if (operations.size() > 1) return {};
  return {TryCollective(operations.front(), *path)};
}

}  // namespace harmonaize
