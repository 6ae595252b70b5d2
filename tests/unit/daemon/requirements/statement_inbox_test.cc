#include "daemon/requirements/statement_inbox.h"

#include <gtest/gtest.h>

#include <deque>
#include <future>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/runtime/background.h"

namespace harmonaize::daemon {
namespace {

/// A background whose calls wait until they may run.
class HeldBackground {
 public:
  HeldBackground() {
    background_.Post([begun = begin_.get_future().share()] { begun.wait(); });
  }
  Background* get() { return &background_; }
  /// Runs the calls that wait, and returns once they have run. `tenant`: whose they are.
  void RunAll(uint32_t tenant) {
    std::promise<void> done;
    background_.Post([&done] { done.set_value(); }, tenant);
    if (!std::exchange(is_let_go_, true)) begin_.set_value();
    done.get_future().wait();
  }

 private:
  bool is_let_go_ = false;
  std::promise<void> begin_;
  Background background_;
};

constexpr uint32_t kTenant = 7;

StatementInbox::Sender SenderOf(transport::PeerId peer, uint8_t job) {
  return {.peer = peer, .tenant = kTenant, .job = {{job}}};
}

RequirementsMessage MessageOf(uint64_t about, uint64_t number) {
  return {.about = about, .forgotten_number = number, .forgotten_unique = 0, .statements = {}};
}

TEST(StatementInbox, OfEachDaemonAndJobOnlyTheNewestMessageIsRead) {
  HeldBackground background;
  StatementInbox inbox(background.get());
  std::multiset<std::pair<uint64_t, uint64_t>> read;
  const auto note = [&](const StatementInbox::Received& one) {
    read.insert({one.message.about, one.message.forgotten_number});
  };
  for (uint64_t number = 1; number <= 100; ++number) {
    inbox.Put(SenderOf(1, 1), MessageOf(11, number), note);
    inbox.Put(SenderOf(1, 2), MessageOf(12, number), note);
    inbox.Put(SenderOf(2, 1), MessageOf(21, number), note);
  }
  EXPECT_EQ(inbox.size(), 3u);
  background.RunAll(kTenant);
  EXPECT_EQ(read, (decltype(read){{11, 100}, {12, 100}, {21, 100}}));
}

TEST(StatementInbox, AMessageIsReadBehindOneThatIsBeingRead) {
  HeldBackground background;
  StatementInbox inbox(background.get());
  std::vector<uint64_t> read;
  std::promise<void> began;
  std::promise<void> go_on;
  inbox.Put(SenderOf(1, 1), MessageOf(11, 1), [&](const StatementInbox::Received& one) {
    began.set_value();
    go_on.get_future().wait();
    read.push_back(one.message.forgotten_number);
  });
  std::thread runs([&] { background.RunAll(kTenant); });
  began.get_future().wait();
  for (const uint64_t number : {2, 3, 4}) {
    inbox.Put(SenderOf(1, 1), MessageOf(11, number), [&](const StatementInbox::Received& one) {
      read.push_back(one.message.forgotten_number);
    });
  }
  inbox.Tidy(SenderOf(1, 1));
  EXPECT_EQ(inbox.size(), 1u) << "one waits";
  go_on.set_value();
  runs.join();
  background.RunAll(kTenant);
  EXPECT_EQ(read, (std::vector<uint64_t>{1, 4}));
  inbox.Tidy(SenderOf(1, 1));
  EXPECT_EQ(inbox.size(), 0u);
}

// The newest message may have come by way of a communicator that ends before it is read.
TEST(StatementInbox, TheCommunicatorsOfReplacedMessagesAreKnown) {
  HeldBackground background;
  StatementInbox inbox(background.get());
  std::deque<uint64_t> abouts;
  const auto note = [&](const StatementInbox::Received& one) { abouts = one.abouts; };
  for (const uint64_t about : {11, 12, 11, 13}) {
    inbox.Put(SenderOf(1, 1), MessageOf(about, 1), note);
  }
  background.RunAll(kTenant);
  EXPECT_EQ(abouts, (std::deque<uint64_t>{12, 11, 13}));
}

// A tenant that forms communicators all the time takes no memory for what waits.
TEST(StatementInbox, OnlyTheNewestCommunicatorsAreRemembered) {
  HeldBackground background;
  StatementInbox inbox(background.get());
  std::deque<uint64_t> abouts;
  const auto note = [&](const StatementInbox::Received& one) { abouts = one.abouts; };
  constexpr uint64_t kFormed = 10'000;
  for (uint64_t about = 1; about <= kFormed; ++about) {
    inbox.Put(SenderOf(1, 1), MessageOf(about, 1), note);
  }
  background.RunAll(kTenant);
  ASSERT_EQ(abouts.size(), StatementInbox::kMostAbouts);
  EXPECT_EQ(abouts.back(), kFormed);
  EXPECT_EQ(abouts.front(), kFormed - StatementInbox::kMostAbouts + 1);
}

}  // namespace
}  // namespace harmonaize::daemon
