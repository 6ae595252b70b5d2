#include "cli/status/link_table.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/text_checks.h"

namespace harmonaize {
namespace {

constexpr char kLinksBefore[] = R"({"cluster": {"links": [{"peer": "10.0.0.2:7400", "rails": [
  {"name": "eth0 10.0.0.1 - 10.0.0.2", "connections": 1, "sent_bytes": 1000, "received_bytes": 0,
   "sent_packets": 10, "resent_packets": 0, "busy_seconds": 1.0,
   "round_trip_seconds": 0.001, "least_round_trip_seconds": 0.0002}]}]}})";
constexpr char kLinksAfter[] = R"({"cluster": {"links": [{"peer": "10.0.0.2:7400", "rails": [
  {"name": "eth0 10.0.0.1 - 10.0.0.2", "connections": 1, "sent_bytes": 2001000,
   "received_bytes": 4000000, "sent_packets": 210, "resent_packets": 10, "busy_seconds": 2.5,
   "round_trip_seconds": 0.003, "least_round_trip_seconds": 0.0002},
  {"name": "eth1", "sent_bytes": 500, "astray": true}]}]}})";

TEST(LinkTable, ShowsWhatWentOverEachRailMeanwhile) {
  const Result<std::string> table = LinkTable(kLinksBefore, kLinksAfter, 2);
  ExpectHolds(table, "10.0.0.2:7400  eth0 10.0.0.1 - 10.0.0.2");
  ExpectHolds(table, "1 MB/s");  // 2 000 000 bytes in 2 s
  ExpectHolds(table, "2 MB/s");  // received
  ExpectHolds(table, "75%");     // 1.5 s of 2
  ExpectHolds(table, "3 ms");    // a round trip
  ExpectHolds(table, "2.8 ms");  // of it in queues
  ExpectHolds(table, "5%");      // 10 packets of 200
  ExpectHolds(table, "1.91 MiB");
}

TEST(LinkTable, ShowsWhatItKnowsOfARail) {
  ExpectHolds(LinkTable(R"({"cluster": {"links": []}})", kLinksAfter, 1), "eth1, now another way");
  ExpectHolds(LinkTable(kLinksAfter, R"({"cluster": {"links": []}})", 1), "no links");
  ExpectHolds(LinkTable("{}", R"({"cluster": {"links": [{"rails": [{"name": 3}, 4, {}]}, 5]}})", 1),
              "-");
}

TEST(LinkTable, ShowsWhatTheHomeKnowsOfTheFabric) {
  const char* const known = R"({"cluster": {"links": [], "fabric_links": [
    {"link": "leaf0-spine0", "from": "leaf0", "to": "spine0", "stated_bytes_per_second": 62.5e6,
     "planned_bytes_per_second": 12.5e6, "measured_bytes_per_second": 12.1e6, "full": true,
     "confidence": 0.75, "age_seconds": 3.2}, {"from": "leaf1"}, 7]}})";
  const Result<std::string> table = LinkTable("{}", known, 1);
  ExpectHolds(table, "plans count on");
  ExpectHolds(table, "leaf0 to spine0");
  ExpectHolds(table, "62.5 MB/s");
  ExpectHolds(table, "12.5 MB/s");
  ExpectHolds(table, "12.1 MB/s");
  ExpectHolds(table, "yes");
  ExpectHolds(table, "75%");
  ExpectHolds(table, "3 s ago");
}

TEST(LinkTable, ShowsWhatNicsHaveCounted) {
  const char* const before = R"({"cluster": {"links": [], "nics": [
    {"device": "eth0", "sent_bytes": 1000000, "received_bytes": 5, "receive_drops": 1, "errors": 0,
     "queue": {"kind": "mq", "queued_bytes": 0, "drops": 2}}], "rdma_ports": [
    {"device": "mlx5_0", "port": 1, "sent_bytes": 0, "marked_packets": 4}]}})";
  const char* const after = R"({"cluster": {"links": [], "nics": [
    {"device": "eth0", "sent_bytes": 7000000, "received_bytes": 5, "receive_drops": 8, "errors": 0,
     "queue": {"kind": "mq", "queued_bytes": 3072, "drops": 2}}, {"device": "eth1", "queue": null}, 7],
    "rdma_ports": [{"device": "mlx5_0", "port": 1, "sent_bytes": 8000000, "marked_packets": 15,
                    "handled_congestion_notifications": null}]}})";
  const Result<std::string> table = LinkTable(before, after, 2);
  ExpectHolds(table, "eth0");
  ExpectHolds(table, "3 MB/s");  // 6 000 000 bytes in 2 s
  ExpectHolds(table, "3 KiB");   // in its queue
  ExpectHolds(table, "7 ");      // dropped
  ExpectHolds(table, "eth1");
  ExpectHolds(table, "mlx5_0:1");
  ExpectHolds(table, "4 MB/s");
  ExpectHolds(table, "11");  // marked
}

TEST(LinkTable, ShowsWhatTheControllerKnowsOfJobs) {
  const char* const known = R"({"tenants": [{"communicators": [
      {"handle": "84b28375", "job": "e1bd0cb1e1bd0cb1e1bd0cb1e1bd0cb1", "job_name": "alice"}]}],
    "cluster": {"links": [], "controller": {"address": "10.0.0.1:7400",
    "here": true, "follows": true, "limited_rails": 1, "hosts": 4, "jobs": [
      {"uid": 1001, "communicator": "982cd2ed1c9e5198", "bytes_per_second": 2e6, "rails": 2, "held_back_rails": 0,
       "waited_bursts": 3},
      {"uid": 1002, "communicator": "e4ee8de25a72e39f", "bytes_per_second": 9e6, "rails": 6, "held_back_rails": 5,
       "waited_bursts": 412, "priority": 2, "bandwidth_floor": 4e7, "floor": "refused",
       "bandwidth_cap": 6e7},
      7]}}})";
  const Result<std::string> table = LinkTable("{}", known, 1);
  ExpectHolds(table, "this daemon is the cluster's controller; 4 hosts");
  ExpectHolds(table, "uid 1002");
  ExpectHolds(table, "9 MB/s");
  ExpectHolds(table, "412");
  ExpectHolds(table, "40 MB/s (refused)");
  ExpectHolds(table, "60 MB/s");
  // Communicators have the ids of `harmonaize jobs`, and jobs with ranks on this host are named.
  ExpectHolds(table, "84b28375      alice  uid 1001");
  ExpectHolds(table, "be9c6e7d      -      uid 1002");
  EXPECT_LT(table->find("be9c6e7d"), table->find("84b28375"));  // the busiest first
}

TEST(LinkTable, ShowsWhetherTheControllerIsHeeded) {
  const char* const known = R"({"cluster": {"links": [], "controller": {"address": "10.0.0.1:7400",
    "here": false, "follows": false, "limited_rails": 0}}})";
  ExpectHolds(LinkTable("{}", known, 1), "the controller at 10.0.0.1:7400 has said nothing lately");
}

TEST(LinkTable, SaysWhyThereIsNone) {
  EXPECT_EQ(LinkTable("{}", R"({"daemon": {}})", 1).status().code(), Code::kUnavailable);
  EXPECT_FALSE(LinkTable("[", kLinksAfter, 1).ok());
  EXPECT_FALSE(LinkTable(kLinksBefore, "[", 1).ok());
}

}  // namespace
}  // namespace harmonaize
