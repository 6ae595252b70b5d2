// Servers that answer wrongly, slowly, without end or not at all, in the place of a cloud's.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>

#include "src/base/log.h"
#include "tests/support/text_checks.h"
#include "tests/unit/daemon/sources/heard_notices.h"
#include "tests/unit/daemon/sources/scripted_server.h"

namespace harmonaize::daemon {
namespace {

constexpr const char* kQuiet = R"({"DocumentIncarnation": 1, "Events": []})";
constexpr const char* kPreempt =
    R"({"DocumentIncarnation": 2, "Events": [{"EventId": "E1", "EventType": "Preempt",
        "Resources": ["vm-1"], "EventStatus": "Started", "NotBefore": "", "Description": "",
        "EventSource": "Platform", "DurationInSeconds": -1}]})";

/// Lines of the log, of all threads.
class LogLines {
 public:
  static void Begin() {
    {
      const std::lock_guard lock(Mutex());
      Lines().clear();
    }
    SetLog(LogLevel::kInfo, kLogAll, [](LogLevel, LogSubsystem, std::string_view line) {
      const std::lock_guard lock(Mutex());
      Lines().emplace_back(line);
    });
  }
  static int Count(const std::string& what) {
    const std::lock_guard lock(Mutex());
    int count = 0;
    for (const std::string& line : Lines()) count += line.find(what) != std::string::npos ? 1 : 0;
    return count;
  }

 private:
  static std::mutex& Mutex() {
    static std::mutex mutex;
    return mutex;
  }
  static std::vector<std::string>& Lines() {
    static std::vector<std::string> lines;
    return lines;
  }
};

/// A deadline for servers that take longer, long enough for others on a busy machine.
constexpr std::chrono::milliseconds kShortDeadline{400};

class HostileServers : public ::testing::Test {
 protected:
  using Bad = std::function<void(ServedConnection&)>;

  HostileServers() { LogLines::Begin(); }
  ~HostileServers() override { SetLog(LogLevel::kWarning, kLogAll, nullptr); }

  /// Serves a preemption, then what `bad` does a few times, then quiet times. Requires that the
  /// source fails meanwhile, that nothing follows from it, and that the source recovers.
  void ExpectHarmless(const Bad& bad, const std::string& reason,
                      std::chrono::milliseconds deadline = PollPace().deadline) {
    std::atomic<int> phase{0};
    std::atomic<int> bad_answers{0};
    ScriptedServer server([&](const ServedRequest&, ServedConnection& connection) {
      if (phase == 0) {
        connection.Send(Answer(200, kPreempt));
      } else if (phase == 1) {
        ++bad_answers;
        bad(connection);
      } else {
        connection.Send(Answer(200, kQuiet));
      }
    });
    HeardNotices heard;
    PollPace pace = QuickPace();
    pace.deadline = deadline;
    const auto poller = Poll(server.endpoint(), &heard, pace);
    EXPECT_EQ(heard.WaitFor(1)[0].id, "E1");
    ASSERT_TRUE(AwaitHealth(*poller, SourceHealth::kWell));
    LogLines::Begin();
    phase = 1;
    EXPECT_TRUE(AwaitHealth(*poller, SourceHealth::kFailing));
    EXPECT_TRUE(Await([&] { return bad_answers >= 3; }));
    EXPECT_EQ(heard.count(), 1u) << "a bad answer changed a notice";
    phase = 2;
    EXPECT_EQ(heard.WaitFor(2)[1].state, CloudNotice::State::kCompleted);
    EXPECT_TRUE(AwaitHealth(*poller, SourceHealth::kWell));
    EXPECT_EQ(LogLines::Count("the source azure cannot be polled"), 1);
    EXPECT_EQ(LogLines::Count("the source azure answers"), 1);
    EXPECT_EQ(LogLines::Count(reason), 1) << reason;
  }

  static std::unique_ptr<SourcePoller> Poll(const std::string& endpoint, HeardNotices* heard,
                                            PollPace pace) {
    Result<std::unique_ptr<SourcePoller>> poller = SourcePoller::Start(
        {{{.kind = "azure", .endpoint = endpoint, .interval_seconds = 1, .node = "vm-1"}}},
        heard->Callback(), pace);
    EXPECT_TRUE(poller.ok()) << poller.status().message();
    return std::move(*poller);
  }
};

TEST_F(HostileServers, ARedirectIsNotFollowed) {
  std::atomic<int> followed{0};
  ScriptedServer elsewhere([&](const ServedRequest&, ServedConnection& connection) {
    ++followed;
    connection.Send(Answer(200, kQuiet));
  });
  ExpectHarmless(
      [&](ServedConnection& connection) {
        connection.Send(Answer(302, "", "Location: " + elsewhere.endpoint() + "/\r\n"));
      },
      "which is not followed");
  EXPECT_EQ(followed, 0);
}

