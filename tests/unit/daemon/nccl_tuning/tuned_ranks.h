#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>

#include "daemon/nccl_tuning/tuned_communicator.h"
#include "src/ipc/tuning_reader.h"
#include "src/planner/tuning_advice.h"

namespace harmonaize::daemon {

constexpr TunedKey kTunedKey{.user = 1001, .communicator = 0xabc};

inline std::shared_ptr<Tenant> TenantOfTuner() {
  ResourceLimits limits;
  limits.fill({1 << 20, 1 << 20});
  return std::make_shared<Tenant>(
      TenantIdentity{.number = 1001, .across_hosts = 1001, .user = 1001, .name = "uid 1001"},
      std::make_shared<Account>(std::make_shared<HostHoldings>(limits), "alice"));
}

/// A host's part of a communicator, with the readers of its ranks.
struct TunedHost {
  TunedHost(int ranks_here, int ranks) {
    Result<std::unique_ptr<TunedCommunicator>> made =
        TunedCommunicator::Create(kTunedKey, tenant.get(), ranks);
    EXPECT_TRUE(made.ok()) << made.status().message();
    communicator = std::move(*made);
    segment = MapForeign(communicator->descriptor(), sizeof(TuningSegment), HugePageFiles::kRefuse,
                         Access::kRead)
                  .value();
    for (int rank = 0; rank < ranks_here; ++rank) {
      Result<SharedMemory> memory = CreateSharedMemory("test", kTuningPositionBytes);
      EXPECT_TRUE(memory.ok());
      auto region = std::make_shared<RegionMemory>();
      region->mapping = std::move(memory->mapping);
      readers.push_back(std::make_unique<TuningReader>(
          reinterpret_cast<const TuningSegment*>(segment.data()),
          reinterpret_cast<TuningPosition*>(region->mapping.data())));
      communicator->Add(static_cast<uint32_t>(rank) + 1, std::move(region));
    }
  }

  std::shared_ptr<Tenant> tenant = TenantOfTuner();
  std::unique_ptr<TunedCommunicator> communicator;
  Mapping segment;
  std::vector<std::unique_ptr<TuningReader>> readers;
};

/// Returns a proposal whose table is told by `mark`.
inline TuningProposalMessage ProposalOf(uint64_t round, double mark) {
  TuningAdvice advice = NoTuningAdvice();
  for (double& factor : advice.factors) factor = mark;
  return {kTunedKey.user,  kTunedKey.communicator, round, std::move(advice.factors),
          advice.channels, advice.families};
}
/// Stands for a daemon that lives, for TuningReader::Next.
inline bool Lives() {
  return true;
}

/// Returns the mark of the table that a call goes by.
inline float MarkOf(const TuningTable& table) {
  return table.cells[kNcclAllReduce][3].factors[kNcclRing][kNcclSimple];
}

}  // namespace harmonaize::daemon
