#include "cli/status/status_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/daemon_document.h"
#include "cli/human_units.h"
#include "cli/json_view.h"
#include "src/base/json_text.h"

namespace harmonaize {
namespace {

constexpr char kStatus[] = R"({
  "daemon": {"version": "0.1.0", "pid": 812, "uptime_seconds": 7384.2,
             "socket": "/run/harmonaize/harmonaized.sock", "workers": 4},
  "tenants": [
    {"uid": 1000, "name": "alice", "sessions": 4, "regions": 8, "region_bytes": 536870912,
     "operations": 12034, "bytes": 4509715660,
     "communicators": [
       {"id": 3, "handle": "0c48bbc4", "job": "3f9a01c2d4e5f60718293a4b5c6d7e8f",
        "job_name": "llama", "ranks": 4, "operations": 12034, "bytes": 4509715660, "state": "ready",
        "inline_operations": 77, "inline_bytes": 1536,
        "waiting": [{"operation": "AllReduce #12034", "for_seconds": 12.3,
                     "missing_ranks": [1, 3]}]}]},
    {"uid": 0, "sessions": 1, "regions": 0, "region_bytes": 0, "operations": 0, "bytes": 0,
     "communicators": []}]})";

TEST(StatusTable, ShowsAllThatIsThere) {
  const Result<std::string> table = StatusTable(kStatus);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(*table,
            "harmonaized 0.1.0, pid 812, up 2 h 3 min, 4 workers, listening at "
            "/run/harmonaize/harmonaized.sock\n"
            "\n"
            "tenant            sessions  regions   shared  communicators  operations    bytes\n"
            "alice (uid 1000)         4        8  512 MiB              1       12034  4.2 GiB\n"
            "uid 0                    1        0      0 B              0           0      0 B\n"
            "\n"
            "communicator  job    tenant            state  ranks  hosts  operations    bytes"
            "  inline operations  inline bytes\n"
            "0c48bbc4      llama  alice (uid 1000)  ready      4      1       12034  4.2 GiB"
            "                 77       1.5 KiB\n"
            "    AllReduce #12034 has waited 12 s for ranks 1, 3\n");
}

TEST(StatusTable, NamesACommunicatorByItsNumberWhereADaemonTellsNoId) {
  Json status = ReadJson(kStatus);
  Json& communicator = status["tenants"][0]["communicators"][0];
  communicator.erase("handle");
  communicator["job_name"] = "";
  const Result<std::string> table = StatusTable(JsonText(status));
  ASSERT_TRUE(table.ok());
  EXPECT_NE(table->find("\n3             3f9a01c2  alice (uid 1000)"), std::string::npos) << *table;
}

TEST(StatusTable, ShowsWhoseTunersAreAdvised) {
  Json status = ReadJson(kStatus);
  status["nccl_tuning"] = ReadJson(R"({
    "here": [{"communicator": "0xabc", "user": 1000, "ranks": 8, "ranks_here": 4, "changes": 2}],
    "home": [{"communicator": "0xabc", "user": 1000, "ranks": 8, "known_ranks": 8, "changes": 2,
              "largest_factor": 1.754, "stays_as_it_is": ""},
             {"communicator": "0xdef", "user": 1000, "ranks": 8, "known_ranks": 4, "changes": 0,
              "largest_factor": 1, "stays_as_it_is": "a host was lost"}]})");
  const Result<std::string> table = StatusTable(JsonText(status));
  ASSERT_TRUE(table.ok());
  EXPECT_NE(table->find("\ntuned by NCCL   uid  ranks  ranks here  changes\n"
                        "0xabc          1000      8           4        2\n"
                        "\n"
                        "advised from here   uid  ranks  known ranks  changes  largest factor\n"
                        "0xabc              1000      8            8        2            1.75\n"
                        "0xdef              1000      8            4        0            1.00\n"
                        "    its choices stay as they are: a host was lost\n"),
            std::string::npos)
      << *table;
}

TEST(StatusTable, ShowsADaemonWithoutTenants) {
  const Result<std::string> table = StatusTable(R"({"daemon": {"version": "9"}, "tenants": []})");
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(*table,
            "harmonaized 9, pid -, up -, - workers, listening at -\n"
            "\n"
            "no tenants\n");
}

TEST(StatusTable, SaysWhatBrokeACommunicator) {
  const Result<std::string> table = StatusTable(
      R"({"tenants": [{"uid": 7, "communicators": [{"id": 3, "failure": "rank 2 died",
          "waiting": [{"operation": "Reduce", "for_seconds": 61, "missing_ranks": [2]}]}]}]})");
  ASSERT_TRUE(table.ok());
  EXPECT_NE(table->find("    Reduce has waited 1 min 1 s for rank 2\n    rank 2 died\n"),
            std::string::npos)
      << *table;
}

