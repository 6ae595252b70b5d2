#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "daemon/background.h"

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
