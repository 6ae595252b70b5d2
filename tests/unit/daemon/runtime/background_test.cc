#include "daemon/runtime/background.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace harmonaize::daemon {
namespace {

TEST(Background, CallsRunOneAfterTheOtherInTheOrderPosted) {
  std::vector<int> order;
  std::promise<void> done;
  Background background;
  for (int i = 0; i < 1000; ++i) background.Post([&order, i] { order.push_back(i); });
  background.Post([&done] { done.set_value(); });
  done.get_future().wait();
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(Background, TenantsTakeTurns) {
  std::vector<int> order;
  std::promise<void> begin;
  std::shared_future<void> begun = begin.get_future().share();
  std::promise<void> done;
  Background background;
  background.Post([begun] { begun.wait(); });
  for (int i = 0; i < 3; ++i) background.Post([&order, i] { order.push_back(10 + i); }, 1);
  for (int i = 0; i < 2; ++i) background.Post([&order, i] { order.push_back(20 + i); }, 2);
  background.Post([&order] { order.push_back(30); }, 3);
  for (int i = 0; i < 9; ++i) background.Post([] {}, 4);
  background.Post([&done] { done.set_value(); }, 4);
  begin.set_value();
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{10, 20, 30, 11, 21, 12}));
}

TEST(Background, AnExceptionEndsOnlyTheCallThatThrew) {
  std::promise<int> done;
  Background background;
  background.Post([] { throw std::runtime_error("for the test"); });
  background.Post([&] { done.set_value(7); });
  EXPECT_EQ(done.get_future().get(), 7);
}

TEST(Background, CallsMayPostOthers) {
  std::promise<int> done;
  Background background;
  background.Post([&] { background.Post([&] { done.set_value(7); }); });
  EXPECT_EQ(done.get_future().get(), 7);
}

TEST(Background, TheEndWaitsForTheCallThatRunsAndDropsTheOthers) {
  std::atomic<bool> ended{false};
  std::atomic<bool> dropped_ran{false};
  std::promise<void> begun;
  std::promise<void> go_on;
  std::future<void> may_go_on = go_on.get_future();
  auto background = std::make_unique<Background>();
  background->Post([&] {
    begun.set_value();
    may_go_on.wait();
    ended = true;
  });
  begun.get_future().wait();
  std::thread ending([&] { background.reset(); });
  go_on.set_value();
  ending.join();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(dropped_ran);
}

TEST(Background, ItMayEndWithoutACall) {
  Background background;
}

}  // namespace
}  // namespace harmonaize::daemon
