// What people see of a communicator's plans and how they have changed.

#include "cli/status/communicator_table.h"

#include <gtest/gtest.h>

#include <string>

#include "cli/json_view.h"
#include "src/base/json_text.h"
#include "tests/support/text_checks.h"

namespace harmonaize {
namespace {

constexpr char kCommunicator[] = R"({
  "communicator": 3, "name": "world", "ranks": 4, "home": true, "policy": "adaptive",
  "fabric": "two-racks",
  "hosts": [{"host": "host0", "ranks": [0, 1], "here": true}, {"host": "host2", "ranks": [2, 3]}],
  "plans": [{"collective": "AllReduce", "root": -1, "bytes": 4194304, "algorithm": "ring",
             "order": "given", "hosts": ["host0", "host2"], "pieces": 1, "paths": "weighted",
             "predicted_seconds": 0.05, "bound_seconds": 0.04,
             "measured": {"operations": 7, "bytes": 4194304, "seconds": 0.06}}],
  "congestion": {"level": "mild", "slowdown": 1.29, "changes": []},
  "history": [
    {"unix_seconds": 1795309392.2, "reason": "leaf0 to spine0 carries 100 of 500 Mbit/s",
     "outcome": "committed", "from": 41, "took_seconds": 0.012,
     "before": [{"collective": "AllReduce", "bytes": 4194304, "algorithm": "ring",
                 "order": "given", "predicted_seconds": 0.05}],
     "after": [{"collective": "AllReduce", "bytes": 4194304, "algorithm": "hierarchical",
                "predicted_seconds": 0.055}]},
    {"unix_seconds": 1795309400, "reason": "all links carry what the fabric states",
     "outcome": "called off", "called_off": "a rank has left", "before": [], "after": []}]})";

TEST(CommunicatorTable, ShowsHostsAndPlans) {
  const Result<std::string> table = CommunicatorTable(kCommunicator);
  ExpectHolds(table, "world");
  ExpectHolds(table, "host2");
  ExpectHolds(table, "AllReduce");
  ExpectHolds(table, "ring");
}

TEST(CommunicatorTable, ShowsWhatTheJobWasGrantedOfLinks) {
  Json document = ReadJson(kCommunicator);
  EXPECT_EQ(CommunicatorTable(JsonText(document))->find("On links"), std::string::npos);
  document["sharing"] = {{"priority", 2},
                         {"bandwidth_floor", 4e7},
                         {"bandwidth_cap", 6e7},
                         {"floor", "refused"},
                         {"why", "it is promised to others"}};
  const Result<std::string> table = CommunicatorTable(JsonText(document));
  ExpectHolds(
      table, "On links it has priority 2, a floor of 40 MB/s, which is refused, a cap of 60 MB/s.");
  ExpectHolds(table, "it is promised to others");
}

TEST(PlanHistoryTable, ShowsEachChangeWithItsReason) {
  const Result<std::string> table = PlanHistoryTable(kCommunicator);
  ExpectHolds(table, "Congestion: mild (1.29 times as long");
  ExpectHolds(table, "leaf0 to spine0 carries 100 of 500 Mbit/s");
  ExpectHolds(table, "committed from #41");
  ExpectHolds(table, "hierarchical");
  ExpectHolds(table, "called off: a rank has left");
}

TEST(CommunicatorTable, ShowsTenantsPlansWithoutTheirWay) {
  Json document = ReadJson(kCommunicator);
  document.erase("home");
  for (const char* const way : {"order", "hosts", "paths"}) document["plans"][0].erase(way);
  const Result<std::string> table = CommunicatorTable(JsonText(document));
  ExpectHolds(table, "ring  ");
  EXPECT_EQ(table->find("paths"), std::string::npos) << *table;
  EXPECT_EQ(table->find("another host"), std::string::npos) << "it has a history";
}

TEST(PlanHistoryTable, SaysWhoKnowsIt) {
  ExpectHolds(PlanHistoryTable(R"({"hosts": [{}], "home": false})"), "another host");
  ExpectHolds(PlanHistoryTable(R"({"hosts": [{}], "home": true})"), "have not changed");
  // Tenants are not told which daemon is the home, but the home alone has a history.
  ExpectHolds(PlanHistoryTable(R"({"hosts": [{}], "history": []})"), "have not changed");
  ExpectHolds(PlanHistoryTable(R"({"hosts": [{}]})"), "another host");
  EXPECT_TRUE(PlanHistoryTable("{}").ok());
  EXPECT_TRUE(PlanHistoryTable(R"({"hosts": [4], "home": true, "history": [3, {}]})").ok());
  EXPECT_FALSE(PlanHistoryTable("[").ok());
  EXPECT_FALSE(CommunicatorTable("[").ok());
}

}  // namespace
}  // namespace harmonaize
