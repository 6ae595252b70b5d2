// `harmonaize agents` against real daemons and launchers.

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "include/harmonaize.h"
#include "src/base/json_text.h"
#include "tests/integration/command_on_job.h"
#include "tests/support/cluster.h"
#include "tests/support/eventually.h"
#include "tests/support/hosts_case.h"
#include "tests/support/text_checks.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;

/// Longest wait for a launcher to have started, or for a daemon's next look, in seconds.
constexpr double kLongestWait = 60;

/// Starts the launcher of a job as its agent, which has four places. Without a ticket it starts a
/// process in one of them.
Launched StartAgent(const std::string& socket, const std::string& job,
                    const std::string& ticket_file = "") {
  const Environment environment = EnvironmentFor(socket);
  std::vector<std::string> words = {"run",    "--elastic", "1:5",      "--places", "4",
                                    "--name", job,         "--daemon", "auto"};
  if (ticket_file.empty()) {
    words.insert(words.end(), {"-n", "1"});
  } else {
    words.insert(words.end(), {"--ticket", ticket_file});
  }
  words.insert(words.end(), {"--", "sleep", "600"});
  return Launched(words, HARMONAIZE_PROGRAM, &environment);
}

/// Waits until the command's output holds this, and returns it.
std::string AwaitAgents(const std::string& socket, const std::string& text) {
  Ended ended;
  EXPECT_TRUE(Eventually(kLongestWait,
                         [&] {
                           ended = RunCommand({"agents"}, socket);
                           return ended.output.find(text) != std::string::npos;
                         }))
      << "'" << text << "' is not in\n"
      << ended.output << ended.error;
  return ended.output;
}

class AgentsCommandTest : public CommandOnJobTest {};

TEST_F(AgentsCommandTest, ListsTheLauncherOfAJobAndTheOffersItActsOn) {
  EXPECT_EQ(RunOnJob({"agents"}).output, "no agents\n");
  Launched agent = StartAgent(daemon_.socket_path(), "llama");
  const std::string listed = AwaitAgents(daemon_.socket_path(), "agent-");
  EXPECT_EQ(LinesLike(listed,
                      "agent-[0-9a-f]{16} .* llama +this host +attached +20[^ ]+Z +3 +1 +1 "
                      "+no +0 +[0-9]+ s"),
            1)
      << listed;
  EXPECT_EQ(RunOnJob({"agents", "llama"}).output.substr(0, 5), "agent");
  const Ended made =
      RunOnJob({"offer", "make", "llama", "grow", "--ranks", "2", "--within", "9min"});
  EXPECT_EQ(made.status, 0) << made.error;
  ExpectHolds(AwaitAgents(daemon_.socket_path(), "grow of 2 ranks"), "    offer-");
  agent.Signal(SIGTERM);
  agent.Wait();
  EXPECT_EQ(RunOnJob({"agents"}).output, "no agents\n");
}

TEST_F(AgentsCommandTest, SaysWhyAnAgentHearsNothingOfItsJob) {
  Launched agent = StartAgent(daemon_.socket_path(), "alone");
  const std::string listed = AwaitAgents(daemon_.socket_path(), "agent-");
  EXPECT_EQ(LinesLike(listed, "agent-.* alone +this host +waiting .*"), 1) << listed;
  ExpectHolds(listed, "the job has no ranks on this host yet");
  EXPECT_EQ(RunOnJob({"agents", "llama"}).output, "no agents\n");
  const json told = ReadJson(RunOnJob({"agents", "alone", "--json"}).output);
  EXPECT_EQ(told.at("agents").size(), 1U);
  EXPECT_EQ(told.at("agents").at(0).at("places"), 3);
  // One that is stopped is not renewed.
  agent.Signal(SIGSTOP);
  AwaitAgents(daemon_.socket_path(), "its launcher has ended, or is stopped");
  agent.Signal(SIGCONT);
  agent.Signal(SIGTERM);
  agent.Wait();
}

TEST_F(AgentsCommandTest, MistakesAreNamed) {
  const Ended none = RunOnJob({"agents", "nobodys"});
  EXPECT_EQ(none.status, 1);
  ExpectHolds(none.error, "there is no job 'nobodys'");
  EXPECT_EQ(RunOnJob({"agents", "--hosts"}).status, 2);
  EXPECT_EQ(RunCommand({"agents"}, "/nonexistent/harmonaized.sock").status, 1);
}

// A host has an agent alone: operators see at each host where there are places.
TEST(AgentsCommandOnHosts, ShowsPlacesOfOtherHosts) {
  TestCluster cluster(2);
  const std::string ranks_at = cluster.daemon(0).socket_path();
  const std::string agent_at = cluster.daemon(1).socket_path();
  const std::string file = cluster.daemon(1).folder() + "/ticket";
  HostedRanks ranks(&cluster, {0, 0});
  ranks.Start([&](int rank) {
    setenv("HARMONAIZE_JOB", "elastic", 1);
    ncclComm_t all = ranks.Join(rank);
    EXPECT_EQ(CountRanks(all), 2);
    if (rank == 0) {
      const Ended made = RunCommand({"ticket", "make", "elastic", "--file", file}, ranks_at);
      EXPECT_EQ(made.status, 0) << made.error;
      Launched agent = StartAgent(agent_at, "elastic", file);
      const std::string own = AwaitAgents(agent_at, " attached ");
      EXPECT_EQ(LinesLike(own,
                          "agent-.* elastic +this host +attached +20[^ ]+Z +4 +0 +2 +yes +1 "
                          "+[0-9]+ s"),
                1)
          << own;
      const std::string other = AwaitAgents(ranks_at, " elastic ");
      EXPECT_EQ(LinesLike(other,
                          "- .* elastic +127\\.0\\.0\\.2:[0-9]+ +- +- +4 +- +- +- +- "
                          "+[0-9]+ s"),
                1)
          << other;
      agent.Signal(SIGTERM);
      agent.Wait();
    }
    EXPECT_EQ(CountRanks(all), 2);
    EXPECT_NCCL(ncclCommDestroy(all));
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

}  // namespace
}  // namespace harmonaize::testing
