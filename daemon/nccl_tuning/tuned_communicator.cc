#include "daemon/nccl_tuning/tuned_communicator.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string>
#include <utility>

#include "src/planner/tuning_advice.h"

namespace harmonaize::daemon {
namespace {

/// Memory of the daemon that a communicator takes beside its segment, in bytes.
constexpr int64_t kTunedBytes = 1024;
/// Most calls of a rank that are believed: more than any makes in a hundred years.
constexpr uint64_t kMostCallsOfRank = uint64_t{1} << 62;

/// Opens the memory for reading, for processes of tenants. Such a process could open the descriptor
/// for writing again, through /proc, so the memory is sealed against later writers, too.
Result<FileDescriptor> ReadOnly(const SharedMemory& memory) {
  if (fcntl(memory.descriptor.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    return ErrnoError(errno, "cannot seal memory for a tuner");
  }
  const std::string path = "/proc/self/fd/" + std::to_string(memory.descriptor.get());
  FileDescriptor descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor.valid()) return ErrnoError(errno, "cannot open memory for a tuner");
  return descriptor;
}

}  // namespace

Result<std::unique_ptr<TunedCommunicator>> TunedCommunicator::Create(const TunedKey& key,
                                                                     Tenant* tenant, int ranks) {
  HZ_ASSIGN_OR_RETURN(Holding paid, tenant->account->Take(
                                        Resource::kMemory,
                                        static_cast<int64_t>(sizeof(TuningSegment)) + kTunedBytes));
  HZ_ASSIGN_OR_RETURN(SharedMemory segment,
                      CreateSharedMemory("harmonaize-tuning", sizeof(TuningSegment)));
  HZ_ASSIGN_OR_RETURN(FileDescriptor descriptor, ReadOnly(segment));
  segment.descriptor.Reset();
  return std::unique_ptr<TunedCommunicator>(new TunedCommunicator(
      key, tenant, ranks, std::move(segment), std::move(descriptor), std::move(paid)));
}

TunedCommunicator::TunedCommunicator(const TunedKey& key, Tenant* tenant, int ranks,
                                     SharedMemory segment, FileDescriptor descriptor,
                                     Holding memory)
    : key_(key),
      tenant_(tenant),
      ranks_(ranks),
      memory_(std::move(memory)),
      segment_(std::move(segment)),
      descriptor_(std::move(descriptor)),
      writer_(reinterpret_cast<TuningSegment*>(segment_.mapping.data()),
              TableOf(NoTuningAdvice())) {}

// ---------------------------------------------------------------------------------------------
// Ranks

void TunedCommunicator::Add(uint32_t number, std::shared_ptr<RegionMemory> position) {
  members_[number] = {std::move(position)};
}

void TunedCommunicator::Remove(uint32_t number) {
  if (members_.erase(number) > 0) ranks_left_ = true;
}

uint64_t TunedCommunicator::MostCalls() const {
  uint64_t most = 0;
  for (const auto& [number, member] : members_) {
    most = std::max(most, member.position().calls.load(std::memory_order_seq_cst));
  }
  return most;
}

bool TunedCommunicator::WentOn(uint64_t now_ns) {
  const uint64_t calls = MostCalls();
  const bool went_on = calls != seen_calls_;
  if (seen_ns_ != 0 && now_ns > seen_ns_) {
    const uint64_t newly = calls > seen_calls_ ? calls - seen_calls_ : 0;
    calls_per_second_ = static_cast<double>(newly) * 1e9 / static_cast<double>(now_ns - seen_ns_);
  }
  seen_calls_ = calls;
  seen_ns_ = now_ns;
  return went_on;
}

std::vector<uint64_t> TunedCommunicator::Checkpoints() const {
  std::set<uint64_t> found;
  for (const auto& [number, member] : members_) {
    for (const std::atomic<uint64_t>& one : member.position().checkpoints) {
      // Relaxed: MostCalls has acquired what the rank had written.
      const uint64_t checkpoint = one.load(std::memory_order_relaxed);
      if (checkpoint != 0) found.insert(checkpoint);
    }
  }
  return {found.begin(), found.end()};
}

// ---------------------------------------------------------------------------------------------
// Changes

Status TunedCommunicator::MayChange() const {
  if (ranks_left_) return Unavailable("a rank has left");
  for (const auto& [number, member] : members_) {
    const TuningPosition& position = member.position();
    if (position.gave_up.load(std::memory_order_acquire) != 0) {
      return Unavailable("a rank has waited in vain for its daemon, and stays with its table");
    }
    const uint64_t calls = position.calls.load(std::memory_order_seq_cst);
    if (calls > kMostCallsOfRank) return Unavailable("a rank says that it is at call {}", calls);
    // Call `begins` has begun, so the one before, which may have gone by the older table, has
    // ended.
    if (writer_.begins() > 0 && calls <= writer_.begins()) {
      return Unavailable("a rank has not come to the table that holds now");
    }
  }
  return Status::Ok();
}

TuningPromiseMessage TunedCommunicator::Promise(const TuningProposalMessage& proposal) {
  TuningPromiseMessage promise{
      .user = key_.user, .nccl_communicator = key_.communicator, .round = proposal.round};
  if (follower_.under_way()) writer_.Release();
  follower_.Propose(proposal.round);
  promise.status = MayChange();
  if (!promise.status.ok()) {
    follower_.Refuse(proposal.round);
    return promise;
  }
  ready_ = TableOf({proposal.factors, proposal.channels, proposal.families});
  const auto coming = static_cast<uint64_t>(calls_per_second_ * kAheadSeconds);
  const uint64_t hold = MostCalls() + std::min(kMostCallsAhead, kLeastCallsAhead + coming);
  writer_.HoldFrom(hold);
  // A rank that is not seen past the hold here finds it.
  promise.from = follower_.Promise(proposal.round, std::max(hold, MostCalls()), 0).value_or(0);
  promise.checkpoints = Checkpoints();
  return promise;
}

bool TunedCommunicator::Settle(const TuningSettleMessage& settlement) {
  const bool promised = follower_.under_way() && follower_.round() == settlement.round;
  if (!promised || !follower_.Settle(settlement.round)) return false;
  if (!settlement.commit) {
    writer_.Release();
    return false;
  }
  writer_.Commit(ready_, settlement.from);
  ++changes_;
  return true;
}

void TunedCommunicator::CallOff() {
  if (follower_.under_way() && follower_.Settle(follower_.round())) writer_.Release();
}

}  // namespace harmonaize::daemon
