#include "daemon/communicator/wait_lister.h"

#include <algorithm>
#include <utility>

#include "daemon/communicator/communicator.h"
#include "daemon/tenant/operation_text.h"

namespace harmonaize::daemon {
namespace {

/// Most sends and receives of a communicator that one look looks at.
constexpr size_t kPairsListed = 256;
/// Most operations under way that one look looks at.
constexpr size_t kUnderWayLookedAt = 64;
/// Places in CommunicatorWaits that pairs leave free: there may be very many of them.
constexpr size_t kLeftFree = 4;

void AddReady(const std::vector<PostedOperation*>& parts, CommunicatorWait* wait) {
  for (PostedOperation* part : parts) {
    if (part == nullptr || !part->ready) continue;
    if (wait->since_ns == 0 || part->ready_ns < wait->since_ns) wait->since_ns = part->ready_ns;
    if (wait->operation.empty()) wait->operation = NameOf(part->descriptor, part->member->rank);
    wait->waiting.push_back(part);
  }
}

}  // namespace

OperationKey KeyOf(const PostedOperation& part) {
  const OperationDescriptor& descriptor = part.descriptor;
  const int rank = part.member->rank;
  switch (descriptor.collective) {
    case Collective::kSend: return {.pair = true, .from = rank, .to = descriptor.root};
    case Collective::kReceive: return {.pair = true, .from = descriptor.root, .to = rank};
    default: return {.sequence = descriptor.sequence};
  }
}

CommunicatorWait UnderWay(const MatchedOperation& operation, uint64_t since_ns) {
  CommunicatorWait wait;
  AddReady(operation.parts, &wait);
  wait.key = KeyOf(*operation.parts.front());
  wait.since_ns = since_ns;
  wait.all_posted = true;
  wait.progress = operation.feed.carried();
  for (const int rank : operation.feed.Filling()) wait.Add(rank, Awaited::kData);
  return wait;
}

CommunicatorWaits WaitLister::List(uint64_t now_ns, uint64_t least_ns) const {
  CommunicatorWaits waits;
  if (communicator_->other_hosts() != nullptr) {
    communicator_->other_hosts()->ListUnderWay(now_ns, least_ns, &waits);
  }
  AddUnderWay(now_ns, least_ns, &waits);
  AddCollective(now_ns, least_ns, &waits);
  AddPairs(now_ns, least_ns, &waits);
  return waits;
}

CommunicatorWait WaitLister::Absent(const OperationKey& key) const {
  CommunicatorWait wait;
  wait.key = key;
  if (key.pair || key.sequence < window_->start()) return wait;
  const MatchedOperation* const operation = window_->Find(key.sequence);
  if (operation != nullptr) AddReady(operation->parts, &wait);
  ListAbsent(operation, &wait);
  return wait;
}

// The collective that begins next. Those behind it wait for it, and are queued.
void WaitLister::AddCollective(uint64_t now_ns, uint64_t least_ns, CommunicatorWaits* waits) const {
  const MatchedOperation* const front = window_->front();
  if (front == nullptr || waits->full()) return;
  CommunicatorWait wait;
  wait.key = {.sequence = front->sequence};
  AddReady(front->parts, &wait);
  if (wait.waiting.empty() || AgeAt(wait.since_ns, now_ns) < least_ns) return;
  ListAbsent(front, &wait);
  // Where no rank is missing it waits for its turn, or for a plan that other hosts have to say.
  if (wait.awaited.empty()) {
    if (communicator_->other_hosts() == nullptr || !waits->listed.empty()) return;
    wait.all_posted = true;
    wait.begun = false;
  }
  waits->listed.push_back(std::move(wait));
}

void WaitLister::ListAbsent(const MatchedOperation* operation, CommunicatorWait* wait) const {
  for (int rank = 0; rank < communicator_->ranks(); ++rank) {
    if (communicator_->IsRemote(rank) || communicator_->HasLeft(rank)) continue;
    const PostedOperation* const part =
        operation == nullptr ? nullptr : communicator_->PartOf(*operation, rank);
    if (part == nullptr) {
      wait->Add(rank, Awaited::kCall);
    } else if (!part->ready) {
      wait->Add(rank, Awaited::kStream);
    }
  }
}

void WaitLister::AddUnderWay(uint64_t now_ns, uint64_t least_ns, CommunicatorWaits* waits) const {
  size_t looked_at = 0;
  const auto add = [&](const MatchedOperation& operation) {
    if (++looked_at > kUnderWayLookedAt || waits->full()) return;
    uint64_t since_ns = operation.first_arrival_ns;
    for (const PostedOperation* part : operation.parts) {
      since_ns = std::max(since_ns, part->ready_ns);
    }
    if (AgeAt(since_ns, now_ns) < least_ns) return;
    waits->listed.push_back(UnderWay(operation, since_ns));
  };
  for (const MatchedOperation* operation : communicator_->sliced()) add(*operation);
  for (const MatchedOperation* operation : communicator_->running_here()) add(*operation);
}

void WaitLister::AddPairs(uint64_t now_ns, uint64_t least_ns, CommunicatorWaits* waits) const {
  pairs_->ForFirst(kPairsListed, [&](PostedOperation* part) {
    const bool room = waits->listed.size() + kLeftFree < CommunicatorWaits::kMost;
    if (!room || !part->ready || AgeAt(part->ready_ns, now_ns) < least_ns) return;
    CommunicatorWait wait;
    wait.key = KeyOf(*part);
    AddReady({part}, &wait);
    wait.Add(part->descriptor.root, Awaited::kCall);
    waits->listed.push_back(std::move(wait));
  });
}

}  // namespace harmonaize::daemon
