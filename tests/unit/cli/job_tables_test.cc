#include "cli/jobs/job_tables.h"

#include <gtest/gtest.h>

#include <string>

#include "cli/jobs/job_search.h"
#include "src/base/json_text.h"

namespace harmonaize {
namespace {

constexpr char kJobs[] = R"({"jobs": [
  {"id": "3f9a01c2d4e5f60718293a4b5c6d7e8f", "name": "llama", "kind": "training",
   "began": "2026-11-26T08:30:00.000000Z", "ended": null, "operations": 12034, "waiting": 1,
   "communicators": [{"id": "a1b2c3d4", "name": "", "size": 8, "state": "ready"},
                     {"id": "a1b2c3d5", "name": "tp0", "size": 2, "state": "ready"}]},
  {"id": "3f9b000000000000000000000000000f", "name": "", "kind": "unknown",
   "began": "2026-11-26T08:31:00.500000Z", "ended": "2026-11-26T08:32:00.000000Z", "waiting": 0,
   "operations": 77, "communicators": [],
   "ended_communicators": {"count": 3, "operations": 77, "bytes": 2048, "ranks": 4}}]})";

std::string TableOf(const std::string& document) {
  const Result<std::string> table = JobTable(document);
  return table.ok() ? *table : table.status().message();
}

TEST(JobTable, ShowsEachJobInARow) {
  EXPECT_EQ(TableOf(kJobs),
            "job       name   kind      since                 communicators  ranks  operations"
            "  waiting\n"
            "3f9a01c2  llama  training  2026-11-26T08:30:00Z              2      8       12034"
            "        1\n"
            "3f9b0000  -      unknown   2026-11-26T08:31:00Z              3      4          77"
            "        -\n"
            "    ended 2026-11-26T08:32:00Z\n");
}

TEST(JobTable, NamesTenantsWhereTheDaemonDoes) {
  Json jobs = ReadJson(kJobs);
  jobs["jobs"][0]["tenant"] = "uid 1000";
  const std::string table = TableOf(JsonText(jobs));
  EXPECT_EQ(table.substr(0, table.find('\n')).find("job       tenant    name"), 0u) << table;
  EXPECT_NE(table.find("3f9a01c2  uid 1000  llama"), std::string::npos) << table;
}

TEST(JobTable, LeavesOutTheOperationsThatADaemonDoesNotTell) {
  Json jobs = ReadJson(kJobs);
  for (Json& job : jobs["jobs"]) {
    job.erase("operations");
    job.erase("ended_communicators");
  }
  EXPECT_EQ(TableOf(JsonText(jobs)).find("operations"), std::string::npos);
}

TEST(JobTable, SaysWhichCommunicatorsWaitForRanks) {
  Json jobs = ReadJson(kJobs);
  const Json forming = {{"name", "tp1"},
                        {"size", 16},
                        {"missing", 3},
                        {"text", "ncclCommInitRank has waited 5.0 s for ranks 1, 2, 7"}};
  jobs["jobs"][0]["forming"] = Json(std::vector<Json>(6, forming));
  const std::string table = TableOf(JsonText(jobs));
  EXPECT_NE(table.find("              2     16       12034"), std::string::npos) << table;
  EXPECT_NE(table.find("\n    forms 'tp1', with 13 of 16 ranks so far: ncclCommInitRank has waited "
                       "5.0 s for ranks 1, 2, 7\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("\n    2 more form; --json has them\n"), std::string::npos) << table;
}

TEST(JobTable, SaysThatThereAreNone) {
  EXPECT_EQ(TableOf(R"({"jobs": []})"), "no jobs\n");
  EXPECT_EQ(TableOf("[]"), "the daemon's answer is not a JSON object");
}

constexpr char kJob[] = R"({
  "id": "3f9a01c2d4e5f60718293a4b5c6d7e8f", "name": "llama", "kind": "training",
  "began": "2026-11-26T08:30:00.000000Z", "ended": null,
  "communicators": [
    {"id": "a1b2c3d4", "name": "tp0", "state": "ready", "size": 6, "operations": 12034,
     "bytes": 4509715660, "congestion": "mild",
     "ranks": [{"rank": 0, "here": true, "left": false}, {"rank": 1, "here": true, "left": false},
               {"rank": 2, "here": false, "left": true}, {"rank": 3, "here": true, "left": false},
               {"rank": 4, "here": false, "left": false}, {"rank": 5, "here": false, "left": false}],
     "waiting": [{"operation": "AllReduce #7", "for_seconds": 12, "missing_ranks": [1, 3]}]},
    {"id": "a1b2c3d5", "name": "", "state": "broken", "size": 2, "operations": 0, "bytes": 0,
     "failure": "rank 1 is gone", "ranks": [], "waiting": []}]})";

std::string DetailsOf(const std::string& document) {
  const Result<std::string> details = JobDetails(document);
  return details.ok() ? *details : details.status().message();
}