TEST(StatusTable, KeepsQuietAboutWhatIsOnItsWay) {
  std::string waiting = R"({"operation": "Reduce #1", "for_seconds": 0.2, "missing_ranks": [0]})";
  for (int i = 2; i <= 10; ++i) {
    waiting += fmt::format(
        R"(, {{"operation": "Reduce #{}", "for_seconds": 5, "missing_ranks": [0]}})", i);
  }
  const Result<std::string> table =
      StatusTable(R"({"tenants": [{"communicators": [{"waiting": [)" + waiting + "]}]}]}");
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table->find("Reduce #1 "), std::string::npos) << *table;
  EXPECT_NE(table->find("    Reduce #4 has waited 5 s for rank 0\n    6 more wait; --json has all"),
            std::string::npos)
      << *table;
}

TEST(StatusTable, SurvivesWhatItDoesNotKnow) {
  for (const char* document :
       {R"({})", R"({"daemon": 3, "tenants": {"a": 1}})", R"({"tenants": [7, null, {"uid": "x"}]})",
        R"({"tenants": [{"bytes": -1, "name": 7, "communicators": [[], {"waiting": [1, {}]}]}]})",
        R"({"daemon": {"uptime_seconds": -1e300, "pid": 1e300}})"}) {
    EXPECT_TRUE(StatusTable(document).ok()) << document;
    EXPECT_TRUE(IndentJson(document).ok()) << document;
  }
}

TEST(StatusTable, RefusesWhatIsNoDocument) {
  for (const char* document : {"", "[]", "3", "{", "{\"a\": }", "\xff\xfe"}) {
    EXPECT_FALSE(StatusTable(document).ok()) << document;
    EXPECT_FALSE(IndentJson(document).ok()) << document;
  }
}

TEST(StatusTable, KeepsControlCharactersFromTheTerminal) {
  const Result<std::string> table =
      StatusTable("{\"tenants\": [{\"name\": \"\\u001b[2Jmallory\", \"uid\": 5}]}");
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table->find('\x1b'), std::string::npos);
  EXPECT_NE(table->find("\xef\xbf\xbd[2Jmallory (uid 5)"), std::string::npos);
  // Terminals take this letter, of two bytes, for the same as ESC and [.
  const Result<std::string> other = StatusTable(R"({"tenants": [{"name": "\u009b2J", "uid": 5}]})");
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->find("\xc2\x9b"), std::string::npos);
}

TEST(IndentJson, LeavesADocument) {
  const std::string text = R"({"a": [1e300, -1, 18446744073709551616, "\ud83d\ude00\u001b\""]})";
  const Result<std::string> indented = IndentJson(text);
  ASSERT_TRUE(indented.ok());
  const Result<std::string> again = IndentJson(*indented);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *indented);
  EXPECT_EQ(indented->find('\x1b'), std::string::npos);
  EXPECT_FALSE(IndentJson("{\"a\": \"\xff\"}").ok());
}

TEST(HumanBytes, HasThreeDigits) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1024), "1 KiB");
  EXPECT_EQ(HumanBytes(1536), "1.5 KiB");
  EXPECT_EQ(HumanBytes(1048575), "1 MiB");
  EXPECT_EQ(HumanBytes(128ULL << 20), "128 MiB");
  EXPECT_EQ(HumanBytes(~0ULL), "16 EiB");
}

TEST(HumanDuration, HasTwoUnits) {
  EXPECT_EQ(HumanDuration(0), "0 s");
  EXPECT_EQ(HumanDuration(59.9), "59 s");
  EXPECT_EQ(HumanDuration(123), "2 min 3 s");
  EXPECT_EQ(HumanDuration(5 * 3600 + 7 * 60), "5 h 7 min");
  EXPECT_EQ(HumanDuration(3 * 86400 + 4 * 3600), "3 d 4 h");
  EXPECT_EQ(HumanDuration(-5), "0 s");
}

TEST(HumanTime, HasThreeDigits) {
  EXPECT_EQ(HumanTime(0), "0 ns");
  EXPECT_EQ(HumanTime(85.24e-9), "85.2 ns");
  EXPECT_EQ(HumanTime(999.6e-9), "1 us");
  EXPECT_EQ(HumanTime(0.25), "250 ms");
  EXPECT_EQ(HumanTime(12), "12 s");
}

TEST(HumanRate, HasThreeDigits) {
  EXPECT_EQ(HumanRate(0), "0 B/s");
  EXPECT_EQ(HumanRate(29.34e9), "29.3 GB/s");
  EXPECT_EQ(HumanRate(2e12), "2 TB/s");
}

TEST(FetchDaemonStatus, NamesTheSocketWhereNobodyListens) {
  const Result<std::string> status = FetchDaemonStatus("/nonexistent/harmonaized.sock");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.status().code(), Code::kUnavailable);
  EXPECT_NE(status.status().message().find("/nonexistent/harmonaized.sock"), std::string::npos);
}

}  // namespace
}  // namespace harmonaize
