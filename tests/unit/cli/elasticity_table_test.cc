// What operators read of how sizes of elastic jobs follow the load.

#include "cli/elasticity/elasticity_table.h"

#include <gtest/gtest.h>

#include <string>

#include "cli/json_view.h"
#include "src/base/json_text.h"
#include "tests/support/text_checks.h"

namespace harmonaize {
namespace {

Json ADocument() {
  return ReadJson(R"({
    "enabled": true, "decides": true, "controller": "",
    "hosts": [{"host": "rack0-1", "places": 8, "free": 2, "coming": 1, "link_load": 0.25}],
    "jobs": [{"name": "llama", "tenant": "uid 1001", "goal": "fastest", "ranks": 4, "least_ranks": 2,
              "most_ranks": 8, "step": 2, "step_seconds": 0.25, "left_alone_because": null,
              "hosts": [{"host": "rack0-1", "ranks": 4, "room": 2}]}],
    "tenants": [{"tenant": "uid 1001", "ranks": 4, "share": 6}],
    "waiting": [{"name": "bert", "ranks": 8, "priority": 1}],
    "decisions": [{"time": "2026-12-01T02:00:00.000000Z", "name": "llama", "tenant": "uid 1001",
                   "host": "rack0-1", "kind": "grow", "ranks": 2,
                   "why": "a step is expected to take 0.2 s instead of 0.25 s"}]})");
}

std::string ShownOf(const Json& document) {
  const Result<std::string> table = ElasticityTable(JsonText(document));
  return table.ok() ? *table : table.status().message();
}

TEST(ElasticityTable, ShowsPlacesJobsAndDecisions) {
  EXPECT_EQ(ShownOf(ADocument()),
            "sizes follow the load: this daemon decides\n"
            "\nplaces\n"
            "host     places  free  coming  links busy with others\n"
            "rack0-1       8     2       1                     25%\n"
            "\nelastic jobs\n"
            "job    tenant    goal     ranks  least  most  step  step time  ranks + more\n"
            "llama  uid 1001  fastest      4      2     8     2     250 ms   rack0-1 4+2\n"
            "\nshares\n"
            "tenant    ranks  share\n"
            "uid 1001      4      6\n"
            "\njobs that wait\n"
            "job   ranks  priority\n"
            "bert      8         1\n"
            "\nlast decisions\n"
            "time                  job    tenant    host     kind  ranks\n"
            "2026-12-01T02:00:00Z  llama  uid 1001  rack0-1  grow      2\n"
            "    a step is expected to take 0.2 s instead of 0.25 s\n");
}

TEST(ElasticityTable, SaysWhyAJobIsLeftAlone) {
  Json document = ADocument();
  document["jobs"][0]["left_alone_because"] = "an offer is under way";
  document["jobs"][0]["step_seconds"] = nullptr;
  ExpectHolds(ShownOf(document), "\n    left alone: an offer is under way\n");
  ExpectHolds(ShownOf(document), "\n    it tells of no progress, so it is not offered ranks\n");
}

TEST(ElasticityTable, SaysWhereToAsk) {
  Json document = {{"enabled", true}, {"decides", false}, {"controller", "10.0.0.1:7400"}};
  EXPECT_EQ(ShownOf(document),
            "sizes follow the load: the controller at 10.0.0.1:7400 decides, ask there\n");
  document["enabled"] = false;
  ExpectHolds(ShownOf(document), "'elastic.enabled' is not set");
}

TEST(ElasticityTable, LetsNoTextSteerTheTerminal) {
  Json document = ADocument();
  document["jobs"][0]["name"] = document["decisions"][0]["why"] = "\033]0;owned\007";
  document["jobs"][0]["hosts"][0]["host"] = document["tenants"][0]["tenant"] = "\033[2J";
  const std::string text = ShownOf(document);
  EXPECT_EQ(text.find_first_of("\033\007"), std::string::npos) << text;
}

TEST(ElasticityTable, StandsStrangeDocuments) {
  EXPECT_FALSE(ElasticityTable("[]").ok());
  EXPECT_TRUE(ElasticityTable(R"({"jobs": [7, {}], "hosts": 3, "decisions": [{"why": {}}]})").ok());
}

}  // namespace
}  // namespace harmonaize
