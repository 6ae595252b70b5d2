#include "daemon/communicator/wait_lister.h"

#include <algorithm>
#include <map>
#include <utility>

#include "daemon/communicator/communicator.h"
#include "daemon/communicator/inline_segment.h"
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

OperationKey KeyOf(const InlineWait& wait, int rank) {
  OperationKey key{.sequence = wait.ticket, .by_ranks = true};
  key.pair = IsPointToPoint(wait.collective);
  if (key.pair) {
    key.from = wait.collective == Collective::kSend ? rank : wait.root;
    key.to = wait.collective == Collective::kSend ? wait.root : rank;
  }
  return key;
}

// The daemon has given it no number, so it is told by what the ranks ask for.
std::string NameByRanks(const InlineWait& wait, int rank) {
  OperationDescriptor asked;
  asked.collective = wait.collective;
  asked.count = wait.count;
  asked.type = wait.type;
  asked.op = wait.op;
  asked.root = wait.root;
  return IsPointToPoint(wait.collective) ? NameOf(asked, rank) : RequestOf(asked);
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
  AddByRanks(now_ns, &waits);
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

// What ranks say of operations that they carry out themselves. A rank that waits in the operation
// keeps nobody waiting: those do for which it waits.
void WaitLister::AddByRanks(uint64_t now_ns, CommunicatorWaits* waits) const {
  const InlineSegment* const segment = communicator_->inline_segment();
  if (segment == nullptr) return;
  std::map<OperationKey, CommunicatorWait> by_key;
  std::map<OperationKey, uint32_t> awaited;
  for (const auto& [rank, told] : segment->Waits()) {
    const OperationKey key = KeyOf(told.wait, rank);
    CommunicatorWait& wait = by_key[key];
    wait.key = key;
    if (wait.operation.empty()) wait.operation = NameByRanks(told.wait, rank);
    wait.since_ns = now_ns - std::min(now_ns, kInlineToldAfterNanoseconds);
    wait.all_posted = true;
    wait.progress += told.number;
    wait.waiting_ranks.push_back(rank);
    awaited[key] |= told.wait.for_ranks;
  }
  for (auto& [key, wait] : by_key) {
    if (waits->full()) return;
    for (const int rank : wait.waiting_ranks) awaited[key] &= ~(uint32_t{1} << rank);
    for (int rank = 0; rank < communicator_->ranks(); ++rank) {
      if ((awaited[key] >> rank & 1) != 0) wait.Add(rank, Awaited::kData);
    }
    waits->listed.push_back(std::move(wait));
  }
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
