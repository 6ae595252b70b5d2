#include "src/transport/send_queue.h"

#include <algorithm>

namespace harmonaize::transport {

SendQueue::Share* SendQueue::ShareOf(const Request& send) {
  for (Share& share : shares_) {
    if (share.of.tenant == send.share.tenant) return &share;
  }
  // One that has nothing to send, and nothing to its credit, makes room: tenants come and go.
  for (Share& share : shares_) {
    if (share.waiting || share.start > clock_ - kCreditBytes) continue;
    share.of = send.share;
    share.start = clock_;
    return &share;
  }
  Share& share = shares_.emplace_back();
  share.of = send.share;
  share.start = clock_;
  return &share;
}

/// The share of a send that is now to wait in it.
SendQueue::Share* SendQueue::Waiting(const Request& send) {
  Share* share = ShareOf(send);
  share->of.weight = send.share.weight;
  if (!share->waiting) share->start = std::max(share->start, clock_ - kCreditBytes);
  share->waiting = true;
  return share;
}

void SendQueue::Push(Request* send) {
  Waiting(*send)->small.PushBack(send);
}

void SendQueue::PushBulk(Request* send) {
  Waiting(*send)->bulk.Push(send);
}

void SendQueue::ReturnBulk(Request* send) {
  Waiting(*send)->bulk.Return(send);
}

SendQueue::Turn SendQueue::Take(Share* share) {
  if (Request* send = share->small.PopFront(); send != nullptr) return {send, false};
  return {share->bulk.Pop(), true};
}

/// Of those that wait.
SendQueue::Share* SendQueue::First() {
  Share* first = nullptr;
  for (Share& share : shares_) {
    share.waiting = share.waiting && (!share.small.empty() || !share.bulk.empty());
    if (!share.waiting) continue;
    if (first == nullptr || share.start < first->start) first = &share;
  }
  return first;
}

SendQueue::Turn SendQueue::Next() {
  while (Share* first = First()) {
    const Turn turn = Take(first);
    if (turn.send != nullptr) return turn;
  }
  return {};
}

void SendQueue::Charge(const Request& send, size_t bytes) {
  Share* share = ShareOf(send);
  clock_ = std::max(clock_, share->start);
  share->start += static_cast<double>(bytes) / share->of.weight;
  if (send.share.tenant != last_) before_last_ = sent_;
  last_ = send.share.tenant;
  sent_ += bytes;
}

}  // namespace harmonaize::transport
