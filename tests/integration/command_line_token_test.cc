// `harmonaize token`, and what commands make of answers that a daemon seldom gives.

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "tests/integration/command_line.h"
#include "tests/integration/scripted_daemon.h"
#include "tests/support/daemon_process.h"
#include "tests/support/text_checks.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;

constexpr char kMade[] = R"({"id": "3f9a01c2", "scope": "tenant", "tenant": "alice", "note": "n",
  "created": "2026-11-26T08:30:00.000000Z", "expires": "2026-12-03T08:30:00.000000Z",
  "token": "hz_c2VjcmV0"})";

TEST(TokenCommand, OrdersATokenAndPrintsItsSecretAlone) {
  const ScriptedDaemon daemon(
      [](const std::string&) { return ScriptedDaemon::Answer(201, kMade); });
  const Ended made = RunCommand({"token", "create", "--scope", "tenant", "--tenant", "alice",
                                 "--days", "7", "--note", "with \"quotes\""},
                                daemon.socket_path());
  EXPECT_EQ(made.status, 0) << made.error;
  EXPECT_EQ(made.output, "hz_c2VjcmV0\n");
  EXPECT_EQ(made.error,
            "harmonaize: token 3f9a01c2 holds until 2026-12-03T08:30:00Z; its secret is not shown "
            "again\n");
  ASSERT_EQ(daemon.requests().size(), 1u);
  const std::string request = daemon.requests().front();
  EXPECT_EQ(request.find("POST /v1/tokens HTTP/1.1\r\n"), 0u) << request;
  ExpectHolds(request, "Content-Type: application/json\r\n");
  EXPECT_EQ(
      ReadJson(request.substr(request.find("\r\n\r\n"))),
      json({{"scope", "tenant"}, {"tenant", "alice"}, {"days", 7.0}, {"note", "with \"quotes\""}}));
}

TEST(TokenCommand, RevokesByAnIdThatMayHoldAnything) {
  const ScriptedDaemon daemon(
      [](const std::string&) { return std::string("HTTP/1.1 204 No Content\r\n\r\n"); });
  const Ended revoked = RunCommand({"token", "revoke", "a/b?c"}, daemon.socket_path());
  EXPECT_EQ(revoked.status, 0) << revoked.error;
  EXPECT_EQ(revoked.output, "token a/b?c is revoked\n");
  EXPECT_EQ(daemon.requests().front().find("DELETE /v1/tokens/a%2Fb%3Fc HTTP/1.1\r\n"), 0u);
}

TEST(TokenCommand, PassesOnWhyTheDaemonRefuses) {
  const ScriptedDaemon daemon([](const std::string&) {
    return ScriptedDaemon::Answer(400, R"({"detail": "there is no tenant 'bobb'"})",
                                  "application/problem+json");
  });
  const Ended refused = RunCommand({"token", "create", "--scope", "tenant", "--tenant", "bobb"},
                                   daemon.socket_path());
  EXPECT_EQ(refused.status, 1);
  EXPECT_EQ(refused.output, "");
  EXPECT_EQ(refused.error, "harmonaize: there is no tenant 'bobb'\n");
}

TEST(TokenCommand, RefusesOrdersThatCannotBeMeant) {
  const std::string nobody = "/nonexistent/harmonaized.sock";
  const Ended whose = RunCommand({"token", "create", "--scope", "tenant"}, nobody);
  EXPECT_EQ(whose.status, 2);
  ExpectHolds(whose.error, "needs --tenant");
  EXPECT_EQ(
      RunCommand({"token", "create", "--scope", "metrics", "--tenant", "alice"}, nobody).status, 2);
  EXPECT_EQ(RunCommand({"token", "create", "--scope", "root"}, nobody).status, 2);
  EXPECT_EQ(RunCommand({"token", "create"}, nobody).status, 2);
  EXPECT_EQ(RunCommand({"token", "create", "--scope", "metrics", "--days", "367"}, nobody).status,
            2);
  for (const char* const days : {"367d", "1min", "0", "", "month", "3x"}) {
    const Ended refused =
        RunCommand({"token", "create", "--scope", "metrics", "--days", days}, nobody);
    EXPECT_EQ(refused.status, 2) << days;
    ExpectHolds(refused.error, "such as 30, 30d or 12h");
  }
  EXPECT_EQ(RunCommand({"token", "revoke"}, nobody).status, 2);
  EXPECT_EQ(RunCommand({"token", "list"}, nobody).status, 1);
}

TEST(TokenCommand, MakesListsAndRevokesAtARealDaemon) {
  const DaemonProcess daemon;
  const std::string& socket = daemon.socket_path();
  const Ended none = RunCommand({"token", "list"}, socket);
  EXPECT_EQ(none.output, "no tokens\n") << none.error;
  const Ended made =
      RunCommand({"token", "create", "--scope", "metrics", "--note", "prometheus"}, socket);
  EXPECT_EQ(made.status, 0) << made.error;
  EXPECT_EQ(LinesLike(made.output, "hz_[A-Za-z0-9_-]{43}"), 1) << made.output;
  const Ended list = RunCommand({"token", "list", "--json"}, socket);
  const json tokens = ReadJson(list.output).at("tokens");
  ASSERT_EQ(tokens.size(), 1u);
  EXPECT_EQ(tokens.at(0).at("note"), "prometheus");
  EXPECT_EQ(list.output.find(made.output.substr(0, made.output.size() - 1)), std::string::npos);
  const std::string id = tokens.at(0).at("id");
  EXPECT_EQ(LinesLike(RunCommand({"token", "list"}, socket).output, id + " +metrics .*prometheus"),
            1);
  const Ended completed =
      RunCommand({"complete", "3", "--", "harmonaize", "token", "revoke", ""}, socket);
  EXPECT_EQ(completed.output, "words\n" + id + "\tmetrics prometheus\n");
  EXPECT_EQ(RunCommand({"token", "revoke", id}, socket).status, 0);
  EXPECT_EQ(RunCommand({"token", "list"}, socket).output, "no tokens\n");
  const Ended twice = RunCommand({"token", "revoke", id}, socket);
  EXPECT_EQ(twice.status, 1);
  ExpectHolds(twice.error, id);
}

