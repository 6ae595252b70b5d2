// `harmonaize ticket` against a real daemon.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "include/harmonaize.h"
#include "src/base/json_text.h"
#include "tests/integration/command_on_job.h"
#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"
#include "tests/support/text_checks.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;

class TicketCommandTest : public CommandOnJobTest {
 protected:
  Ended Run(const std::vector<std::string>& words) {
    std::vector<std::string> all = {"ticket"};
    all.insert(all.end(), words.begin(), words.end());
    return RunOnJob(all);
  }
};

TEST_F(TicketCommandTest, MakesATicketThatANewcomerIsLetWaitBy) {
  const Ended made = Run({"make", "llama", "--uses", "3", "--for", "10min"});
  EXPECT_EQ(made.status, 0) << made.error;
  ExpectHolds(made.error, "serves 3 times until ");
  ASSERT_TRUE(made.output.starts_with("hzt1_") && made.output.ends_with("\n")) << made.output;
  const std::string ticket = made.output.substr(0, made.output.size() - 1);
  EXPECT_EQ(made.error.find(ticket), std::string::npos);
  hzPlace_t place = HZ_PLACE_INITIALIZER;
  EXPECT_EQ(hzJoinJob("llama", ticket.c_str(), 0, &place), ncclInProgress);
  const Ended listed = Run({"list", "llama", "--json"});
  EXPECT_EQ(listed.status, 0) << listed.error;
  const json list = ReadJson(listed.output);
  EXPECT_EQ(list.at("waiting"), 1);
  EXPECT_EQ(list.at("tickets").at(0).at("uses"), 2);
  EXPECT_EQ(listed.output.find(ticket), std::string::npos);
  ExpectHolds(Run({"list", "llama"}).output, "newcomers that wait: 1");
  EXPECT_EQ(Run({"burn", "llama"}).output, "the tickets of llama are burnt\n");
  EXPECT_EQ(hzJoinJob("llama", ticket.c_str(), -1, &place), ncclInvalidUsage);
  EXPECT_EQ(Run({"list", "llama"}).output, "no tickets\nnewcomers that wait: 0\n");
}

TEST_F(TicketCommandTest, WritesANewFileThatNobodyElseReads) {
  const std::string file = daemon_.folder() + "/llama.ticket";
  const Ended made = Run({"make", "llama", "--file", file});
  EXPECT_EQ(made.status, 0) << made.error;
  EXPECT_EQ(made.output, "");
  struct stat facts = {};
  ASSERT_EQ(stat(file.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600u);
  setenv("HARMONAIZE_TICKET_FILE", file.c_str(), 1);
  hzPlace_t place = HZ_PLACE_INITIALIZER;
  EXPECT_EQ(hzJoinJob("llama", nullptr, 0, &place), ncclInProgress);
  unsetenv("HARMONAIZE_TICKET_FILE");
  const Ended again = Run({"make", "llama", "--file", file});
  EXPECT_EQ(again.status, 1);
  ExpectHolds(again.error, "is there already");
  unlink(file.c_str());
  // Where there is no ticket no file is left.
  EXPECT_EQ(Run({"make", "no such job", "--file", file}).status, 1);
  EXPECT_NE(stat(file.c_str(), &facts), 0);
}

TEST_F(TicketCommandTest, RefusesWhatCannotBeMeant) {
  EXPECT_EQ(Run({"make", "llama", "--uses", "0"}).status, 2);
  EXPECT_EQ(Run({"make", "llama", "--for", "31d"}).status, 2);
  EXPECT_EQ(Run({"make", "llama", "--for", "5"}).status, 2);
  EXPECT_EQ(Run({"make"}).status, 2);
  for (const char* const command : {"make", "list", "burn"}) {
    const Ended refused = Run({command, "no such job"});
    EXPECT_EQ(refused.status, 1);
    ExpectHolds(refused.error, "there is no such job here");
  }
}

}  // namespace
}  // namespace harmonaize::testing
