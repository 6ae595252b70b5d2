#include "daemon/profiles/job_profile.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace harmonaize::daemon {
namespace {

constexpr int64_t kMegabyte = 1 << 20;

std::shared_ptr<Account> AccountWith(int64_t memory) {
  ResourceLimits limits;
  limits.fill({1 << 20, 1 << 20});
  limits[static_cast<size_t>(Resource::kMemory)] = {memory, 2 * memory};
  return std::make_shared<Account>(std::make_shared<HostHoldings>(limits), "alice");
}

ProfileWords Communicator(uint16_t index, uint64_t id, const std::string& name = "") {
  ProfiledCommunicator communicator{
      .communicator = index, .id = id, .ranks = 4, .rank = 1, .hosts = 2};
  std::memcpy(communicator.name, name.data(), std::min(name.size(), sizeof communicator.name));
  return std::bit_cast<ProfileWords>(communicator);
}

ProfileWords Collective(uint16_t index, uint64_t duration_ns, uint64_t bytes,
                        ProfileFunction function = ProfileFunction::kAllReduce) {
  return std::bit_cast<ProfileWords>(ProfileRecord{.kind = ProfileKind::kCollective,
                                                   .function = function,
                                                   .algorithm = ProfileAlgorithm::kRing,
                                                   .protocol = ProfileProtocol::kSimple,
                                                   .communicator = index,
                                                   .duration_ns = duration_ns,
                                                   .bytes = bytes});
}

class JobProfileTest : public ::testing::Test {
 protected:
  void Add(const std::vector<ProfileWords>& records, uint64_t lost = 0) {
    profile_.Add(&process_, records, lost, &counts_);
  }

