#include "plugins/nccl-net/carrier.h"

#include <chrono>
#include <cstring>
#include <thread>

namespace harmonaize::nccl_net {
namespace {

/// The pipe of control messages.
constexpr uint32_t kControlPipe = 0;
static_assert(sizeof(Control) <= MessageSlot::kPayloadBytes);

/// Longest time that the end of a carrier waits for the daemon to let go of its control messages.
constexpr std::chrono::seconds kLongestEnd(2);

}  // namespace

// The daemon must have let go of all messages before their slots are used for others.
Carrier::~Carrier() {
  if (session()->inherited() || session()->lost()) return;
  if (ready_) static_cast<void>(port_->ClosePipe(kControlPipe));
  const auto until = std::chrono::steady_clock::now() + kLongestEnd;
  const auto all_ended = [this] {
    for (const MessageSlot& slot : sending_) {
      if (!slot.ended()) return false;
    }
    return !receiving_ || receiving_.ended();
  };
  while (!all_ended() && std::chrono::steady_clock::now() < until && !session()->lost()) {
    std::this_thread::yield();
  }
}

Status Carrier::Advance() {
  if (!failure_.ok()) return failure_;
  if (!ready_) {
    const Status state = port_->State();
    if (state.code() == Code::kInProgress) return state;
    if (!state.ok()) return failure_ = state;
    ready_ = true;
  }
  while (true) {
    if (!receiving_) {
      const Status posted = PostReceive();
      if (posted.code() == Code::kInProgress) break;
      if (!posted.ok()) return failure_ = posted;
    }
    if (!receiving_.ended()) break;
    const MessageSlot slot = std::exchange(receiving_, MessageSlot{});
    slots_.GiveBack(slot);
    if (slot.code() != Code::kOk) return failure_ = Status(slot.code(), port_->LastFailure());
    Control control;
    if (slot.bytes() != sizeof control) {
      return failure_ = RemoteError("the other process speaks another version of the plugin");
    }
    std::memcpy(&control, slot.payload, sizeof control);
    arrived_.push_back(control);
  }
  std::erase_if(sending_, [this](const MessageSlot& slot) {
    if (!slot.ended()) return false;
    slots_.GiveBack(slot);
    return true;
  });
  while (!unsent_.empty()) {
    HZ_ASSIGN_OR_RETURN(const MessageSlot slot, slots_.Take());
    std::memcpy(slot.payload, &unsent_.front(), sizeof(Control));
    const Status posted = port_->Post({.sends = true,
                                       .pipe = kControlPipe,
                                       .name = sent_,
                                       .bytes = sizeof(Control),
                                       .data = slot.payload_place,
                                       .outcome = slot.outcome_place});
    if (!posted.ok()) slots_.GiveBack(slot);
    if (posted.code() == Code::kInProgress) break;
    if (!posted.ok()) return failure_ = posted;
    ++sent_;
    sending_.push_back(slot);
    unsent_.pop_front();
  }
  return Status::Ok();
}

Status Carrier::PostReceive() {
  HZ_ASSIGN_OR_RETURN(const MessageSlot slot, slots_.Take());
  const Status posted = port_->Post({.sends = false,
                                     .pipe = kControlPipe,
                                     .name = received_,
                                     .bytes = MessageSlot::kPayloadBytes,
                                     .data = slot.payload_place,
                                     .outcome = slot.outcome_place,
                                     .awaited = false});
  if (!posted.ok()) {
    slots_.GiveBack(slot);
    return posted;
  }
  ++received_;
  receiving_ = slot;
  return Status::Ok();
}

bool Carrier::Receive(Control* control) {
  if (arrived_.empty()) return false;
  *control = arrived_.front();
  arrived_.pop_front();
  return true;
}

}  // namespace harmonaize::nccl_net
