#include "daemon/provider_store/store_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "daemon/runtime/event_loop.h"
#include "src/base/file_descriptor.h"

namespace harmonaize::daemon {
namespace {

using std::chrono::milliseconds;

class StoreThreadsTest : public ::testing::Test {
 protected:
  StoreThreadsTest() : loop_(EventLoop::Create().value()) {}

  /// Runs what is posted until `done`, for a minute at most.
  template <typename Done>
  bool RunUntil(Done&& done) {
    for (int i = 0; i < 6000 && !done(); ++i) {
      loop_->RunPosted();
      std::this_thread::sleep_for(milliseconds(10));
    }
    return done();
  }

  std::unique_ptr<EventLoop> loop_;
};

TEST_F(StoreThreadsTest, TasksOfOneTenantRunOneAfterTheOtherAndOfTwoBesideEachOther) {
  StoreThreads threads(StoreThreads::Kind::kRead, loop_.get());
  const auto together = std::make_shared<std::atomic<int>>(0);
  const auto of_first = std::make_shared<std::atomic<int>>(0);
  int ended = 0;
  std::vector<int> order;
  // Each of the two first tasks waits until the other has begun.
  for (const uint32_t tenant : {1u, 2u}) {
    ASSERT_TRUE(threads
                    .Run(
                        tenant,
                        [together](const std::atomic<bool>& is_ending) {
                          ++*together;
                          while (*together < 2 && !is_ending) {
                            std::this_thread::sleep_for(milliseconds(1));
                          }
                          return Status::Ok();
                        },
                        [&](const Status&) { ++ended; })
                    .ok());
  }
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(
        threads
            .Run(
                3,
                [of_first, i](const std::atomic<bool>&) -> Result<int> {
                  const bool is_alone = ++*of_first == 1;
                  std::this_thread::sleep_for(milliseconds(1));
                  --*of_first;
                  return is_alone ? Result<int>(i) : Result<int>(InternalError("beside"));
                },
                [&](const Result<int>& number) { order.push_back(number.ok() ? *number : -1); })
            .ok());
  }
  EXPECT_TRUE(RunUntil([&] { return ended == 2 && order.size() == 20; }));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST_F(StoreThreadsTest, AnExceptionIsTheOutcomeOfItsTaskAlone) {
  StoreThreads threads(StoreThreads::Kind::kWrite, loop_.get());
  std::vector<Code> codes;
  for (const bool throws : {true, false}) {
    ASSERT_TRUE(threads
                    .Run(
                        1,
                        [throws](const std::atomic<bool>&) {
                          if (throws) throw std::runtime_error("bad");
                          return Status::Ok();
                        },
                        [&](const Status& status) { codes.push_back(status.code()); })
                    .ok());
  }
  EXPECT_TRUE(RunUntil([&] { return codes.size() == 2; }));
  EXPECT_EQ(codes, (std::vector<Code>{Code::kInternalError, Code::kOk}));
}

TEST_F(StoreThreadsTest, ManyTenantsTakeTurns) {
  StoreThreads threads(StoreThreads::Kind::kRead, loop_.get());
  int ended = 0;
  for (int round = 0; round < 5; ++round) {
    for (uint32_t tenant = 0; tenant < 30; ++tenant) {
      ASSERT_TRUE(threads
                      .Run(
                          tenant, [](const std::atomic<bool>&) { return Status::Ok(); },
                          [&](const Status&) { ++ended; })
                      .ok());
    }
  }
  EXPECT_TRUE(RunUntil([&] { return ended == 150; }));
}

TEST_F(StoreThreadsTest, TheEndWaitsForNoneThatHangs) {
  const auto release = std::make_shared<std::atomic<bool>>(false);
  const auto has_begun = std::make_shared<std::atomic<bool>>(false);
  const auto has_ended = std::make_shared<std::atomic<bool>>(false);
  bool was_told = false;
  {
    StoreThreads threads(StoreThreads::Kind::kWrite, loop_.get());
    ASSERT_TRUE(threads
                    .Run(
                        1,
                        [release, has_begun, has_ended](const std::atomic<bool>&) {
                          *has_begun = true;
                          while (!*release) std::this_thread::sleep_for(milliseconds(1));
                          *has_ended = true;
                          return Status::Ok();
                        },
                        [&](const Status&) { was_told = true; })
                    .ok());
    ASSERT_TRUE(RunUntil([&] { return has_begun->load(); }));
  }
  loop_->RunPosted();
  *release = true;
  EXPECT_TRUE(RunUntil([&] { return has_ended->load(); }));
  std::this_thread::sleep_for(milliseconds(50));
  loop_->RunPosted();
  EXPECT_FALSE(was_told) << "nothing runs after the end";
}

}  // namespace
}  // namespace harmonaize::daemon
