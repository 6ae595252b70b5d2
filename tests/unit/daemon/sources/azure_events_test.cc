#include "daemon/sources/azure_events.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace harmonaize::daemon {
namespace {

using Kind = CloudNotice::Kind;
using State = CloudNotice::State;

std::string Document(const std::string& events) {
  return R"({"DocumentIncarnation": 3, "Events": [)" + events + "]}";
}

std::string Event(const std::string& type, const std::string& others = "") {
  return fmt::format(R"({{"EventId": "E1", "EventType": "{}", "ResourceType": "VirtualMachine",
      "Resources": ["vm-2", "VM-1"], "EventStatus": "Scheduled",
      "NotBefore": "Mon, 19 Sep 2016 18:29:47 GMT", "Description": "Host update",
      "EventSource": "Platform", "DurationInSeconds": 9{}}})",
                     type, others);
}

PublishedNotices ReadForVm1(const std::string& document) {
  const Result<PublishedNotices> published = ReadAzureEvents(document, "vm-1");
  EXPECT_TRUE(published.ok()) << published.status().message();
  return published.ok() ? *published : PublishedNotices();
}

TEST(AzureEvents, AnEventIsTranslatedWhole) {
  const PublishedNotices published = ReadForVm1(Document(Event("Freeze")));
  EXPECT_EQ(published.doubt, "");
  ASSERT_EQ(published.notices.size(), 1u);
  EXPECT_FALSE(published.notices[0].id_recurs);
  const CloudNotice& notice = published.notices[0].notice;
  EXPECT_EQ(notice.source, "azure");
  EXPECT_EQ(notice.id, "E1");
  EXPECT_EQ(notice.kind, Kind::kMaintenance);
  EXPECT_EQ(notice.state, State::kScheduled);
  EXPECT_EQ(notice.not_before_seconds, 1474309787);
  EXPECT_EQ(notice.duration_seconds, 9);
  EXPECT_TRUE(notice.survives);
  EXPECT_EQ(notice.text, "Freeze by Platform: Host update");
}

TEST(AzureEvents, TypesBecomeKindsAndProcessesSurviveAFreezeAlone) {
  for (const auto& [type, kind] :
       {std::pair("Reboot", Kind::kMaintenance), std::pair("Redeploy", Kind::kMaintenance),
        std::pair("Preempt", Kind::kReclaim), std::pair("Terminate", Kind::kReclaim)}) {
    const PublishedNotices published = ReadForVm1(Document(Event(type)));
    ASSERT_EQ(published.notices.size(), 1u) << type;
    EXPECT_EQ(published.notices[0].notice.kind, kind) << type;
    EXPECT_FALSE(published.notices[0].notice.survives) << type;
  }
}

TEST(AzureEvents, AStartedEventHasAnEmptyTime) {
  const PublishedNotices published =
      ReadForVm1(Document(Event("Reboot", R"(, "EventStatus": "Started", "NotBefore": "",
                                         "DurationInSeconds": -1)")));
  EXPECT_EQ(published.doubt, "");
  ASSERT_EQ(published.notices.size(), 1u);
  EXPECT_EQ(published.notices[0].notice.state, State::kStarted);
  EXPECT_EQ(published.notices[0].notice.not_before_seconds, std::nullopt);
  EXPECT_EQ(published.notices[0].notice.duration_seconds, std::nullopt);
}

TEST(AzureEvents, EventsOfOtherMachinesAreLeftOut) {
  const Result<PublishedNotices> published = ReadAzureEvents(Document(Event("Reboot")), "vm-3");
  ASSERT_TRUE(published.ok());
  EXPECT_TRUE(published->notices.empty());
  EXPECT_EQ(published->doubt, "");
}

TEST(AzureEvents, AnUnknownEventLeavesADoubtAndTheOthersCount) {
  for (
      const char* strange :
      {R"({"EventType": "Explode", "EventId": "E2", "Resources": ["vm-1"], "EventStatus": "Scheduled"})",
       R"({"EventType": "Reboot", "EventId": "E2", "Resources": ["vm-1"], "EventStatus": "Maybe"})",
       R"({"EventType": "Reboot", "EventId": "E2", "Resources": ["vm-1"]})",
       R"({"EventType": "Reboot", "EventId": 7, "Resources": ["vm-1"], "EventStatus": "Started"})",
       R"({"EventType": ["Reboot"], "EventId": "E2", "Resources": ["vm-1"], "EventStatus": "Started"})",
       R"({"EventType": "Reboot", "EventId": "E2", "Resources": "vm-1", "EventStatus": "Started"})",
       R"({"EventType": "Reboot", "EventId": "E2", "EventStatus": "Started"})", R"({})", R"(null)",
       R"("Reboot")", R"(17)", R"([[]])"}) {
    const PublishedNotices published = ReadForVm1(Document(Event("Freeze") + "," + strange));
    EXPECT_EQ(published.notices.size(), 1u) << strange;
    EXPECT_NE(published.doubt, "") << strange;
  }
}

TEST(AzureEvents, ATimeOrDurationThatCannotBeIsLeftOutAndTheEventCounts) {
  for (const char* time : {"Mon, 30 Feb 2026 18:29:47 GMT", "tomorrow", "2016-09-19T18:29:47Z"}) {
    const PublishedNotices published =
        ReadForVm1(Document(Event("Preempt", fmt::format(R"(, "NotBefore": "{}")", time))));
    ASSERT_EQ(published.notices.size(), 1u) << time;
    EXPECT_EQ(published.notices[0].notice.not_before_seconds, std::nullopt) << time;
    EXPECT_NE(published.doubt, "") << time;
  }
  for (const char* seconds : {"-7", "99999999999", "1e300", "\"9\"", "9.5", "{}"}) {
    const PublishedNotices published = ReadForVm1(
        Document(Event("Preempt", fmt::format(R"(, "DurationInSeconds": {})", seconds))));
    ASSERT_EQ(published.notices.size(), 1u) << seconds;
    EXPECT_EQ(published.notices[0].notice.duration_seconds, std::nullopt) << seconds;
    EXPECT_NE(published.doubt, "") << seconds;
  }
}

TEST(AzureEvents, WhatIsNoSuchDocumentIsAnError) {
  for (const std::string& document :
       {std::string(""), std::string("null"), std::string("[]"), std::string("{}"),
        std::string(R"({"Events": []})"), std::string(R"({"DocumentIncarnation": 1})"),
        std::string(R"({"DocumentIncarnation": "1", "Events": []})"),
        std::string(R"({"DocumentIncarnation": 1, "Events": {}})"),
        std::string(R"({"DocumentIncarnation": 1, "Events": []} {})"),
        std::string("{\"DocumentIncarnation\": 1, \"Events\": [\"\xff\"]}"),
        std::string(60'000, '['), std::string(60'000, '{')}) {
    const Result<PublishedNotices> published = ReadAzureEvents(document, "vm-1");
    EXPECT_FALSE(published.ok()) << document.substr(0, 80);
    EXPECT_EQ(published.status().code(), Code::kRemoteError);
  }
}

TEST(AzureEvents, AnApprovalNamesTheEvent) {
  EXPECT_EQ(AzureApproval("E1"), R"({"StartRequests":[{"EventId":"E1"}]})");
}

}  // namespace
}  // namespace harmonaize::daemon
