// `harmonaize events` with real daemons and the events of real ranks.

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "tests/integration/command_line.h"
#include "tests/integration/restarting_daemon.h"
#include "tests/support/daemon_process.h"
#include "tests/support/text_checks.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;

std::vector<json> EventsIn(const std::string& text) {
  std::vector<json> events;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) events.push_back(ReadJson(line));
  return events;
}

std::vector<std::string> OperationsIn(const std::string& text) {
  std::vector<std::string> operations;
  for (const json& event : EventsIn(text)) operations.push_back(event.at("data").at("operation"));
  return operations;
}

using Names = std::vector<std::string>;

TEST(EventsCommand, ShowsWhatTheDaemonHasKept) {
  const DaemonProcess daemon;
  const std::string& socket = daemon.socket_path();
  const Ended none = RunCommand({"events"}, socket);
  EXPECT_EQ(none.status, 0) << none.error;
  EXPECT_EQ(none.output, "no events\n");
  ASSERT_TRUE(MakeEvents("llama", 3));
  AwaitEvents(3, socket);
  const Ended shown = RunCommand({"events"}, socket);
  EXPECT_EQ(shown.status, 0) << shown.error;
  EXPECT_EQ(shown.output.find("time  "), 0u) << shown.output;
  EXPECT_EQ(LinesLike(shown.output,
                      "20[0-9T:.-]+Z +(INFO|WARN|ERROR) +mismatch\\.detected +[0-9a-f]{8} .*"),
            3)
      << shown.output;
  EXPECT_EQ(shown.output.find('\033'), std::string::npos) << "a pipe takes no colours";
  EXPECT_EQ(shown.error, "");
}

TEST(EventsCommand, PrintsEachEventAsALineOfJson) {
  const DaemonProcess daemon;
  const std::string& socket = daemon.socket_path();
  ASSERT_TRUE(MakeEvents("llama", 3));
  AwaitEvents(3, socket);
  const Ended all = RunCommand({"events", "--json"}, socket);
  EXPECT_EQ(OperationsIn(all.output), (Names{"#0", "#1", "#2"}));
  const json first = EventsIn(all.output).front();
  EXPECT_EQ(first.at("specversion"), "1.0");
  EXPECT_EQ(all.output.find("{\"specversion\""), 0u) << "fields stay in their order";
  EXPECT_EQ(OperationsIn(RunCommand({"events", "--json", "--limit", "2"}, socket).output),
            (Names{"#0", "#1"}));
  const std::string id = first.at("id");
  EXPECT_EQ(OperationsIn(RunCommand({"events", "--json", "--after", id}, socket).output),
            (Names{"#1", "#2"}));
  EXPECT_EQ(RunCommand({"events", "--json", "--types", "rank.*"}, socket).output, "");
  EXPECT_EQ(RunCommand({"events", "--json", "--severity", "fatal"}, socket).output, "");
}

TEST(EventsCommand, ReadsPageAfterPage) {
  const DaemonProcess daemon;
  ASSERT_TRUE(MakeEvents("llama", 1100));
  AwaitEvents(1100, daemon.socket_path());
  const Ended all = RunCommand({"events", "--json"}, daemon.socket_path());
  EXPECT_EQ(all.status, 0) << all.error;
  const Names operations = OperationsIn(all.output);
  ASSERT_EQ(operations.size(), 1100u);
  EXPECT_EQ(operations.back(), "#1099");
  EXPECT_EQ(OperationsIn(RunCommand({"events", "--json", "-n", "501"}, daemon.socket_path()).output)
                .size(),
            501u);
}

TEST(EventsCommand, TakesAJobByNameAndByTheBeginningOfItsId) {
  const DaemonProcess daemon;
  const std::string& socket = daemon.socket_path();
  ASSERT_TRUE(MakeEvents("first", 1));
  ASSERT_TRUE(MakeEvents("second", 2));
  AwaitEvents(3, socket);
  EXPECT_EQ(OperationsIn(RunCommand({"events", "--json", "--job", "second"}, socket).output),
            (Names{"#0", "#1"}));
  const json one = EventsIn(RunCommand({"events", "--json", "--limit", "1"}, socket).output).at(0);
  const std::string source = one.at("source");
  const std::string id = source.substr(source.rfind('/') + 1);
  for (const std::string& which : {id, id.substr(0, 8)}) {
    EXPECT_EQ(OperationsIn(RunCommand({"events", "--json", "--job", which}, socket).output),
              (Names{"#0"}))
        << which;
  }
  const Ended unknown = RunCommand({"events", "--job", "third"}, socket);
  EXPECT_EQ(unknown.status, 1);
  EXPECT_EQ(
      unknown.error,
      "harmonaize: there is no job 'third' at this daemon, and no event of one is kept; "
      "`harmonaize jobs` lists the jobs that it knows, and `harmonaize events --json` has the "
      "whole id of each job in 'source'\n");
}

