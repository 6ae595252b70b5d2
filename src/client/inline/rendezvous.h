#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/ipc/inline_segment.h"

namespace harmonaize {

/// Agreement of the ranks that take part in one operation to carry it out themselves. They all post
/// their line, in memory that they share, and each waits until it sees the lines of all. Any of
/// them may instead send the operation to the daemon, and then all do. No rank sends requests to
/// others.
///
/// Operations carry tickets, numbers that grow and that all participants count alike. For each
/// ticket there is one decision, inline or offload, and this is how it is found:
///
/// - A rank that has *posted* and sees the lines of all others goes inline. That is the fast way:
///   one store, and loads.
/// - A rank that has not posted may *decline*: it writes "offload" into the shared decision word
///   and never posts. Without its line no rank can go inline; those that wait see the word.
/// - A rank that has posted and waits for too long may *withdraw*. It marks its line, makes sure
///   that every rank that posts from now on sees the mark (HeavyFence), and looks again. If a line
///   is still missing, it tries to change the decision word to "offload". A rank that sees all
///   lines, one of them marked, must first change the same word to "inline". The first of the two
///   changes wins, by compare-and-swap, and all ranks follow the word.
///
/// A rank that has posted and then goes to the daemon marks its line as *left* before it writes any
/// later decision. So a slow rank that finds the word overwritten by a later ticket can still tell:
/// if no rank has left, all went inline.
///
/// Memory orders. A line is written before its `ready` word is stored (release) and read after it
/// was seen (acquire). The heavy fence orders the marks against the posts. A rank that posted
/// before the fence is seen by the one that withdraws. One that posted later reads the mark, and so
/// does every rank that has seen that post, because all lines are looked at once more after the
/// last one was found. The decision word is changed by compare-and-swap only, acquire and release.
class Rendezvous {
 public:
  enum class State {
    kWaiting,
    kInline,   ///< All have posted, and go inline.
    kOffload,  ///< All go to the daemon.
  };

  Rendezvous() = default;
  /// `first` and the `count - 1` lines that follow it, `stride` bytes apart, belong to the
  /// participants; `own` is the index of the caller's.
  Rendezvous(std::atomic<uint64_t>* decision, InlineLine* first, size_t stride, int count, int own)
      : decision_(decision), first_(first), stride_(stride), count_(count), own_(own) {}

  /// Returns the line that the caller fills in before it posts.
  InlineLine& own_line() const { return line(own_); }
  const InlineLine& line_of(int participant) const { return line(participant); }
  int count() const { return count_; }
  int own() const { return own_; }

  /// Returns whether another rank has sent the ticket to the daemon already, without posting. To be
  /// asked before Post.
  bool Declined(uint64_t ticket) const {
    // Without our line no rank goes inline, so a decision of this ticket or a later one is
    // elsewhere.
    return decision_->load(std::memory_order_acquire) >> kTicketShift >= ticket;
  }
  /// Announces that this rank is here. Requires: its line has been written.
  void Post(uint64_t ticket) { Publish(ticket << kTicketShift); }
  /// Returns the state of a ticket that was posted and is undecided.
  State Poll(uint64_t ticket) {
    const uint64_t posted = ticket << kTicketShift;
    bool unmarked = own_line().ready.load(std::memory_order_relaxed) == posted;
    for (int i = 0; i < count_; ++i) {
      if (i == own_) continue;
      const uint64_t word = line(i).ready.load(std::memory_order_acquire);
      if (word < posted) return LookElsewhere(ticket);
      unmarked = unmarked && word == posted;
    }
    // The lines are checked again now that the last one has been seen: a rank may have begun to
    // withdraw before it came. With one other participant there is no later line.
    for (int i = 0; unmarked && count_ > 2 && i < count_; ++i) {
      unmarked = line(i).ready.load(std::memory_order_acquire) == posted;
    }
    return unmarked ? State::kInline : Decide(ticket);
  }
  /// Returns true if Poll would certainly return kInline and the lines agree; false means nothing.
  /// Requires: two participants.
  bool BothAgree(uint64_t ticket) const {
    const InlineLine& other = line(1 - own_);
    // The own line is unmarked as long as this rank has not withdrawn.
    return other.ready.load(std::memory_order_acquire) == ticket << kTicketShift && Agree(ticket);
  }
  /// Tries to send a posted and undecided ticket to the daemon.
  State Withdraw(uint64_t ticket);
  /// Sends a ticket to the daemon. It was not posted yet, or Poll gave kInline and every rank finds
  /// for the same reason that it cannot go on (the lines disagree).
  void Decline(uint64_t ticket);
  /// Marks the own line as left. Requires: the ticket was posted.
  void Leave(uint64_t ticket) { Publish(ticket << kTicketShift | kWithdrawing | kLeft); }

  /// Returns whether all lines ask for the same call and count. Requires: Poll gave kInline.
  bool Agree(uint64_t ticket) const {
    const uint64_t call = own_line().call.load(std::memory_order_relaxed);
    const uint64_t count = own_line().count.load(std::memory_order_relaxed);
    bool agree = true;
    for (int i = 0; i < count_; ++i) {
      if (i == own_) continue;
      const InlineLine& other = line(i);
      agree = agree && other.call.load(std::memory_order_acquire) == call &&
              other.count.load(std::memory_order_acquire) == count;
      // A rank that has found the disagreement already may be writing its line anew.
      const uint64_t word = other.ready.load(std::memory_order_acquire);
      agree = agree && word >> kTicketShift == ticket && (word & kLeft) == 0;
    }
    return agree;
  }

  /// Returns the participants whose lines carry no such ticket yet, a bit for each.
  uint32_t MissingOf(uint64_t ticket) const;
  /// Returns whether all lines carry `ticket` or a later one. For pieces after the first, when the
  /// decision has been taken.
  bool AllHave(uint64_t ticket) const;

 private:
  // Flags of InlineLine::ready, below the ticket.
  static constexpr uint64_t kWithdrawing = 1;
  static constexpr uint64_t kLeft = 2;
  // Bits below the ticket, in InlineLine::ready and in the decision word.
  static constexpr int kTicketShift = 2;
  // Decisions in the decision word, below the ticket.
  static constexpr uint64_t kDecidedInline = 1;
  static constexpr uint64_t kDecidedOffload = 2;

  InlineLine& line(int participant) const {
    return *reinterpret_cast<InlineLine*>(reinterpret_cast<std::byte*>(first_) +
                                          static_cast<size_t>(participant) * stride_);
  }
  void Publish(uint64_t word) {
    if (cheap_) {
      own_line().ready.store(word, std::memory_order_release);
    } else {
      own_line().ready.exchange(word, std::memory_order_seq_cst);
    }
  }
  State LookElsewhere(uint64_t ticket);
  State Decide(uint64_t ticket);
  State Follow(uint64_t decision, uint64_t ticket);
  bool EverybodyStayed(uint64_t ticket) const;
  State GoElsewhere(uint64_t ticket);

  // If no rank can be made to fence by another, each one fences itself: the exchange in Publish
  // does.
  static const bool cheap_;

  std::atomic<uint64_t>* decision_ = nullptr;
  InlineLine* first_ = nullptr;
  size_t stride_ = 0;
  int count_ = 0;
  int own_ = 0;
};

}  // namespace harmonaize
