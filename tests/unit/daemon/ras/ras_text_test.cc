// What reports become in the forms of NCCL's RAS.

#include "daemon/ras/ras_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "daemon/ras/ras_command.h"
#include "daemon/ras/ras_event.h"
#include "src/base/json_text.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

const RasAnswerFacts kFacts{.seconds = 0.25, .time = "2026-11-28 21:00:00", .version = "1.2.3"};

json Rank(int rank, int pid, int all_reduces) {
  return {{"rank", rank},     {"pid", pid},
          {"device", 0},      {"counts", {{"AllReduce", all_reduces}, {"Send", rank}}},
          {"aborted", false}, {"leaving", false}};
}

json Communicator(json ranks, int size) {
  return {{"hash", "fdccd30b"},
          {"job", "0123456789abcdef00112233445566ff"},
          {"name", "tp"},
          {"size", size},
          {"hosts", 1},
          {"ranks_per_host", {size, size}},
          {"state", "running"},
          {"result", 0},
          {"failure", ""},
          {"ranks", std::move(ranks)},
          {"elsewhere", json::array()},
          {"gone", json::array()},
          {"missing", json::array()},
          {"waiting", json::array()},
          {"stuck", ""}};
}

json Report(json communicators) {
  return {{"processes", {{{"pid", 71}, {"ranks", 1}}, {{"pid", 72}, {"ranks", 1}}}},
          {"communicators", std::move(communicators)},
          {"not_listed", 0}};
}

TEST(RasText, IsThatOfNcclForAJobThatGoesWell) {
  const json report =
      Report(json::array({Communicator(json::array({Rank(0, 71, 9), Rank(1, 72, 9)}), 2)}));
  EXPECT_EQ(RasStatusText(report, kFacts),
            "NCCL version Harmonaize 1.2.3\n"
            "CUDA runtime version 0, driver version 0\n"
            "\n"
            "Job summary\n"
            "===========\n"
            "\n"
            "  Nodes  Processes         GPUs  Processes     GPUs\n"
            "(total)   per node  per process    (total)  (total)\n"
            "      1          2            1          2        2\n"
            "\n"
            "Communicators... (0.250s)\n"
            "=============\n"
            "\n"
            "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
            "    #  in group  per comm  per node  per comm  in group\n"
            "    0         1         1         2         2         2   RUNNING      OK\n"
            "\n"
            "Errors\n"
            "======\n"
            "\n"
            "Warnings\n"
            "========\n"
            "\n");
}

TEST(RasText, NamesTheRankThatIsBehind) {
  json late = Communicator(json::array({Rank(0, 71, 9), Rank(1, 72, 0)}), 2);
  late["waiting"] = {
      {{"operation", "AllReduce #0"}, {"for_seconds", 12.34}, {"missing_ranks", {1}}}};
  const std::string text = RasStatusText(Report(json::array({late})), kFacts);
  EXPECT_NE(text.find("   RUNNING  MISMATCH\n"), std::string::npos) << text;
  EXPECT_NE(text.find("#0-0 (00000000fdccd30b) MISMATCH\n"
                      "  Communicator ranks have different AllReduce operation counts\n"
                      "  Rank 0 has launched up to operation 9 -- GPU 0 managed by process 71 on "
                      "node localhost\n"
                      "  Rank 1 has not launched any operations -- GPU 0 managed by process 72 on "
                      "node localhost\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("#0-0 (00000000fdccd30b) WAITING\n"
                      "  AllReduce #0 waits since 12.3 s for rank 1\n"),
            std::string::npos)
      << text;
}