TEST(EventsCommand, TakesAJobOfBeforeARestartByNameAndByTheBeginningOfItsId) {
  RestartingDaemon daemon;
  ASSERT_TRUE(MakeEvents("before", 2));
  AwaitEvents(2, daemon.socket());
  const json one =
      EventsIn(RunCommand({"events", "--json", "--limit", "1"}, daemon.socket()).output).at(0);
  const std::string source = one.at("source");
  daemon.Restart();
  EXPECT_EQ(RunCommand({"jobs", "before"}, daemon.socket()).status, 1)
      << "the daemon has forgotten";
  for (const std::string& which :
       {std::string("before"), source.substr(source.rfind('/') + 1, 8)}) {
    const Ended events =
        RunCommand({"events", "--json", "--types", "mismatch.*", "--job", which}, daemon.socket());
    EXPECT_EQ(events.status, 0) << events.error;
    EXPECT_EQ(OperationsIn(events.output), (Names{"#0", "#1"})) << which;
  }
}

TEST(EventsCommand, FollowsAcrossARestartOfTheDaemon) {
  RestartingDaemon daemon;
  const Environment environment = EnvironmentFor(daemon.socket());
  ASSERT_TRUE(MakeEvents("before", 2));
  Launched follower(
      {"events", "--follow", "--from", "start", "--types", "mismatch.*", "--json", "--limit", "4"},
      HARMONAIZE_PROGRAM, &environment);
  ASSERT_TRUE(follower.ReadUntil("\"#1\"")) << follower.error();
  daemon.Restart();
  ASSERT_TRUE(MakeEvents("after", 2));
  EXPECT_EQ(follower.Wait(), 0) << follower.error();
  EXPECT_EQ(OperationsIn(follower.output()), (Names{"#0", "#1", "#0", "#1"}));
  EXPECT_EQ(follower.error(),
            "harmonaize: the daemon has gone; waiting for it\nharmonaize: the daemon is back\n");
}

TEST(EventsCommand, MissesNothingOfARestartBeforeTheFirstEvent) {
  RestartingDaemon daemon;
  const Environment environment = EnvironmentFor(daemon.socket());
  ASSERT_TRUE(MakeEvents("before", 1));
  Launched follower({"events", "--follow", "--types", "mismatch.*", "--json", "--limit", "2"},
                    HARMONAIZE_PROGRAM, &environment);
  // The follower says nothing until an event comes; it is there long before this has passed.
  std::this_thread::sleep_for(std::chrono::seconds(1));
  daemon.Restart();
  // The follower waits for the daemon in steps, so these come before it is back.
  ASSERT_TRUE(MakeEvents("while it was away", 2));
  EXPECT_EQ(follower.Wait(), 0) << follower.error();
  EXPECT_EQ(OperationsIn(follower.output()), (Names{"#0", "#1"}));
}

TEST(EventsCommand, GoesOnUntilItIsInterrupted) {
  const DaemonProcess daemon;
  const Environment environment = EnvironmentFor(daemon.socket_path());
  ASSERT_TRUE(MakeEvents("before", 1));
  Launched follower({"events", "--follow", "--from", "start"}, HARMONAIZE_PROGRAM, &environment);
  ASSERT_TRUE(follower.ReadUntil("mismatch.detected")) << follower.error();
  follower.Signal(SIGINT);
  EXPECT_EQ(follower.Wait(), 128 + SIGINT);
}

TEST(EventsCommand, EndsWhenItsReaderGoes) {
  const DaemonProcess daemon;
  const Environment environment = EnvironmentFor(daemon.socket_path());
  ASSERT_TRUE(MakeEvents("before", 2));
  // Nothing further is written: the end of the reader itself ends it.
  Launched follower({"events", "--follow", "--from", "start"}, HARMONAIZE_PROGRAM, &environment);
  ASSERT_TRUE(follower.ReadUntil("mismatch.detected")) << follower.error();
  follower.CloseOutput();
  EXPECT_EQ(follower.Wait(), 0) << follower.error();
  EXPECT_EQ(follower.error(), "");
  const Ended piped = RunBash("set -o pipefail; \"$1\" events --follow --from start | head -n 2",
                              {}, daemon.socket_path());
  EXPECT_EQ(piped.status, 0) << piped.error;
  EXPECT_EQ(LinesLike(piped.output, ".*"), 2) << piped.output;
}

TEST(EventsCommand, SaysWhatIsWrongAndTheWayOut) {
  const DaemonProcess daemon;
  const std::string& socket = daemon.socket_path();
  const Ended types = RunCommand({"events", "--types", "rank.lat"}, socket);
  EXPECT_EQ(types.status, 2);
  ExpectHolds(types.error, "rank.late");
  const Ended after = RunCommand({"events", "--after", "nonsense"}, socket);
  EXPECT_EQ(after.status, 1);
  ExpectHolds(after.error, "'nonsense' is no event's id");
  EXPECT_EQ(RunCommand({"events", "--follow", "--after", "nonsense"}, socket).status, 1);
  const Ended now = RunCommand({"events", "--from", "now"}, socket);
  EXPECT_EQ(now.status, 2);
  ExpectHolds(now.error, "it needs --follow");
  EXPECT_EQ(RunCommand({"events", "--after", "x", "--from", "start"}, socket).status, 2);
  EXPECT_EQ(RunCommand({"events", "--limit", "0"}, socket).status, 2);
  const Ended nobody = RunCommand({"events"}, "/nonexistent/harmonaized.sock");
  EXPECT_EQ(nobody.status, 1);
  ExpectHolds(nobody.error, "start one with `harmonaized`");
}

}  // namespace
}  // namespace harmonaize::testing
