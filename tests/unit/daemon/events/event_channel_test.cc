#include "daemon/events/event_channel.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace harmonaize::daemon {
namespace {

/// What one subscriber has been sent, and how much more it can take.
struct Inbox {
  std::vector<std::string> texts = {};
  size_t room = SIZE_MAX;
  std::string begins_at = {};  ///< The place that came without an event.

  EventSink sink() {
    return [this](std::string text) {
      if (text.starts_with("id: @")) {
        begins_at = text.substr(4, text.find('\n') - 4);
        return true;
      }
      if (texts.size() >= room) return false;
      texts.push_back(std::move(text));
      return true;
    };
  }
  /// The numbers of the events, which their subjects hold; -N for a notice of N missed ones.
  std::vector<int> Numbers() const {
    std::vector<int> numbers;
    for (const std::string& text : texts) {
      const size_t missed = text.find("{\"missed\":");
      const size_t subject = text.find("\"subject\":\"n");
      if (missed != std::string::npos) {
        numbers.push_back(-std::stoi(text.substr(missed + 10)));
      } else if (subject != std::string::npos) {
        numbers.push_back(std::stoi(text.substr(subject + 12)));
      }
    }
    return numbers;
  }
  /// What the last text's line `id:` holds.
  std::string LastId() const {
    const std::string& text = texts.back();
    return text.substr(4, text.find('\n') - 4);
  }
};

class EventChannelTest : public ::testing::Test {
 protected:
  std::unique_ptr<EventChannel> Make(const std::string& tag, int64_t bytes = 8 << 20) {
    return std::make_unique<EventChannel>(
        EventLog::InMemory({.most_bytes = bytes, .most_seconds = 3600}, [] { return 1000; }), tag);
  }
  static Event Numbered(int number, const std::string& job = "a") {
    return {.job = job,
            .unique = static_cast<uint64_t>(number) + 1000 * job.front(),
            .type = EventType::kRankLate,
            .subject = "n" + std::to_string(number),
            .time_ns = 1};
  }
  void Add(int first, int last, const std::string& job = "a") {
    for (int i = first; i <= last; ++i) EXPECT_TRUE(channel_->Add(Numbered(i, job)));
  }
  Status Subscribe(uint64_t number, Inbox* inbox, const EventOrder& order = {}) {
    return channel_->Subscribe(number, order, [inbox] { return inbox->sink(); });
  }