TEST(RasText, TellsLostRanksFromThoseThatLeftAndThoseThatHaveNotCome) {
  json broken = Communicator(json::array({Rank(0, 71, 9)}), 2);
  broken["gone"] = {1};
  broken["result"] = 6;
  broken["failure"] = "rank 1 died";
  json leaving = Communicator(json::array({Rank(0, 71, 9)}), 2);
  leaving["gone"] = {1};
  json forming = Communicator(json::array({Rank(0, 71, 0)}), 4);
  forming["state"] = "init";
  forming["missing"] = {1, 2, 3};
  const json report = Report(json::array({leaving, broken, forming}));
  const std::string text = RasStatusText(report, kFacts);
  EXPECT_NE(text.find("    0         1         1         4         4         1      INIT  "
                      "INCOMPLETE\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("   RUNNING  INCOMPLETE,ERROR\n"), std::string::npos) << text;
  EXPECT_NE(text.find("   RUNNING  MISMATCH\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  Missing communicator data from 3 ranks\n  The missing ranks: 1, 2, 3\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  Rank 0 reported Remote process error -- GPU 0 managed by process 71 on "
                      "node localhost\n  rank 1 died\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  Rank 1 has status NOCOMM\n"), std::string::npos) << text;
}

TEST(RasText, GroupsCommunicatorsThatAreAlike) {
  json communicators = json::array();
  for (int i = 0; i < 3; ++i) {
    communicators.push_back(Communicator(json::array({Rank(0, 71, i), Rank(1, 72, i)}), 2));
  }
  const std::string text = RasStatusText(Report(communicators), kFacts);
  EXPECT_NE(
      text.find("    0         3         1         2         2         2   RUNNING      OK\n"),
      std::string::npos)
      << text;
}

TEST(RasText, SaysWhatOtherHostsKnow) {
  json spans = Communicator(json::array({Rank(0, 71, 9)}), 2);
  spans["hosts"] = 2;
  spans["elsewhere"] = {{{"rank", 1}, {"host", 1}}};
  const std::string text = RasStatusText(Report(json::array({spans})), kFacts);
  EXPECT_NE(text.find("OTHER NODES\n  1 rank of these communicators is on other nodes"),
            std::string::npos)
      << text;
  const json answer = ReadJson(RasStatusJson(Report(json::array({spans})), kFacts));
  const json& missing = answer["communicators"][0]["missing_ranks"][0];
  EXPECT_EQ(missing["host"], "node-1");
  EXPECT_EQ(missing["status"]["unresponsive"], false);
}

TEST(RasText, OfNobodyIsEmpty) {
  const json report = {
      {"processes", json::array()}, {"communicators", json::array()}, {"not_listed", 0}};
  EXPECT_NE(RasStatusText(report, kFacts).find("No communicator data collected!\n"),
            std::string::npos);
  EXPECT_EQ(ReadJson(RasStatusJson(report, kFacts))["communicators_count"], 0);
}

TEST(RasJson, HasNcclsFields) {
  json one = Communicator(json::array({Rank(0, 71, 9)}), 2);
  one["gone"] = {1};
  one["result"] = 6;
  const json answer = ReadJson(RasStatusJson(Report(json::array({one})), kFacts));
  EXPECT_EQ(answer["nccl_version"], "Harmonaize 1.2.3");
  EXPECT_EQ(answer["timestamp"], "2026-11-28 21:00:00");
  EXPECT_EQ(answer["communicators_count"], 1);
  EXPECT_EQ(answer["ras"]["collection_time_sec"], 0.25);
  const json& communicator = answer["communicators"][0];
  EXPECT_EQ(communicator["hash"], "0xfdccd30b");
  EXPECT_EQ(communicator["secondary_hash"], "0x0123456789abcdef:0x00112233445566ff");
  EXPECT_EQ(communicator["ranks_count"], 1);
  EXPECT_EQ(communicator["missing_ranks_count"], 1);
  const json& rank = communicator["ranks"][0];
  EXPECT_EQ(rank["pid"], 71);
  EXPECT_EQ(rank["status"]["async_error"], 6);
  EXPECT_EQ(rank["collective_counts"]["AllReduce"], 9);
  EXPECT_EQ(rank["collective_counts"]["Broadcast"], 0);
  EXPECT_FALSE(rank["collective_counts"].contains("Gather"));
  EXPECT_EQ(communicator["missing_ranks"][0]["status"]["considered_dead"], true);
}

std::string BusText(const std::string& type, const std::string& data) {
  return "id: 1\nevent: io.harmonaize." + type + "\ndata: {\"type\":\"io.harmonaize." + type +
         "\",\"data\":" + data + "}\n\n";
}

TEST(RasEvent, HasNcclsNamesForRanks) {
  const RasWatch watch{.groups = kRasAllEvents};
  EXPECT_EQ(RasEventText(BusText("rank.lost", R"({"text":"rank 1 died","ranks":[1]})"), watch, "T"),
            "[T] PEER_DEAD: rank 1 died\n");
  EXPECT_EQ(RasEventText(BusText("rank.late", R"({"text":"it waits"})"), watch, "T"),
            "[T] PEER_UNRESPONSIVE: it waits\n");
  EXPECT_EQ(RasEventText(BusText("link.degraded", R"({"text":"slow"})") +
                             BusText("capacity.reclaim", R"({"text":"soon"})"),
                         watch, "T"),
            "[T] LINK_DEGRADED: slow\n[T] CAPACITY_RECLAIM: soon\n");
}

TEST(RasEvent, BelongsToAGroup) {
  const std::string lost = BusText("rank.lost", R"({"text":"x"})");
  const std::string late = BusText("rank.late", R"({"text":"x"})");
  EXPECT_NE(RasEventText(lost, {.groups = kRasLifecycle}, "T"), "");
  EXPECT_EQ(RasEventText(lost, {.groups = kRasTrace}, "T"), "");
  EXPECT_EQ(RasEventText(late, {.groups = kRasLifecycle}, "T"), "");
  EXPECT_NE(RasEventText(late, {.groups = kRasTrace}, "T"), "");
  EXPECT_EQ(RasEventText("data: nonsense\n\nevent\n", {.groups = kRasAllEvents}, "T"), "");
}

TEST(RasEvent, IsJsonWhereThatWasAskedFor) {
  const json event =
      ReadJson(RasEventText(BusText("rank.lost", R"({"text":"rank 1 died","ranks":[1]})"),
                            {.groups = kRasLifecycle, .json = true}, "2026-11-28 21:00:00"));
  EXPECT_EQ(event["timestamp"], "2026-11-28 21:00:00");
  EXPECT_EQ(event["group"], "LIFECYCLE");
  EXPECT_EQ(event["event"], "PEER_DEAD");
  EXPECT_EQ(event["ranks"], json::array({1}));
  EXPECT_EQ(event["details"], "rank 1 died");
}

}  // namespace
}  // namespace harmonaize::daemon
