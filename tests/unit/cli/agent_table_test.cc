// What people read of agents.

#include "cli/agents/agent_table.h"

#include <gtest/gtest.h>

#include <string>

#include "src/base/json_text.h"
#include "tests/support/text_checks.h"

namespace harmonaize {
namespace {

constexpr char kJobOfAgents[] = "3f9a01c2d4e5f60718293a4b5c6d7e8f";

/// Returns an agent as the daemon tells a tenant of it.
Json Attached() {
  return ReadJson(R"({
    "id": "agent-fb90c6f1b201fd16", "job": "3f9a01c2d4e5f60718293a4b5c6d7e8f", "name": "llama",
    "standing": "attached", "problem": null, "places": 4, "ranks_here": 2, "ranks": 6,
    "began": "2026-12-01T02:00:00.000000Z", "lease_seconds": 15, "gone_in_seconds": 14.4,
    "has_ticket": true, "ties": 1, "offers": [], "leave": []})");
}

Json Elsewhere() {
  return ReadJson(R"({"job": "3f9a01c2d4e5f60718293a4b5c6d7e8f", "name": "llama", "places": 8,
                         "gone_in_seconds": 31.2})");
}

std::string TableOfAgent(const Json& agent) {
  return AgentTable(Json({{"agents", {agent}}, {"elsewhere", Json::array()}}));
}

TEST(AgentTable, ShowsWhoCanStartRanksWhere) {
  EXPECT_EQ(AgentTable(Json({{"agents", {Attached()}}, {"elsewhere", {Elsewhere()}}})),
            "agent                   job    host       standing  since                 free places"
            "  ranks here  of  ticket  ties  gone in\n"
            "agent-fb90c6f1b201fd16  llama  this host  attached  2026-12-01T02:00:00Z            4"
            "           2   6     yes     1     14 s\n"
            "-                       llama  another    -         -                               8"
            "           -   -       -     -     31 s\n");
}

TEST(AgentTable, NamesTenantsAndHostsWhereItIsToldThem) {
  Json own = Attached();
  own["tenant"] = "uid 1000";
  Json elsewhere = Elsewhere();
  elsewhere["tenant"] = "uid 1000";
  elsewhere["address"] = "10.0.0.2:7400";
  const std::string table = AgentTable(Json({{"agents", {own}}, {"elsewhere", {elsewhere}}}));
  ExpectHolds(table, "agent                   tenant    job    host           standing");
  ExpectHolds(table, "agent-fb90c6f1b201fd16  uid 1000  llama  this host ");
  ExpectHolds(table, "-                       uid 1000  llama  10.0.0.2:7400  -");
}

TEST(AgentTable, SaysWhatIsWrongAndWhatTheAgentActsOn) {
  EXPECT_EQ(LinesLike(TableOfAgent(Attached()), "    .*"), 0);
  Json waiting = Attached();
  waiting["standing"] = "waiting";
  ExpectHolds(TableOfAgent(waiting), "\n    the job has no ranks on this host yet, and no ticket");
  Json agent = waiting;
  agent["problem"] = "the ticket is burnt";
  agent["gone_in_seconds"] = 3;
  agent["leave"] = {12, 13};
  agent["offers"] = ReadJson(R"([{
    "id": "offer-3f9a01c28be4d705", "kind": "grow", "state": "accepted", "ranks": 2, "which": [],
    "deadline": "2026-12-01T02:00:00.000000Z", "due": "2026-12-01T02:10:00.000000Z"}])");
  const std::string table = TableOfAgent(agent);
  EXPECT_EQ(LinesLike(table, "    .*"), 4);
  ExpectHolds(table, "\n    the ticket is burnt\n");
  ExpectHolds(table, "\n    not heard of for 12 s: its launcher has ended, or is stopped\n");
  ExpectHolds(table, "\n    offer-3f9a01c28be4d705: grow of 2 ranks, accepted, ");
  ExpectHolds(table, "\n    is to stop now: 12, 13\n");
}

TEST(AgentTable, ShowsOneJobAlone) {
  Json other = Attached();
  other["job"] = std::string(32, '0');
  const Json all = {{"agents", {Attached(), other}}, {"elsewhere", {Elsewhere(), other}}};
  const Json some = AgentsOfJob(all, kJobOfAgents);
  EXPECT_EQ(some, Json({{"agents", {Attached()}}, {"elsewhere", {Elsewhere()}}}));
  EXPECT_EQ(AgentTable(AgentsOfJob(all, "none")), "no agents\n");
}

TEST(AgentTable, NamesThatATenantChoseCannotSteerTheTerminal) {
  Json agent = Attached();
  agent["name"] = "\x1b[2J\nnone";
  const std::string table = TableOfAgent(agent);
  EXPECT_EQ(table.find('\x1b'), std::string::npos);
  EXPECT_EQ(LinesLike(table, ".*"), 2);
}

TEST(AgentTable, TakesWhateverADaemonOfAnotherReleaseSays) {
  EXPECT_EQ(AgentTable(Json::object()), "no agents\n");
  const Json odd = ReadJson(R"({"agents": [7, {}, {"offers": [3], "leave": [{}], "ties": "x"}],
                                   "elsewhere": [null, {"address": 5, "gone_in_seconds": "x"}]})");
  EXPECT_EQ(LinesLike(AgentTable(odd), ".*this host.*"), 3);
  EXPECT_EQ(AgentsOfJob(odd, kJobOfAgents).at("agents").size(), 0U);
}

}  // namespace
}  // namespace harmonaize
