#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/cluster/messages/tuning.h"
#include "daemon/plans/plan_switch.h"
#include "daemon/quota/holdings.h"
#include "daemon/tenant/region.h"
#include "daemon/tenant/tenant.h"
#include "src/base/status.h"
#include "src/ipc/tuning_reader.h"
#include "src/memory/shared_memory.h"

namespace harmonaize::daemon {

/// Names a communicator of stock NCCL's at all hosts.
struct TunedKey {
  uint32_t user = 0;          ///< TenantIdentity::across_hosts.
  uint64_t communicator = 0;  ///< NCCL's hash of its id, which the tenant says.

  auto operator<=>(const TunedKey&) const = default;
};

/// The ranks of a tuned communicator at this host, and the tables by which they choose. The hosts
/// change tables as they change plans (plan_switch.h), and ranks as tuning_reader.h tells. Thread:
/// engine.
class TunedCommunicator {
 public:
  /// Errors: kSystemError if there is no memory; kInvalidUsage for a tenant over its quota.
  static Result<std::unique_ptr<TunedCommunicator>> Create(const TunedKey& key, Tenant* tenant,
                                                           int ranks);

  const TunedKey& key() const { return key_; }
  Tenant& tenant() const { return *tenant_; }
  /// Ranks of the whole communicator, as its processes say.
  int ranks() const { return ranks_; }
  int here() const { return static_cast<int>(members_.size()); }
  /// The descriptor of the TuningSegment, for processes to map. They cannot write there.
  int descriptor() const { return descriptor_.get(); }
  /// Number of changes of the table.
  uint64_t changes() const { return changes_; }

  /// Adds a rank, whose TuningPosition is in `position`, under a number of its own.
  void Add(uint32_t number, std::shared_ptr<RegionMemory> position);
  /// Removes a rank by its number.
  void Remove(uint32_t number);

  /// Returns whether a rank has called since the last time.
  bool WentOn(uint64_t now_ns);

  /// Answers the home's proposal.
  TuningPromiseMessage Promise(const TuningProposalMessage& proposal);
  /// Takes in the home's word on its proposal. Returns whether the table has changed.
  bool Settle(const TuningSettleMessage& settlement);
  /// Calls off what is under way, since the home is gone.
  void CallOff();

  // A promise holds from a call on that is ahead of the ranks by this many calls.
  // The nearer it is, the sooner the change. The further, the fewer ranks wait for the round's end.

  /// The least, for ranks that were silent and call again while the round is under way.
  static constexpr uint64_t kLeastCallsAhead = 4;
  /// The most, however many calls the ranks make in a second.
  static constexpr uint64_t kMostCallsAhead = 4096;
  /// Time that a round may take before ranks come to wait for it, in seconds: some round trips
  /// between hosts. As many calls as the ranks make in this time are added to the least.
  static constexpr double kAheadSeconds = 5e-3;

 private:
  struct Member {
    std::shared_ptr<RegionMemory> memory;
    const TuningPosition& position() const {
      return *reinterpret_cast<const TuningPosition*>(memory->mapping.data());
    }
  };

  TunedCommunicator(const TunedKey& key, Tenant* tenant, int ranks, SharedMemory segment,
                    FileDescriptor descriptor, Holding memory);
  Status MayChange() const;
  uint64_t MostCalls() const;
  std::vector<uint64_t> Checkpoints() const;

  const TunedKey key_;
  Tenant* const tenant_;
  const int ranks_;
  const Holding memory_;
  const SharedMemory segment_;
  const FileDescriptor descriptor_;
  TuningWriter writer_;
  SwitchFollower follower_;
  TuningTable ready_ = {};  ///< Of the round that is under way.
  uint64_t changes_ = 0;

  std::map<uint32_t, Member> members_;  // by number
  bool ranks_left_ = false;             ///< Some rank is gone, so nothing changes any more.
  uint64_t seen_calls_ = 0;             ///< Of all ranks, when WentOn looked last.
  uint64_t seen_ns_ = 0;
  double calls_per_second_ = 0;  ///< Of the rank that is furthest.
};

}  // namespace harmonaize::daemon
