#include "tests/hostile/daemon_watch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>

#include "tests/hostile/honest_job.h"
#include "tests/support/other_users.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {
namespace {

/// What the daemon's mappings may grow by: malloc's arenas for threads, and stacks that are kept
/// for new ones; with sanitizers, their allocator's blocks for each size.
constexpr int kMostNewMappings = kSanitized ? 512 : 64;
/// Regions that the honest job has at most: what each of its ranks asks for, and what it copies
/// through.
constexpr int64_t kMostHonestRegions = 8 * HonestJob::kRanks;

/// Memory of the daemon that users who have gone may hold: what their processes told of profiler
/// events is kept for ten minutes. "profiler rings" has few jobs, of 256 communicators each.
constexpr int64_t kMostKeptProfileBytes = int64_t{4} << 20;

/// Removes what is kept of the profiler events of users who have gone.
void ForgetProfiles(Holdings* holdings) {
  std::erase_if(*holdings, [](const auto& user) {
    const auto& [name, held] = user;
    const auto memory = held.find("bytes of the daemon's memory");
    return name != kAlice && held.size() == 1 && memory != held.end() &&
           memory->second <= kMostKeptProfileBytes;
  });
}

/// Removes what the honest user's memory is from the holdings; returns how many regions it has.
int64_t TakeMemory(Holdings* holdings) {
  std::map<std::string, int64_t>& honest = (*holdings)[kAlice];
  const int64_t regions = honest["regions"];
  for (const char* resource : {"regions", "bytes of registered memory", "descriptors of regions",
                               "bytes of the daemon's memory"}) {
    honest.erase(resource);
  }
  return regions;
}

}  // namespace

bool DaemonWatch::DaemonLives() const {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(daemon_->pid()), &info, WEXITED | WNOHANG | WNOWAIT) ==
             0 &&
         info.si_pid == 0;
}

void DaemonWatch::NoteBeginning() {
  const Result<Holdings> holdings = FetchHoldings(*daemon_);
  ASSERT_TRUE(holdings.ok()) << holdings.status().message();
  std::printf("the honest job holds %s\n", Describe(*holdings).c_str());
  ASSERT_EQ(holdings->size(), 1u);
  ASSERT_EQ(holdings->count(kAlice), 1u);
  honest_holdings_ = *holdings;
  honest_regions_ = TakeMemory(&honest_holdings_);
  baseline_ = Sample(*daemon_);
  descriptors_before_ = DescribeDescriptors(*daemon_);
}

std::string DaemonWatch::Difference() const {
  const Result<Holdings> found = FetchHoldings(*daemon_);
  if (!found.ok()) return found.status().message();
  // The honest job keeps more or less memory to copy through, as its ranks happened to overlap.
  Holdings holdings = *found;
  const int64_t regions = TakeMemory(&holdings);
  ForgetProfiles(&holdings);
  if (holdings != honest_holdings_) {
    return fmt::format("holdings are {}, and were {}", Describe(holdings),
                       Describe(honest_holdings_));
  }
  if (regions > kMostHonestRegions) return fmt::format("the honest job has {} regions", regions);
  const DaemonSample sample = Sample(*daemon_);
  // Each region is a descriptor and a mapping.
  const auto more = static_cast<int>(regions - honest_regions_);
  if (sample.descriptors > baseline_.descriptors + more) {
    return fmt::format("{} descriptors ({}), and were {} ({}), with {} regions more",
                       sample.descriptors, DescribeDescriptors(*daemon_), baseline_.descriptors,
                       descriptors_before_, more);
  }
  if (sample.threads > baseline_.threads) {
    return fmt::format("{} threads, and were {}", sample.threads, baseline_.threads);
  }
  if (sample.mappings > baseline_.mappings + more + kMostNewMappings) {
    return fmt::format("{} mappings, and were {}", sample.mappings, baseline_.mappings);
  }
  return "";
}

std::string DaemonWatch::LostLinks() const {
  const std::string log = daemon_->Log();
  const size_t found = log.find("lost the daemon at");
  return found == std::string::npos ? "" : log.substr(found, log.find('\n', found) - found);
}

}  // namespace harmonaize::testing