TEST_F(HostileServers, AnErrorOfTheServerIsAFailure) {
  ExpectHarmless([](ServedConnection& connection) { connection.Send(Answer(500, kQuiet)); },
                 "status 500");
}

TEST_F(HostileServers, ABodyWithoutEndIsCutOff) {
  const auto endless = [](ServedConnection& connection) {
    connection.Send("HTTP/1.1 200 OK\r\n\r\n");
    while (connection.Send(std::string(4096, ' '))) {
    }
  };
  ExpectHarmless(endless, "body limit exceeded");
}

TEST_F(HostileServers, AChunkedBodyWithoutEndIsCutOff) {
  const auto endless = [](ServedConnection& connection) {
    connection.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    while (connection.Send("400\r\n" + std::string(1024, ' ') + "\r\n")) {
    }
  };
  ExpectHarmless(endless, "body limit exceeded");
}

TEST_F(HostileServers, ABodyThatIsSaidToBeTooLongIsNotRead) {
  const auto boasting = [](ServedConnection& connection) {
    connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 65537\r\n\r\n{");
    connection.Wait(10'000);
  };
  ExpectHarmless(boasting, "body limit exceeded");
}

TEST_F(HostileServers, ABodyOfTheGreatestLengthIsRead) {
  std::string document = kQuiet;
  document.resize(kMostMetadataBytes, ' ');
  const ScriptedServer server([&](const ServedRequest&, ServedConnection& connection) {
    connection.Send(Answer(200, document));
  });
  HeardNotices heard;
  const auto poller = Poll(server.endpoint(), &heard, QuickPace());
  EXPECT_TRUE(AwaitHealth(*poller, SourceHealth::kWell));
}

TEST_F(HostileServers, AHeadWithoutEndIsCutOff) {
  const auto endless = [](ServedConnection& connection) {
    connection.Send("HTTP/1.1 200 OK\r\n");
    for (int i = 0; connection.Send(fmt::format("X-{}: y\r\n", i)); ++i) {
    }
  };
  ExpectHarmless(endless, "header limit exceeded");
}

TEST_F(HostileServers, SlowBytesRunOutOfTime) {
  const auto slow = [](ServedConnection& connection) {
    for (const char one : Answer(200, kQuiet)) {
      if (!connection.Wait(20) || !connection.Send(std::string(1, one))) return;
    }
  };
  ExpectHarmless(slow, "no answer within 400 ms", kShortDeadline);
}

TEST_F(HostileServers, SilenceRunsOutOfTime) {
  ExpectHarmless([](ServedConnection& connection) { connection.Wait(10'000); },
                 "no answer within 400 ms", kShortDeadline);
}

TEST_F(HostileServers, AConnectionThatIsClosedAtOnceIsAFailure) {
  ExpectHarmless([](ServedConnection&) {}, "cannot read the answer");
}

TEST_F(HostileServers, WhatIsNotHttpIsAFailure) {
  ExpectHarmless([](ServedConnection& connection) { connection.Send("SSH-2.0-\x1b[2J\r\n\r\n"); },
                 "cannot read the answer");
}

TEST_F(HostileServers, WhatIsNoDocumentOfEventsIsAFailure) {
  int place = 0;
  const std::vector<std::string> documents = {"",
                                              "<html>",
                                              "[]",
                                              R"({"DocumentIncarnation": {}, "Events": []})",
                                              R"({"DocumentIncarnation": 1e999, "Events": []})",
                                              "{\"DocumentIncarnation\": 1"};
  std::mutex mutex;
  ExpectHarmless(
      [&](ServedConnection& connection) {
        const std::lock_guard lock(mutex);
        connection.Send(Answer(200, documents[static_cast<size_t>(place++) % documents.size()]));
      },
      "the source azure cannot be polled");
}

TEST_F(HostileServers, ADocumentThatNestsDeeplyIsNotRead) {
  const auto deep = [](ServedConnection& connection) {
    connection.Send(Answer(200, R"({"DocumentIncarnation": 1, "Events": )" +
                                    std::string(30'000, '[') + std::string(30'000, ']') + "}"));
  };
  ExpectHarmless(deep, "nests deeper than 32 levels");
}

TEST_F(HostileServers, ADoubtIsLoggedOnceAndWithdrawsNothing) {
  std::atomic<int> answers{0};
  std::atomic<bool> strange{false};
  ScriptedServer server([&](const ServedRequest&, ServedConnection& connection) {
    ++answers;
    connection.Send(Answer(
        200, strange ? R"({"DocumentIncarnation": 3, "Events": [{"EventId": "E1"}]})" : kPreempt));
  });
  HeardNotices heard;
  const auto poller = Poll(server.endpoint(), &heard, QuickPace());
  heard.WaitFor(1);
  strange = true;
  ASSERT_TRUE(AwaitHealth(*poller, SourceHealth::kDoubtful));
  const int before = answers;
  ASSERT_TRUE(Await([&] { return answers >= before + 3; }));
  EXPECT_EQ(heard.count(), 1u);
  EXPECT_EQ(LogLines::Count("says something that is not understood"), 1);
}

TEST_F(HostileServers, AServerThatRefusesConnectionsIsTriedAgain) {
  std::string endpoint;
  {
    const ScriptedServer gone([](const ServedRequest&, ServedConnection&) {});
    endpoint = gone.endpoint();
  }
  HeardNotices heard;
  const auto poller = Poll(endpoint, &heard, QuickPace());
  EXPECT_TRUE(AwaitHealth(*poller, SourceHealth::kFailing));
  EXPECT_EQ(LogLines::Count("cannot connect: Connection refused"), 1);
}

TEST_F(HostileServers, PausesGrowWithFailures) {
  std::atomic<int> answers{0};
  ScriptedServer server([&](const ServedRequest&, ServedConnection& connection) {
    ++answers;
    connection.Send(Answer(503, ""));
  });
  PollPace pace = QuickPace();
  pace.second = std::chrono::milliseconds(4);
  pace.most_pause = std::chrono::hours(1);
  HeardNotices heard;
  const auto begin = std::chrono::steady_clock::now();
  const auto poller = Poll(server.endpoint(), &heard, pace);
  ASSERT_TRUE(Await([&] { return answers >= 7; }));
  // The seventh attempt is behind pauses of 8, 16, 32, 64, 128 and 256 ms, less a tenth.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(453));
}

TEST_F(HostileServers, StopReturnsWhateverTheServerDoes) {
  for (const auto& behave :
       std::vector<Bad>{[](ServedConnection& connection) { connection.Wait(60'000); },
                        [](ServedConnection& connection) {
                          while (connection.Send(" ") && connection.Wait(5)) {
                          }
                        },
                        [](ServedConnection& connection) {
                          connection.Send("HTTP/1.1 200 OK\r\n\r\n");
                          connection.Wait(60'000);
                        }}) {
    ScriptedServer server(
        [&](const ServedRequest&, ServedConnection& connection) { behave(connection); });
    PollPace pace;
    // A stop that waited for the request would take the time of the whole test.
    pace.deadline = std::chrono::hours(1);
    HeardNotices heard;
    const auto poller = Poll(server.endpoint(), &heard, pace);
    ASSERT_TRUE(Await([&] { return server.connections() > 0; }));
    poller->Stop();
    poller->Stop();
  }
}

TEST_F(HostileServers, AnExceptionOfTheCallbackEndsThatCallAlone) {
  ScriptedServer server([](const ServedRequest&, ServedConnection& connection) {
    connection.Send(Answer(200, kPreempt));
  });
  std::atomic<int> calls{0};
  const auto poller = SourcePoller::Start(
      {{{.kind = "azure", .endpoint = server.endpoint(), .interval_seconds = 1, .node = "vm-1"}}},
      [&](const CloudNotice&) {
        ++calls;
        throw std::runtime_error("for the test");
      },
      QuickPace());
  ASSERT_TRUE(poller.ok());
  EXPECT_TRUE(AwaitHealth(**poller, SourceHealth::kWell));
  EXPECT_EQ(calls, 1);
}

TEST_F(HostileServers, ProxyVariablesAreNotLookedAt) {
  std::atomic<int> proxied{0};
  ScriptedServer proxy([&](const ServedRequest&, ServedConnection& connection) {
    ++proxied;
    connection.Send(Answer(200, kPreempt));
  });
  ScriptedServer server([](const ServedRequest&, ServedConnection& connection) {
    connection.Send(Answer(200, kQuiet));
  });
  for (const char* name : {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}) {
    setenv(name, proxy.endpoint().c_str(), 1);
  }
  HeardNotices heard;
  const auto poller = Poll(server.endpoint(), &heard, QuickPace());
  EXPECT_TRUE(AwaitHealth(*poller, SourceHealth::kWell));
  for (const char* name : {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}) unsetenv(name);
  EXPECT_EQ(proxied, 0);
}

TEST(SourcePoller, WithoutSourcesItHasNoThreadAndNothingToApprove) {
  const auto poller = SourcePoller::Start({}, [](const CloudNotice&) {});
  ASSERT_TRUE(poller.ok());
  EXPECT_TRUE((*poller)->Report().empty());
  Status status;
  (*poller)->Approve("E1", [&](Status outcome) { status = std::move(outcome); });
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
}

TEST(SourcePoller, AWrongConfigurationIsRefused) {
  const auto poller = SourcePoller::Start({{{.kind = "asure"}}}, [](const CloudNotice&) {});
  EXPECT_EQ(poller.status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace harmonaize::daemon