TEST(HttpCommands, AskAgainWhenTheDaemonTakesNoMoreCalls) {
  std::atomic<int> calls{0};
  const ScriptedDaemon daemon([&](const std::string&) {
    return ++calls < 3 ? ScriptedDaemon::Answer(429, R"({"detail": "too many"})")
                       : ScriptedDaemon::Answer(200, R"({"jobs": []})");
  });
  const Ended jobs = RunCommand({"jobs"}, daemon.socket_path());
  EXPECT_EQ(jobs.status, 0) << jobs.error;
  EXPECT_EQ(jobs.output, "no jobs\n");
  EXPECT_EQ(calls, 3);
}

TEST(HttpCommands, AskOnceForWhatChangesSomething) {
  const ScriptedDaemon daemon([](const std::string&) {
    return ScriptedDaemon::Answer(429, R"({"detail": "too many requests"})");
  });
  const Ended made = RunCommand({"token", "create", "--scope", "metrics"}, daemon.socket_path());
  EXPECT_EQ(made.status, 1);
  EXPECT_EQ(made.error, "harmonaize: too many requests\n");
  EXPECT_EQ(daemon.requests().size(), 1u);
}

TEST(HttpCommands, StandAnswersThatAreNone) {
  for (const char* answer :
       {"", "HTTP/1.1", "no HTTP at all\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"}) {
    const ScriptedDaemon daemon([&](const std::string&) { return std::string(answer); });
    for (const char* command : {"jobs", "events"}) {
      const Ended ended = RunCommand({command}, daemon.socket_path());
      EXPECT_EQ(ended.status, 1) << command << ": " << answer;
      EXPECT_EQ(ended.output, "");
      EXPECT_EQ(ended.error.find("harmonaize: the "), 0u) << ended.error;
    }
  }
}

constexpr char kEvent[] = R"({"id": "x.1", "type": "io.harmonaize.rank.late", "data": {}})";

TEST(EventsCommand, SaysHowManyEventsAreMissing) {
  const ScriptedDaemon pages([](const std::string&) {
    return ScriptedDaemon::Answer(200, "{\"events\":[" + std::string(kEvent) +
                                           "],\"next\":null,\"missed\":3,\"more\":false}");
  });
  const Ended read = RunCommand({"events", "--json"}, pages.socket_path());
  EXPECT_EQ(read.status, 0);
  EXPECT_EQ(read.output, "{\"id\":\"x.1\",\"type\":\"io.harmonaize.rank.late\",\"data\":{}}\n");
  EXPECT_EQ(read.error,
            "harmonaize: 3 events are missing here, which the daemon does not keep any more\n");
  const ScriptedDaemon stream([](const std::string&) {
    return ScriptedDaemon::Stream(
        "event: io.harmonaize.events.missed\ndata: {\"missed\":1}\n\n"
        "id: x.1@t\ndata: " +
        std::string(kEvent) + "\n\n");
  });
  const Ended followed =
      RunCommand({"events", "--follow", "--json", "--limit", "1"}, stream.socket_path());
  EXPECT_EQ(followed.status, 0);
  EXPECT_EQ(followed.output, std::string(kEvent) + "\n");
  EXPECT_EQ(followed.error,
            "harmonaize: 1 event is missing here, which the daemon does not keep any more\n");
}

TEST(EventsCommand, ConnectsAgainBehindTheLastEventAlsoWhenTheDaemonIsBusy) {
  std::atomic<int> calls{0};
  const ScriptedDaemon daemon([&](const std::string&) {
    switch (++calls) {
      case 1: return ScriptedDaemon::Stream("id: x.1@t\ndata: " + std::string(kEvent) + "\n\n");
      case 2: return ScriptedDaemon::Answer(503, R"({"detail": "about to end"})");
      case 3: return ScriptedDaemon::Answer(429, R"({"detail": "too many"})");
      case 4: return ScriptedDaemon::Stream("id: x.2@t\ndata: " + std::string(kEvent) + "\n\n");
      default: return ScriptedDaemon::Answer(400, R"({"detail": "'x.2@t' is no event's id"})");
    }
  });
  const Ended followed = RunCommand({"events", "--follow", "--json"}, daemon.socket_path());
  EXPECT_EQ(followed.output, std::string(kEvent) + "\n" + kEvent + "\n");
  // A refusal is the end.
  EXPECT_EQ(followed.status, 1);
  EXPECT_TRUE(followed.error.ends_with("harmonaize: 'x.2@t' is no event's id\n")) << followed.error;
  ExpectHolds(daemon.requests().at(3), "after=x.1%40t");
  ExpectHolds(daemon.requests().at(4), "after=x.2%40t");
}

}  // namespace
}  // namespace harmonaize::testing