  std::unique_ptr<EventChannel> channel_ = Make("aa");
};

TEST_F(EventChannelTest, TellsWhatComesFromNowOn) {
  Add(1, 2);
  Inbox inbox;
  EXPECT_TRUE(Subscribe(1, &inbox).ok());
  Add(3, 4);
  EXPECT_EQ(inbox.Numbers(), (std::vector<int>{3, 4}));
  channel_->Unsubscribe(1);
  Add(5, 5);
  EXPECT_EQ(inbox.texts.size(), 2u);
}

TEST_F(EventChannelTest, GoesOnForOneThatWasCutOffBeforeTheFirstEvent) {
  Add(1, 2);
  Inbox first;
  EXPECT_TRUE(Subscribe(1, &first, {.filter = {.job = "a"}}).ok());
  channel_->Unsubscribe(1);
  Add(3, 4);
  const std::optional<EventCursor> begun = ParseEventCursor(first.begins_at);
  ASSERT_TRUE(begun.has_value()) << first.begins_at;
  Inbox second;
  EXPECT_TRUE(Subscribe(2, &second, {.filter = {.job = "a"}, .after = begun}).ok());
  EXPECT_EQ(second.Numbers(), (std::vector<int>{3, 4}));
  EXPECT_EQ(second.begins_at, "");
  // Another daemon does not know the place, and tells what is to come.
  channel_ = Make("bb");
  Add(5, 5);
  Inbox elsewhere;
  EXPECT_TRUE(Subscribe(3, &elsewhere, {.after = begun}).ok());
  Add(6, 6);
  EXPECT_EQ(elsewhere.Numbers(), (std::vector<int>{6}));
}

TEST_F(EventChannelTest, DropsWhatItHasHadBefore) {
  Inbox inbox;
  EXPECT_TRUE(Subscribe(1, &inbox, {.from_the_start = true}).ok());
  Add(1, 1);
  EXPECT_FALSE(channel_->Add(Numbered(1)));
  EXPECT_TRUE(channel_->Add(Numbered(1, "b"))) << "another job's";
  EXPECT_EQ(inbox.Numbers(), (std::vector<int>{1, 1}));
}

TEST_F(EventChannelTest, ASlowSubscriberGetsEverythingInOrderOnceItTakesMore) {
  Inbox slow{.texts = {}, .room = 2};
  Inbox quick;
  EXPECT_TRUE(Subscribe(1, &slow).ok());
  EXPECT_TRUE(Subscribe(2, &quick).ok());
  Add(1, 200);
  EXPECT_EQ(slow.Numbers(), (std::vector<int>{1, 2}));
  for (slow.room = 4; slow.room < 300; slow.room += 2) channel_->Resume(1);
  EXPECT_EQ(slow.Numbers(), quick.Numbers());
  Add(201, 201);
  EXPECT_EQ(slow.Numbers().back(), 201);
}

TEST_F(EventChannelTest, FiltersByJobTypeAndSeverity) {
  Inbox of_b;
  Inbox of_type;
  EXPECT_TRUE(Subscribe(1, &of_b, {.filter = {.job = "b"}}).ok());
  EXPECT_TRUE(Subscribe(2, &of_type, {.filter = {.types = {"plan.*"}}}).ok());
  Add(1, 3, "a");
  Add(4, 5, "b");
  EXPECT_EQ(of_b.Numbers(), (std::vector<int>{4, 5}));
  EXPECT_TRUE(of_type.texts.empty());
}

// After every event, by each form of cursor, with and without a filter.
TEST_F(EventChannelTest, GoesOnBehindAnyEvent) {
  Inbox all;
  EXPECT_TRUE(Subscribe(1, &all, {.from_the_start = true}).ok());
  for (int i = 1; i <= 12; ++i) Add(i, i, i % 3 == 0 ? "b" : "a");
  for (size_t read = 1; read <= 12; ++read) {
    Inbox first{.texts = {all.texts.begin(), all.texts.begin() + static_cast<long>(read)}};
    const std::string id = first.LastId();
    for (const std::string& after : {id, id.substr(0, id.find('@'))}) {
      Inbox rest;
      const std::optional<EventCursor> cursor = ParseEventCursor(after);
      ASSERT_TRUE(cursor.has_value()) << after;
      EXPECT_TRUE(Subscribe(100 + read, &rest, {.after = cursor}).ok());
      std::vector<int> expected;
      for (int i = static_cast<int>(read) + 1; i <= 12; ++i) expected.push_back(i);
      EXPECT_EQ(rest.Numbers(), expected) << after;
      channel_->Unsubscribe(100 + read);
    }
  }
}

TEST_F(EventChannelTest, SaysHowManyWereMissed) {
  channel_ = Make("aa", 1 << 20);
  Inbox all;
  EXPECT_TRUE(Subscribe(1, &all, {.from_the_start = true}).ok());
  Add(1, 1);
  const std::optional<EventCursor> first = ParseEventCursor(all.LastId());
  Event large = Numbered(2);
  large.data = "{\"text\":\"" + std::string(10'000, 'x') + "\"}";
  constexpr int kLast = 400;
  for (int i = 2; i <= kLast; ++i) {
    large.unique = Numbered(i).unique;
    large.subject = "n" + std::to_string(i);
    EXPECT_TRUE(channel_->Add(large));
  }
  for (const std::string job : {"", "a"}) {
    Inbox late;
    EXPECT_TRUE(Subscribe(2, &late, {.filter = {.job = job}, .after = first}).ok());
    const std::vector<int> numbers = late.Numbers();
    ASSERT_GT(numbers.size(), 2u);
    EXPECT_LT(numbers[0], 0);
    EXPECT_EQ(-numbers[0], numbers[1] - 2) << "all between the first event and the next one told";
    EXPECT_EQ(numbers.back(), kLast);
    channel_->Unsubscribe(2);
  }
  Inbox unknown;
  EXPECT_EQ(
      Subscribe(3, &unknown, {.after = EventCursor{Event{.job = "a", .unique = 77}.id(), "", 0, 0}})
          .code(),
      Code::kInvalidArgument);
}

// What could not be written on a full disk leaves such gaps, while what the reader has had is kept.
TEST_F(EventChannelTest, TellsAReaderOfOneJobWhatWasLostOfItBehindAKeptEvent) {
  auto log = EventLog::InMemory({}, [] { return 1000; });
  const auto keep = [&](int number, const std::string& job) {
    Event event = Numbered(number, job);
    event.sequence = static_cast<uint64_t>(number);
    EXPECT_TRUE(log->Append(event).ok());
  };
  keep(1, "a");
  keep(1, "b");
  keep(302, "a");
  keep(303, "a");
  keep(50, "b");
  keep(310, "a");
  channel_ = std::make_unique<EventChannel>(std::move(log), "aa");
  const EventOrder of_a{.filter = {.job = "a"}, .after = EventCursor{"", "aa", 1, 1}};
  const Result<EventChannel::Page> page = channel_->Read(of_a, 100);
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->missed, 306u);
  // The page ends before the second gap, which the next one tells.
  EXPECT_EQ(channel_->Read(of_a, 1)->missed, 300u);
  EventOrder of_type = of_a;
  of_type.filter.types = {"plan.*"};
  EXPECT_EQ(channel_->Read(of_type, 100)->missed, 306u) << "what the lost ones were is not known";

  Inbox inbox;
  EXPECT_TRUE(Subscribe(1, &inbox, of_a).ok());
  EXPECT_EQ(inbox.Numbers(), (std::vector<int>{-300, 302, 303, -6, 310}));
  // Another job's events do not count for this reader.
  Add(51, 51, "b");
  Add(311, 311, "a");
  EXPECT_EQ(inbox.Numbers(), (std::vector<int>{-300, 302, 303, -6, 310, 311}));
}

TEST_F(EventChannelTest, TellsASlowReaderOnceWhatWasLost) {
  auto log = EventLog::InMemory({}, [] { return 1000; });
  for (const int number : {1, 2, 10, 11}) {
    Event event = Numbered(number);
    event.sequence = static_cast<uint64_t>(number);
    EXPECT_TRUE(log->Append(event).ok());
  }
  channel_ = std::make_unique<EventChannel>(std::move(log), "aa");
  Inbox slow{.texts = {}, .room = 0};
  EXPECT_TRUE(Subscribe(1, &slow, {.filter = {.job = "a"}, .from_the_start = true}).ok());
  for (slow.room = 1; slow.room < 10; ++slow.room) channel_->Resume(1);
  EXPECT_EQ(slow.Numbers(), (std::vector<int>{1, 2, -7, 10, 11}));
}

// The number in a cursor is one of its own event's job.
TEST_F(EventChannelTest, ACursorOfAnotherJobsEventGoesByItsPlace) {
  Add(1, 3, "a");
  Add(1, 1, "b");
  Add(4, 5, "a");
  Event of_b = Numbered(1, "b");
  Inbox inbox;
  EXPECT_TRUE(
      Subscribe(1, &inbox, {.filter = {.job = "a"}, .after = EventCursor{of_b.id(), "aa", 4, 1}})
          .ok());
  EXPECT_EQ(inbox.Numbers(), (std::vector<int>{4, 5}));
}

TEST_F(EventChannelTest, GoesOnForOneThatWasCutOffBeforeItsJobHadAnEvent) {
  Add(1, 2, "b");
  Inbox first;
  EXPECT_TRUE(Subscribe(1, &first, {.filter = {.job = "a"}}).ok());
  channel_->Unsubscribe(1);
  Add(1, 2, "a");
  Inbox second;
  EXPECT_TRUE(
      Subscribe(2, &second, {.filter = {.job = "a"}, .after = ParseEventCursor(first.begins_at)})
          .ok());
  EXPECT_EQ(second.Numbers(), (std::vector<int>{1, 2}));
}

TEST_F(EventChannelTest, ACursorOfAnotherDaemonGoesByTheEventsId) {
  Add(1, 3);
  Inbox rest;
  const EventCursor elsewhere{Numbered(2).id(), "bb", 99, 98};
  EXPECT_TRUE(Subscribe(1, &rest, {.after = elsewhere}).ok());
  EXPECT_EQ(rest.Numbers(), std::vector<int>{3});
}

TEST_F(EventChannelTest, FindsAJobByItsNameAndByTheBeginningOfItsId) {
  Add(1, 2, "beefa");
  Add(3, 3, "beefb");
  Add(4, 4, "cafe");
  Inbox inbox;
  const EventOrder by_beginning{.job = {.text = "beefa"}, .from_the_start = true};
  EXPECT_TRUE(Subscribe(1, &inbox, by_beginning).ok());
  Add(5, 5, "cafe");
  Add(6, 6, "beefa");
  EXPECT_EQ(inbox.Numbers(), (std::vector<int>{1, 2, 6}));
  // A job of this name comes before one whose id begins so.
  const EventOrder by_name{.job = {.text = "beefa", .id_of_name = "cafe"}, .from_the_start = true};
  const Result<EventChannel::Page> page = channel_->Read(by_name, 10);
  ASSERT_TRUE(page.ok()) << page.status().message();
  EXPECT_NE(page->events.find("/jobs/cafe"), std::string::npos);
  EXPECT_EQ(page->events.find("/jobs/beef"), std::string::npos);
}

TEST_F(EventChannelTest, RefusesWordsThatStandForNoJobOrForSeveral) {
  Add(1, 1, "beefa");
  Add(2, 2, "beefb");
  Inbox inbox;
  const Status several = Subscribe(1, &inbox, {.job = {.text = "beef"}});
  EXPECT_EQ(several.code(), Code::kInvalidArgument);
  EXPECT_EQ(several.message(), "the ids of several jobs begin with 'beef'; say more of it");
  const EventOrder none{.job = {.text = "\x1b%_*", .id_of_name = "unheard"}};
  EXPECT_EQ(Subscribe(2, &inbox, none).code(), Code::kInvalidArgument);
  EXPECT_EQ(channel_->Read(none, 10).status().message().find('\x1b'), std::string::npos);
  EXPECT_FALSE(channel_->has_subscribers());
}

TEST_F(EventChannelTest, PagesListEachEventOnce) {
  for (int i = 1; i <= 25; ++i) Add(i, i, i % 5 == 0 ? "b" : "a");
  EventOrder order{.filter = {.job = "b"}, .from_the_start = true};
  std::vector<std::string> pages;
  for (int i = 0; i < 10; ++i) {
    const Result<EventChannel::Page> page = channel_->Read(order, 2);
    ASSERT_TRUE(page.ok());
    pages.push_back(page->events);
    if (page->next.empty()) break;
    order.after = ParseEventCursor(page->next);
  }
  ASSERT_EQ(pages.size(), 4u);
  EXPECT_NE(pages[0].find("n5"), std::string::npos);
  EXPECT_NE(pages[2].find("n25"), std::string::npos);
  EXPECT_EQ(pages[3], "[]");
}

TEST(EventCursor, IsReadAsItIsWritten) {
  const std::string id = Event{.job = "a-b", .unique = 7}.id();
  for (const EventCursor& cursor :
       {EventCursor{id, "0f", 12, 3}, EventCursor{id, "0f", kMostSequence, 0}, EventCursor{id},
        EventCursor{"", "0f", 12, 3}}) {
    const std::optional<EventCursor> read = ParseEventCursor(cursor.text());
    ASSERT_TRUE(read.has_value()) << cursor.text();
    EXPECT_EQ(read->text(), cursor.text());
  }
  for (const std::string& text :
       {std::string(), std::string("@"), std::string("@-1-2"), std::string("a-b@0f-1-2"), id + "@",
        id + "@0f", id + "@0f-1", id + "@0f-1-", id + "@-1-2", id + "@0f-x-2", id + "@0f-1-2-3",
        id + "@0f-99999999999999999999-2"}) {
    EXPECT_FALSE(ParseEventCursor(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace harmonaize::daemon