TEST(JobDetails, ShowsCommunicatorsRanksAndWhatWaits) {
  EXPECT_EQ(DetailsOf(kJob),
            "job 3f9a01c2d4e5f60718293a4b5c6d7e8f, named llama, of kind training, since "
            "2026-11-26T08:30:00Z\n"
            "\n"
            "communicator  name  state   ranks here  of  operations    bytes  congestion\n"
            "a1b2c3d4      tp0   ready       0-1, 3   6       12034  4.2 GiB        mild\n"
            "    AllReduce #7 has waited 12 s for ranks 1, 3\n"
            "    ranks that have left: 2\n"
            "a1b2c3d5      -     broken           -   2           0      0 B           -\n"
            "    rank 1 is gone\n");
}

TEST(JobDetails, CountWhatEndedCommunicatorsHaveDone) {
  Json job = ReadJson(kJob);
  job["ended_communicators"] = {{"count", 3}, {"operations", 77}, {"bytes", 2048}, {"ranks", 4}};
  EXPECT_NE(DetailsOf(JsonText(job)).find("\n3 ended before, after 77 operations and 2 KiB\n"),
            std::string::npos)
      << DetailsOf(JsonText(job));
  job["communicators"] = Json::array();
  EXPECT_NE(DetailsOf(JsonText(job))
                .find("\n\nno communicators\n3 ended before, after 77 operations and 2 KiB\n"),
            std::string::npos)
      << DetailsOf(JsonText(job));
}

TEST(JobDetails, ShowsOperatorsTheProcesses) {
  Json job = ReadJson(kJob);
  job["tenant"] = "uid 1000";
  job["communicators"][0]["ranks"][0]["process"] = 4711;
  job["communicators"][0]["ranks"][0]["program"] = "python3";
  const std::string details = DetailsOf(JsonText(job));
  EXPECT_NE(details.find(", of tenant uid 1000\n"), std::string::npos) << details;
  EXPECT_NE(details.find("communicator  program  rank  process\n"
                         "a1b2c3d4      python3     0     4711\n"),
            std::string::npos)
      << details;
}

TEST(JobDetails, LetNoNameSteerTheTerminal) {
  Json job = ReadJson(kJob);
  job["name"] = "\033]0;owned\007";
  job["communicators"][0]["ranks"][0]["process"] = 4711;
  job["communicators"][0]["ranks"][0]["program"] = "python3\033[31m";
  const std::string details = DetailsOf(JsonText(job));
  EXPECT_EQ(details.find('\033'), std::string::npos) << details;
  EXPECT_EQ(details.find('\007'), std::string::npos) << details;
}

TEST(JobDetails, ListsAScreenfulOfProcessesAndCountsTheOthers) {
  Json job = ReadJson(kJob);
  for (int rank = 0; rank < 100; ++rank) {
    job["communicators"][1]["ranks"].push_back(
        {{"rank", rank}, {"here", true}, {"process", 1000 + rank}, {"program", "train"}});
  }
  const std::string details = DetailsOf(JsonText(job));
  EXPECT_NE(details.find("1063\n    36 more; --json has all\n"), std::string::npos) << details;
  EXPECT_EQ(details.find("1064"), std::string::npos);
}

std::string Found(const Json& jobs, const std::string& which) {
  const Result<std::string> id = FindJobId(jobs, which);
  return id.ok() ? *id : id.status().message();
}

TEST(FindJobId, TakesIdsTheirBeginningsAndNames) {
  const Json jobs = ReadJson(kJobs);
  for (const char* which : {"3f9a01c2d4e5f60718293a4b5c6d7e8f", "3f9a", "llama"}) {
    EXPECT_EQ(Found(jobs, which), "3f9a01c2d4e5f60718293a4b5c6d7e8f") << which;
  }
  EXPECT_EQ(Found(jobs, "3f9"),
            "the ids of several jobs begin with '3f9'; say which by the id that `harmonaize jobs` "
            "shows");
  // A job without a name has none, and "" is no beginning.
  for (const char* which : {"", "lama", "4"}) {
    EXPECT_NE(Found(jobs, which).find("there is no job '" + std::string(which) + "'"),
              std::string::npos)
        << which;
  }
}

TEST(FindJobId, PrefersTheJobThatBeganLastButNeverMixesTenants) {
  Json jobs = ReadJson(kJobs);
  jobs["jobs"][1]["name"] = "llama";
  EXPECT_EQ(Found(jobs, "llama"), "3f9b000000000000000000000000000f");
  jobs["jobs"][0]["tenant"] = "uid 1000";
  jobs["jobs"][1]["tenant"] = "uid 1001";
  EXPECT_NE(Found(jobs, "llama").find("several tenants have a job named 'llama'"),
            std::string::npos);
}

TEST(FindJobId, PrefersANameToTheBeginningOfAnId) {
  Json jobs = ReadJson(kJobs);
  jobs["jobs"][0]["name"] = "3f9b";
  EXPECT_EQ(Found(jobs, "3f9b"), "3f9a01c2d4e5f60718293a4b5c6d7e8f");
}

TEST(IsWholeJobId, TakesWhatHasItsForm) {
  EXPECT_TRUE(IsWholeJobId("3f9a01c2d4e5f60718293a4b5c6d7e8f"));
  EXPECT_FALSE(IsWholeJobId("3f9a01c2"));
  EXPECT_FALSE(IsWholeJobId("3F9A01C2D4E5F60718293A4B5C6D7E8F"));
}

}  // namespace
}  // namespace harmonaize
