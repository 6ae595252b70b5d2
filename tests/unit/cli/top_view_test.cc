// What a daemon did between two looks, for a screen.

#include "cli/top/top_view.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/text_checks.h"

namespace harmonaize {
namespace {

constexpr char kTopBefore[] = R"({
  "daemon": {"version": "0.1.0", "uptime_seconds": 60, "workers": 2,
             "worker_counters": [{"busy_seconds": 1.0}, {"busy_seconds": 2.0}]},
  "cluster": {"linked_daemons": 3, "links": [{"peer": "10.0.0.2:7400", "rails": [
    {"name": "eth0", "sent_bytes": 1000, "received_bytes": 0, "busy_seconds": 1.0}]}]},
  "tenants": [
    {"uid": 1, "name": "quiet", "sessions": 1, "operations": 5, "bytes": 500,
     "communicators": []},
    {"uid": 2, "name": "busy", "sessions": 4, "operations": 100, "bytes": 0,
     "communicators": [
       {"id": 7, "ranks": 4, "hosts": 2, "state": "ready", "operations": 100, "bytes": 0,
        "inline_operations": 0, "inline_bytes": 0, "waiting": [], "plan_changes": 0}]}]})";
constexpr char kTopAfter[] = R"({
  "daemon": {"version": "0.1.0", "uptime_seconds": 62, "workers": 2,
             "worker_counters": [{"busy_seconds": 2.0}, {"busy_seconds": 2.0}]},
  "cluster": {"linked_daemons": 3, "links": [{"peer": "10.0.0.2:7400", "rails": [
    {"name": "eth0", "sent_bytes": 2001000, "received_bytes": 8000000, "busy_seconds": 2.5},
    {"name": "eth1", "sent_bytes": 0, "received_bytes": 0}]}],
    "fabric_links": [
      {"from": "leaf0", "to": "spine0", "stated_bytes_per_second": 62.5e6,
       "planned_bytes_per_second": 12.5e6},
      {"from": "leaf1", "to": "spine0", "stated_bytes_per_second": 62.5e6,
       "planned_bytes_per_second": 62.5e6}]},
  "tenants": [
    {"uid": 1, "name": "quiet", "sessions": 1, "operations": 5, "bytes": 500,
     "communicators": []},
    {"uid": 2, "name": "busy", "sessions": 4, "operations": 300, "bytes": 4000000,
     "communicators": [
       {"id": 7, "handle": "0c48bbc4", "job": "3f9a01c2d4e5f60718293a4b5c6d7e8f", "job_name": "llama",
        "ranks": 4, "hosts": 2, "state": "ready", "operations": 300, "bytes": 4000000,
        "inline_operations": 0, "inline_bytes": 0, "waiting": [{}], "plan_changes": 3,
        "congestion": "mild",
        "plans": [{"collective": "AllGather", "bytes": 256, "algorithm": "star", "operations": 1},
                  {"collective": "AllReduce", "bytes": 4194304, "algorithm": "ring",
                   "order": "given", "operations": 299}]},
       {"id": 8, "ranks": 2, "state": "broken", "operations": 1}]}]})";

TEST(TopView, ShowsRatesOfTheBusiestFirst) {
  const Result<std::string> view = TopView(kTopBefore, kTopAfter, 2, 10);
  ASSERT_TRUE(view.ok()) << view.status().message();
  ExpectHolds(*view, "2 workers, 25% busy; linked with 3 daemons");
  ExpectHolds(*view, "2 MB/s");  // of the tenant, and of its communicator
  ExpectHolds(*view, "100");     // operations a second
  EXPECT_LT(view->find("busy  "), view->find("quiet"));
  ExpectHolds(*view, "AllReduce 4 MiB ring, given");
  ExpectHolds(*view, "0c48bbc4      llama");
  ExpectHolds(*view, "mild");
  ExpectHolds(*view, "broken");
  ExpectHolds(*view, "4 MB/s");                      // received by the rail
  ExpectHolds(*view, "75%");                         // busy
  EXPECT_EQ(view->find("eth1"), std::string::npos);  // idle
  ExpectHolds(*view, "leaf0 to spine0");
  EXPECT_EQ(view->find("leaf1"), std::string::npos);  // well
}

TEST(TopView, SaysWhatItLeavesOut) {
  const Result<std::string> view = TopView(kTopBefore, kTopAfter, 2, 1);
  ASSERT_TRUE(view.ok());
  ExpectHolds(*view, "and 1 more");
  EXPECT_EQ(view->find("quiet"), std::string::npos);
}

TEST(TopView, ShowsWhatItCanOfAnyDocument) {
  EXPECT_TRUE(TopView("{}", "{}", 1, 5).ok());
  EXPECT_TRUE(TopView(kTopAfter, kTopBefore, 1, 5).ok());
  EXPECT_TRUE(TopView("{}", kTopAfter, 1, 5).ok());
  EXPECT_TRUE(TopView(R"({"tenants": 7, "cluster": [1], "daemon": {"worker_counters": [3]}})",
                      R"({"tenants": [4, {"communicators": [5, {}]}], "cluster": {"links": [6,
                        {"rails": [7, {}]}], "fabric_links": [8, {}]}})",
                      1, 5)
                  .ok());
  EXPECT_FALSE(TopView("[", kTopAfter, 1, 5).ok());
  EXPECT_FALSE(TopView(kTopBefore, "[", 1, 5).ok());
}

}  // namespace
}  // namespace harmonaize
