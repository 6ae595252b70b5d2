#include "plugins/nccl-profiler/open_events.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace harmonaize::nccl_abi {
namespace {

class Heard final : public EndedEvents {
 public:
  void Tell(const ProfileRecord& record) noexcept override {
    const std::lock_guard lock(mutex_);
    records_.push_back(record);
  }
  std::vector<ProfileRecord> records() {
    const std::lock_guard lock(mutex_);
    return records_;
  }

 private:
  std::mutex mutex_;
  std::vector<ProfileRecord> records_;
};

class OpenEventsTest : public ::testing::Test {
 protected:
  static EventDescription Collective(uint8_t kernels) {
    return {.kind = ProfileKind::kCollective,
            .function = ProfileFunction::kReduceScatter,
            .algorithm = ProfileAlgorithm::kPat,
            .protocol = ProfileProtocol::kSimple,
            .kernels = kernels,
            .bytes = 64};
  }
  void* Kernel(void* parent, uint64_t begin) {
    return events_->Begin(0, {.kind = ProfileKind::kKernel, .timer = begin, .parent = parent}, 1);
  }
  void EndKernel(void* kernel, uint64_t end) {
    events_->SetTimer(kernel, end);
    events_->Stop(kernel, 2);
  }

  Heard heard_;
  std::unique_ptr<OpenEvents> events_ = std::make_unique<OpenEvents>(&heard_);
};

TEST_F(OpenEventsTest, AnOperationWithoutKernelsEndsWithItsCalls) {
  void* const handle = events_->Begin(3, Collective(0), 1000);
  EXPECT_TRUE(heard_.records().empty());
  events_->Stop(handle, 1700);
  ASSERT_EQ(heard_.records().size(), 1u);
  const ProfileRecord record = heard_.records().front();
  EXPECT_EQ(record.communicator, 3);
  EXPECT_EQ(record.duration_ns, 700u);
  EXPECT_EQ(record.launch_ns, 700u);
  EXPECT_EQ(record.flags, 0);
  EXPECT_EQ(record.bytes, 64u);
}

TEST_F(OpenEventsTest, AnOperationEndsWithTheLastOfItsKernels) {
  void* const handle = events_->Begin(0, Collective(2), 1000);
  void* const first = Kernel(handle, 50);
  events_->Stop(handle, 1100);
  EndKernel(first, 90);
  EXPECT_TRUE(heard_.records().empty()) << "one of two kernels has ended";
  void* const second = Kernel(handle, 40);
  EndKernel(second, 100);
  ASSERT_EQ(heard_.records().size(), 1u);
  const ProfileRecord record = heard_.records().front();
  EXPECT_EQ(record.flags, kTimedByKernels);
  EXPECT_EQ(record.duration_ns, 60u);
  EXPECT_EQ(record.launch_ns, 100u);
  EXPECT_EQ(record.kernels, 2);
  EXPECT_EQ(record.kernels_ns, 100u);
  EXPECT_EQ(record.longest_kernel_ns, 60u);
}

TEST_F(OpenEventsTest, KernelsMayEndBeforeTheCalls) {
  void* const handle = events_->Begin(0, Collective(1), 1000);
  EndKernel(Kernel(handle, 50), 90);
  // One more than was told.
  EndKernel(Kernel(handle, 50), 95);
  EXPECT_TRUE(heard_.records().empty());
  events_->Stop(handle, 1100);
  ASSERT_EQ(heard_.records().size(), 1u);
  EXPECT_EQ(heard_.records().front().duration_ns, 45u);
}

TEST_F(OpenEventsTest, WhatBelongsToAnEventHasItsFunctionAlsoAfterItsEnd) {
  void* const handle = events_->Begin(0, Collective(0), 1000);
  events_->Stop(handle, 1100);
  events_->Stop(events_->Begin(0, {.kind = ProfileKind::kProxySend, .parent = handle}, 1), 2);
  const ProfileRecord proxy = heard_.records().back();
  EXPECT_EQ(proxy.kind, ProfileKind::kProxySend);
  EXPECT_EQ(proxy.function, ProfileFunction::kReduceScatter);
  EXPECT_EQ(proxy.algorithm, ProfileAlgorithm::kPat);
  EXPECT_EQ(proxy.protocol, ProfileProtocol::kSimple);
}

TEST_F(OpenEventsTest, AKernelOfNoOperationIsToldByItself) {
  EndKernel(Kernel(nullptr, 50), 90);
  EndKernel(Kernel(reinterpret_cast<void*>(0x123456), 90), 50);
  const std::vector<ProfileRecord> records = heard_.records();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].duration_ns, 40u);
  EXPECT_EQ(records[0].flags, kTimedByKernels);
  EXPECT_EQ(records[1].duration_ns, 1u) << "a clock that goes backwards is not believed";
  EXPECT_EQ(records[1].flags, 0);
}