  std::shared_ptr<Account> account_ = AccountWith(64 * kMegabyte);
  JobProfile profile_{account_};
  JobProfile::Process process_;
  ProfileCounts counts_;
};

TEST_F(JobProfileTest, AddsUpWhatEventsHaveInCommon) {
  profile_.BeginProcess();
  Add({Communicator(3, 77, "world"), Collective(3, 500, 100), Collective(3, 2'000, 50),
       Collective(3, 3'000'000'000, 1)});
  const ProfileReport report = profile_.Report();
  EXPECT_EQ(report.events, 3u);
  EXPECT_EQ(report.processes, 1);
  ASSERT_EQ(report.communicators.size(), 1u);
  const CommunicatorProfile& communicator = report.communicators.front();
  EXPECT_EQ(communicator.id, 77u);
  EXPECT_EQ(communicator.name, "world");
  EXPECT_EQ(communicator.ranks, 4);
  EXPECT_EQ(communicator.hosts, 2);
  ASSERT_EQ(communicator.rows.size(), 1u);
  const ProfileRow& row = communicator.rows.begin()->second;
  EXPECT_EQ(row.events, 3u);
  EXPECT_EQ(row.bytes, 151u);
  EXPECT_EQ(row.total_ns, 3'000'002'500u);
  EXPECT_EQ(row.largest_ns, 3'000'000'000u);
  EXPECT_EQ(row.histogram.front(), 1u);
  EXPECT_EQ(row.histogram[1], 1u);
  EXPECT_EQ(row.histogram.back(), 1u);
  EXPECT_EQ(counts_.events[static_cast<size_t>(ProfileKind::kCollective)], 3u);
}

TEST_F(JobProfileTest, ProcessesOfOneCommunicatorAreOneCommunicator) {
  JobProfile::Process other;
  Add({Communicator(0, 77), Collective(0, 10, 1)});
  profile_.Add(&other, std::vector{Communicator(9, 77), Collective(9, 20, 1)}, 0, &counts_);
  const ProfileReport report = profile_.Report();
  ASSERT_EQ(report.communicators.size(), 1u);
  EXPECT_EQ(report.communicators.front().processes, 2);
  EXPECT_EQ(report.communicators.front().rows.begin()->second.events, 2u);
}

TEST_F(JobProfileTest, KernelsComeWithTheirOperation) {
  ProfileRecord record{.kind = ProfileKind::kCollective,
                       .function = ProfileFunction::kAllGather,
                       .flags = kTimedByKernels,
                       .kernels = 4,
                       .duration_ns = 90'000,
                       .kernels_ns = 200'000,
                       .longest_kernel_ns = 80'000};
  Add({Communicator(0, 1), std::bit_cast<ProfileWords>(record)});
  const auto rows = profile_.Report().communicators.front().rows;
  ASSERT_EQ(rows.size(), 2u);
  for (const auto& [key, row] : rows) {
    EXPECT_TRUE(key.timed_by_kernels);
    EXPECT_EQ(key.function, ProfileFunction::kAllGather);
    const bool is_kernel = key.kind == ProfileKind::kKernel;
    EXPECT_EQ(row.events, is_kernel ? 4u : 1u);
    EXPECT_EQ(row.total_ns, is_kernel ? 200'000u : 90'000u);
    EXPECT_EQ(row.largest_ns, is_kernel ? 80'000u : 90'000u);
  }
}

TEST_F(JobProfileTest, EventsOfNoKnownCommunicatorAreKeptApart) {
  Add({Collective(5, 10, 1)}, 3);
  const ProfileReport report = profile_.Report();
  EXPECT_TRUE(report.communicators.empty());
  EXPECT_EQ(report.others.rows.begin()->second.events, 1u);
  EXPECT_EQ(report.lost, 3u);
}

TEST_F(JobProfileTest, CountsMalformedRecords) {
  ProfileWords words;
  words.fill(UINT64_MAX);
  Add({words, words, Collective(0, 1, 1)});
  EXPECT_EQ(profile_.Report().malformed, 2u);
  EXPECT_EQ(profile_.Report().events, 1u);
  EXPECT_EQ(counts_.malformed, 2u);
}

TEST_F(JobProfileTest, SumsEndAtTheLargestNumber) {
  Add({Communicator(0, 1), Collective(0, UINT64_MAX, UINT64_MAX), Collective(0, 7, 7)}, UINT64_MAX);
  Add({}, UINT64_MAX);
  const ProfileReport report = profile_.Report();
  EXPECT_EQ(report.communicators.front().rows.begin()->second.total_ns, UINT64_MAX);
  EXPECT_EQ(report.communicators.front().rows.begin()->second.bytes, UINT64_MAX);
  EXPECT_EQ(report.lost, UINT64_MAX);
}

TEST_F(JobProfileTest, EndedCommunicatorsMakePlaceAndTheirEventsStay) {
  constexpr uint64_t kMany = 4 * JobProfile::kMostCommunicators;
  for (uint64_t id = 1; id <= kMany; ++id) Add({Communicator(0, id), Collective(0, 5, 1)});
  const ProfileReport report = profile_.Report();
  EXPECT_EQ(report.communicators.size(), JobProfile::kMostCommunicators);
  EXPECT_EQ(report.merged_communicators, kMany - JobProfile::kMostCommunicators);
  EXPECT_EQ(report.others.rows.begin()->second.events, kMany - JobProfile::kMostCommunicators);
  EXPECT_EQ(report.events, kMany);
}

TEST_F(JobProfileTest, PaysForNoMoreThanItHolds) {
  const auto spin = [&](uint64_t first, uint64_t last) {
    for (uint64_t id = first; id <= last; ++id) Add({Communicator(0, id), Collective(0, 5, 1)});
  };
  spin(1, 2 * JobProfile::kMostCommunicators);
  const int64_t held = account_->held(Resource::kMemory);
  EXPECT_GT(held, 0);
  spin(10'000, 20'000);
  EXPECT_EQ(account_->held(Resource::kMemory), held);
  EXPECT_LT(held, kMegabyte);
}

TEST_F(JobProfileTest, CommunicatorsThatAreHereKeepTheirPlaces) {
  std::vector<ProfileWords> records;
  for (uint16_t i = 0; i < kMostProfiledCommunicators; ++i) {
    records.push_back(Communicator(i, 1000u + i));
    records.push_back(Collective(i, 5, 1));
  }
  Add(records);
  const ProfileReport report = profile_.Report();
  EXPECT_EQ(report.communicators.size(), JobProfile::kMostCommunicators);
  EXPECT_EQ(report.others.rows.begin()->second.events,
            kMostProfiledCommunicators - JobProfile::kMostCommunicators);
  EXPECT_EQ(report.events, kMostProfiledCommunicators);
}

TEST_F(JobProfileTest, RowsAreBoundedAndTheRestIsOneRow) {
  std::vector<ProfileWords> records = {Communicator(0, 1)};
  uint64_t events = 0;
  for (int function = 0; function < kProfileFunctionCount; ++function) {
    for (int kind = 1; kind < kProfileKindCount; ++kind) {
      records.push_back(std::bit_cast<ProfileWords>(
          ProfileRecord{.kind = static_cast<ProfileKind>(kind),
                        .function = static_cast<ProfileFunction>(function)}));
      ++events;
    }
  }
  Add(records);
  const CommunicatorProfile communicator = profile_.Report().communicators.front();
  EXPECT_EQ(communicator.rows.size(), JobProfile::kMostRows);
  uint64_t told = 0;
  for (const auto& [key, row] : communicator.rows) told += row.events;
  EXPECT_EQ(told, events);
}

TEST(JobProfileMemory, ATenantWithoutMemoryHasOneRow) {
  JobProfile profile(AccountWith(100));
  JobProfile::Process process;
  ProfileCounts counts;
  profile.Add(&process,
              std::vector{Communicator(0, 1), Collective(0, 1, 1),
                          Collective(0, 1, 1, ProfileFunction::kBroadcast)},
              0, &counts);
  const ProfileReport report = profile.Report();
  EXPECT_TRUE(report.communicators.empty());
  EXPECT_EQ(report.others.rows.size(), 1u);
  EXPECT_EQ(report.others.rows.begin()->second.events, 2u);
}

TEST_F(JobProfileTest, EndOfAProcessEndsItsCommunicators) {
  profile_.BeginProcess();
  Add({Communicator(0, 1), Communicator(1, 2), Collective(1, 1, 1)});
  profile_.EndProcess(&process_);
  const ProfileReport report = profile_.Report();
  EXPECT_EQ(report.processes, 0);
  for (const CommunicatorProfile& one : report.communicators) {
    EXPECT_EQ(one.processes, 0);
    EXPECT_GT(one.ended, 0u);
  }
}

}  // namespace
}  // namespace harmonaize::daemon
