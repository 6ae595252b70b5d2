#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/ipc/inline_segment.h"

namespace harmonaize {

/// How the ranks that take part in one operation agree that they carry it out themselves: they all
/// post their line, in memory that they share, and each waits until it sees the lines of all. Any
/// of them may instead send the operation to the daemon, and then all do. Nobody asks anybody.
///
/// Operations carry tickets, numbers that grow and that all participants count alike. For each
/// ticket there is one decision, inline or offload, and this is how it is found:
///
/// - A rank that has *posted* and sees the lines of all others goes inline. That is the fast way:
///   one store, and loads.
/// - A rank that has not posted may *decline*: it writes "offload" into the shared decision word
///   and never posts. Without its line nobody can go inline; who waits sees the word.
/// - A rank that has posted and waits for too long may *withdraw*. It marks its line, makes sure
///   that everybody who posts from now on sees the mark (HeavyFence), and looks again. If a line is
///   still missing, it tries to change the decision word to "offload". Whoever sees all lines, one
///   of them marked, must first change the same word to "inline": the first of the two wins, by
///   compare-and-swap, and all go by the word.
///
/// A rank that goes elsewhere after it has posted marks its line as *left* before it writes any
/// later decision, so a slow one that finds the word overwritten by a later ticket can still tell:
/// if nobody has left, everybody went inline.
///
/// Memory orders. A line is written before its `ready` word is stored (release) and read after it
/// was seen (acquire). The marks are ordered against the posts by the heavy fence: a rank that
/// posted before the fence is seen by the one that withdraws; one that posted later reads the mark,
/// as does everyone who has seen that post, because all lines are looked at once more after the
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

  /// What a participant writes into its line before it posts.
  InlineLine& own_line() const { return line(own_); }
  const InlineLine& line_of(int participant) const { return line(participant); }
  int count() const { return count_; }
  int own() const { return own_; }

  /// Whether the ticket has been sent to the daemon already, by somebody who saw no point in
  /// posting. To be asked before Post.
  bool Declined(uint64_t ticket) const {
    // Without our line nobody goes inline: who decided this ticket, or a later one, is elsewhere.
    return decision_->load(std::memory_order_acquire) >> kTicketShift >= ticket;
  }
  /// Says that this rank is here. Its line must have been written.
  void Post(uint64_t ticket) { Publish(ticket << kTicketShift); }
  /// Where things stand, for a ticket that was posted and is undecided.
  State Poll(uint64_t ticket) {
    const uint64_t posted = ticket << kTicketShift;
    bool unmarked = own_line().ready.load(std::memory_order_relaxed) == posted;
    for (int i = 0; i < count_; ++i) {
      if (i == own_) continue;
      const uint64_t word = line(i).ready.load(std::memory_order_acquire);
      if (word < posted) return LookElsewhere(ticket);
      unmarked = unmarked && word == posted;
    }
    // Once more, now that the last one has been seen: nobody may have begun to withdraw before it
    // came. With one other participant there is no later one.
    for (int i = 0; unmarked && count_ > 2 && i < count_; ++i) {
      unmarked = line(i).ready.load(std::memory_order_acquire) == posted;
    }
    return unmarked ? State::kInline : Decide(ticket);
  }
  /// Of two participants: whether Poll would give kInline at a glance, and the lines agree. False
  /// says nothing.
  bool BothAgree(uint64_t ticket) const {
    const InlineLine& other = line(1 - own_);
    // The own line is unmarked as long as this rank has not withdrawn.
    return other.ready.load(std::memory_order_acquire) == ticket << kTicketShift && Agree(ticket);
  }
  /// Tries to send a posted and undecided ticket to the daemon.
  State Withdraw(uint64_t ticket);
  /// Sends a ticket to the daemon, before it was posted, or after Poll gave kInline and everybody
  /// finds for the same reason that it cannot go on (the lines disagree).
  void Decline(uint64_t ticket);
  /// Marks the own line as left; for a ticket that was posted.
  void Leave(uint64_t ticket) { Publish(ticket << kTicketShift | kWithdrawing | kLeft); }

  /// After Poll gave kInline: whether all lines ask for the same call and count.
  bool Agree(uint64_t ticket) const {
    const uint64_t call = own_line().call.load(std::memory_order_relaxed);
    const uint64_t count = own_line().count.load(std::memory_order_relaxed);
    bool agree = true;
    for (int i = 0; i < count_; ++i) {
      if (i == own_) continue;
      const InlineLine& other = line(i);
      agree = agree && other.call.load(std::memory_order_acquire) == call &&
              other.count.load(std::memory_order_acquire) == count;
      // One that has found the disagreement already may be writing its line anew.
      const uint64_t word = other.ready.load(std::memory_order_acquire);
      agree = agree && word >> kTicketShift == ticket && (word & kLeft) == 0;
    }
    return agree;
  }

  /// Whether all lines carry `ticket` or a later one. For pieces after the first, when the decision
  /// has been taken.
  bool AllHave(uint64_t ticket) const;

 private:
  // Flags of InlineLine::ready.
  static constexpr uint64_t kWithdrawing = 1;
  static constexpr uint64_t kLeft = 2;
  static constexpr int kTicketShift = 2;
  // In the decision word, beside the ticket.
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

  // Where nobody can be made to fence, everybody fences: the exchange in Publish is one.
  static const bool cheap_;

  std::atomic<uint64_t>* decision_ = nullptr;
  InlineLine* first_ = nullptr;
  size_t stride_ = 0;
  int count_ = 0;
  int own_ = 0;
};

}  // namespace harmonaize