TEST_F(OpenEventsTest, OldHandlesStandForNothing) {
  void* const old = events_->Begin(0, Collective(0), 1);
  events_->Stop(old, 2);
  // It has the same place.
  void* const now = events_->Begin(0, Collective(0), 10);
  ASSERT_NE(old, now);
  events_->Stop(old, 100);
  events_->SetBytes(old, 7);
  EXPECT_EQ(heard_.records().size(), 1u);
  events_->Stop(now, 20);
  ASSERT_EQ(heard_.records().size(), 2u);
  EXPECT_EQ(heard_.records().back().duration_ns, 10u);
  EXPECT_EQ(heard_.records().back().bytes, 64u);
}

TEST_F(OpenEventsTest, OperationsWhoseKernelsNeverComeGiveWay) {
  constexpr uint64_t kSecond = 1'000'000'000;
  for (uint32_t i = 0; i < OpenEvents::kMost; ++i) {
    void* const handle = events_->Begin(0, Collective(4), kSecond);
    ASSERT_NE(handle, nullptr);
    events_->Stop(handle, kSecond + 5);
  }
  EXPECT_EQ(events_->Begin(0, Collective(0), 30 * kSecond), nullptr) << "they may still come";
  EXPECT_TRUE(heard_.records().empty());
  EXPECT_NE(events_->Begin(0, Collective(0), 62 * kSecond), nullptr);
  ASSERT_EQ(heard_.records().size(), OpenEvents::kMost);
  EXPECT_EQ(heard_.records().front().duration_ns, 5u);
  EXPECT_EQ(heard_.records().front().flags, 0);
}

TEST_F(OpenEventsTest, TheEndOfACommunicatorEndsItsEventsAlone) {
  void* const stopped = events_->Begin(1, Collective(4), 1);
  events_->Stop(stopped, 2);
  events_->Begin(1, Collective(0), 1);
  void* const other = events_->Begin(2, Collective(0), 1);
  events_->EndAll(1);
  ASSERT_EQ(heard_.records().size(), 1u) << "one that has not stopped is dropped";
  events_->Stop(other, 2);
  EXPECT_EQ(heard_.records().size(), 2u);
}

// One thread launches operations, two end their kernels, and one ends communicators meanwhile. Each
// operation ends once at most, and no place is lost.
TEST_F(OpenEventsTest, ThreadsEndEachOperationOnce) {
  constexpr int kOperations = 20'000;
  std::vector<std::atomic<void*>> launched(kOperations);
  std::atomic<bool> ending{false};
  std::atomic<int> kernels{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&] {
      for (std::atomic<void*>& one : launched) {
        void* handle = nullptr;
        while ((handle = one.load(std::memory_order_acquire)) == nullptr) std::this_thread::yield();
        EndKernel(Kernel(handle, 10), 20);
        kernels.fetch_add(1);
      }
    });
  }
  threads.emplace_back([&] {
    while (!ending.load()) {
      events_->EndAll(5);
      std::this_thread::yield();
    }
  });
  int refused = 0;
  for (int i = 0; i < kOperations; ++i) {
    // As NCCL launches no more than so many before their kernels have ended.
    while (kernels.load() < 2 * i - 1000) std::this_thread::yield();
    void* handle = events_->Begin(i % 7 == 0 ? 5 : 0, Collective(2), 1);
    if (handle == nullptr) {
      ++refused;
      handle = reinterpret_cast<void*>(1);
    }
    events_->Stop(handle, 2);
    launched[static_cast<size_t>(i)].store(handle, std::memory_order_release);
  }
  ending.store(true);
  for (std::thread& thread : threads) thread.join();
  events_->EndAll(0);
  events_->EndAll(5);
  size_t operations = 0;
  for (const ProfileRecord& record : heard_.records()) {
    operations += record.kind == ProfileKind::kCollective ? 1 : 0;
  }
  EXPECT_LE(operations, static_cast<size_t>(kOperations - refused));
  EXPECT_GE(operations, static_cast<size_t>(kOperations / 2));
  // All places are free again.
  std::set<void*> handles;
  for (uint32_t i = 0; i < OpenEvents::kMost; ++i) handles.insert(events_->Begin(0, {}, 3));
  EXPECT_EQ(handles.size(), OpenEvents::kMost);
  EXPECT_EQ(handles.count(nullptr), 0u);
}

}  // namespace
}  // namespace harmonaize::nccl_abi
