#include "src/client/inline/rendezvous.h"

#include "src/base/asymmetric_fence.h"

namespace harmonaize {

const bool Rendezvous::cheap_ = HasAsymmetricFences();

// Follows the decision word when a line was still missing.
Rendezvous::State Rendezvous::LookElsewhere(uint64_t ticket) {
  const uint64_t decision = decision_->load(std::memory_order_acquire);
  if (decision >> kTicketShift < ticket) return State::kWaiting;
  return Follow(decision, ticket);
}

// Decides when all lines have been seen, but a rank has begun to withdraw, or has even left.
Rendezvous::State Rendezvous::Decide(uint64_t ticket) {
  uint64_t decision = decision_->load(std::memory_order_acquire);
  while (decision >> kTicketShift < ticket) {
    if (decision_->compare_exchange_weak(decision, ticket << kTicketShift | kDecidedInline,
                                         std::memory_order_acq_rel, std::memory_order_acquire)) {
      return State::kInline;
    }
  }
  return Follow(decision, ticket);
}

Rendezvous::State Rendezvous::Follow(uint64_t decision, uint64_t ticket) {
  if (decision == (ticket << kTicketShift | kDecidedInline)) return State::kInline;
  if (decision == (ticket << kTicketShift | kDecidedOffload)) return GoElsewhere(ticket);
  // The word holds a later ticket. The rank that wrote it has passed this ticket before, and what
  // it saw or did then is visible here: all lines, or one missing, or its own marked as left.
  return EverybodyStayed(ticket) ? State::kInline : GoElsewhere(ticket);
}

bool Rendezvous::EverybodyStayed(uint64_t ticket) const {
  for (int i = 0; i < count_; ++i) {
    const uint64_t word = line(i).ready.load(std::memory_order_acquire);
    if (word >> kTicketShift != ticket || (word & kLeft) != 0) return false;
  }
  return true;
}

Rendezvous::State Rendezvous::GoElsewhere(uint64_t ticket) {
  Leave(ticket);
  return State::kOffload;
}

Rendezvous::State Rendezvous::Withdraw(uint64_t ticket) {
  Publish(ticket << kTicketShift | kWithdrawing);
  HeavyFence();
  const State state = Poll(ticket);
  if (state != State::kWaiting) return state;
  uint64_t decision = decision_->load(std::memory_order_acquire);
  while (decision >> kTicketShift < ticket) {
    if (decision_->compare_exchange_weak(decision, ticket << kTicketShift | kDecidedOffload,
                                         std::memory_order_acq_rel, std::memory_order_acquire)) {
      return GoElsewhere(ticket);
    }
  }
  return Follow(decision, ticket);
}

void Rendezvous::Decline(uint64_t ticket) {
  uint64_t decision = decision_->load(std::memory_order_relaxed);
  while (decision >> kTicketShift < ticket &&
         !decision_->compare_exchange_weak(decision, ticket << kTicketShift | kDecidedOffload,
                                           std::memory_order_acq_rel, std::memory_order_relaxed)) {
  }
}

bool Rendezvous::AllHave(uint64_t ticket) const {
  for (int i = 0; i < count_; ++i) {
    if (i == own_) continue;
    if (line(i).ready.load(std::memory_order_acquire) >> kTicketShift < ticket) return false;
  }
  return true;
}

uint32_t Rendezvous::MissingOf(uint64_t ticket) const {
  uint32_t missing = 0;
  for (int i = 0; i < count_; ++i) {
    if (i == own_ || line(i).ready.load(std::memory_order_acquire) >> kTicketShift >= ticket) {
      continue;
    }
    missing |= uint32_t{1} << i;
  }
  return missing;
}

}  // namespace harmonaize
