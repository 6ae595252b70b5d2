#include "daemon/nats/event_outbox.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace harmonaize::daemon {
namespace {

EventOutbox::Entry EntryOf(uint32_t tenant, uint64_t unique, size_t bytes = 0) {
  return {.tenant = tenant,
          .subject = "s",
          .id = std::to_string(unique),
          .content = std::string(bytes, ' ')};
}

/// Takes all that waits, as "TENANT:NUMBER" in the order in which it comes.
std::vector<std::string> TakeAll(EventOutbox& outbox) {
  std::vector<std::string> taken;
  while (const std::optional<EventOutbox::Entry> entry = outbox.Take()) {
    taken.push_back(std::to_string(entry->tenant) + ":" + entry->id);
  }
  return taken;
}

using Taken = std::vector<std::string>;

TEST(EventOutbox, TenantsTakeTurnsAndKeepTheirOrder) {
  EventOutbox outbox({});
  for (uint64_t i = 1; i <= 3; ++i) outbox.Add(EntryOf(7, i));
  outbox.Add(EntryOf(8, 1));
  outbox.Add(EntryOf(9, 1));
  outbox.Add(EntryOf(8, 2));
  EXPECT_EQ(outbox.size(), 6u);
  EXPECT_EQ(TakeAll(outbox), (Taken{"7:1", "8:1", "9:1", "7:2", "8:2", "7:3"}));
  EXPECT_TRUE(outbox.empty());
  EXPECT_EQ(outbox.bytes(), 0u);
  EXPECT_EQ(outbox.given_up(), 0u);
}

TEST(EventOutbox, WhatIsPutBackIsTheTenantsNext) {
  EventOutbox outbox({});
  for (uint64_t i = 1; i <= 2; ++i) outbox.Add(EntryOf(7, i));
  outbox.Add(EntryOf(8, 1));
  outbox.PutBack(*outbox.Take());
  EXPECT_EQ(TakeAll(outbox), (Taken{"8:1", "7:1", "7:2"}));
  outbox.Add(EntryOf(7, 3));
  outbox.PutBack(*outbox.Take());
  EXPECT_EQ(TakeAll(outbox), (Taken{"7:3"}));
}

TEST(EventOutbox, GivesUpTheOldestOfATenantThatHasTooMany) {
  EventOutbox outbox({.events_of_tenant = 3});
  outbox.Add(EntryOf(8, 1));
  for (uint64_t i = 1; i <= 10; ++i) outbox.Add(EntryOf(7, i));
  EXPECT_EQ(outbox.given_up(), 7u);
  EXPECT_EQ(TakeAll(outbox), (Taken{"8:1", "7:8", "7:9", "7:10"}));
}

TEST(EventOutbox, GivesUpTheOldestOfATenantWhoseEventsTakeTooMuch) {
  EventOutbox outbox({.bytes_of_tenant = 10'000});
  for (uint64_t i = 1; i <= 10; ++i) outbox.Add(EntryOf(7, i, 4000));
  EXPECT_EQ(TakeAll(outbox), (Taken{"7:9", "7:10"}));
  EXPECT_EQ(outbox.given_up(), 8u);
}

TEST(EventOutbox, WhoHasTheMostGivesUpWhereAllTogetherHaveTooMuch) {
  EventOutbox outbox({.events = 10});
  for (uint64_t i = 1; i <= 8; ++i) outbox.Add(EntryOf(7, i));
  for (uint32_t tenant = 10; tenant < 15; ++tenant) outbox.Add(EntryOf(tenant, 1));
  EXPECT_EQ(outbox.size(), 10u);
  EXPECT_EQ(outbox.given_up(), 3u);
  EXPECT_EQ(TakeAll(outbox),
            (Taken{"7:4", "10:1", "11:1", "12:1", "13:1", "14:1", "7:5", "7:6", "7:7", "7:8"}));
}

TEST(EventOutbox, WhatIsPutBackIsTheOldest) {
  EventOutbox outbox({.events_of_tenant = 2});
  outbox.Add(EntryOf(7, 1));
  EventOutbox::Entry first = *outbox.Take();
  outbox.Add(EntryOf(7, 2));
  outbox.Add(EntryOf(7, 3));
  outbox.PutBack(std::move(first));
  EXPECT_EQ(outbox.given_up(), 1u);
  EXPECT_EQ(TakeAll(outbox), (Taken{"7:2", "7:3"}));
}

TEST(EventOutbox, ATenantKeepsItsNewestHoweverLarge) {
  EventOutbox outbox({.bytes_of_tenant = 100});
  outbox.Add(EntryOf(7, 1, 4000));
  outbox.Add(EntryOf(7, 2, 4000));
  EXPECT_EQ(TakeAll(outbox), (Taken{"7:2"}));
}

}  // namespace
}  // namespace harmonaize::daemon
