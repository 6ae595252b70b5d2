#include "daemon/ras/ras_command.h"

#include <gtest/gtest.h>

namespace harmonaize::daemon {
namespace {

using Kind = RasCommand::Kind;

TEST(RasCommand, WordsMayBeInAnyCase) {
  EXPECT_EQ(ParseRasCommand("CLIENT PROTOCOL 2").kind, Kind::kGreeting);
  EXPECT_EQ(ParseRasCommand("client protocol 99").kind, Kind::kGreeting);
  EXPECT_EQ(ParseRasCommand("STATUS").kind, Kind::kStatus);
  EXPECT_EQ(ParseRasCommand("status\r").kind, Kind::kStatus);
  EXPECT_FALSE(ParseRasCommand("Status").verbose);
  EXPECT_TRUE(ParseRasCommand("Verbose Status").verbose);
  EXPECT_TRUE(ParseRasCommand("SET FORMAT json").json);
  EXPECT_EQ(ParseRasCommand("SET FORMAT TEXT").kind, Kind::kFormat);
}

TEST(RasCommand, ReadsTimes) {
  EXPECT_EQ(ParseRasCommand("TIMEOUT 7").timeout_seconds, 7);
  EXPECT_EQ(ParseRasCommand("timeout 0").kind, Kind::kTimeout);
  EXPECT_EQ(ParseRasCommand("TIMEOUT 999999").timeout_seconds, kMostRasTimeoutSeconds);
  EXPECT_EQ(ParseRasCommand("TIMEOUT 99999999999999").timeout_seconds, kMostRasTimeoutSeconds);
  for (const char* line : {"TIMEOUT ", "TIMEOUT x", "TIMEOUT -1", "TIMEOUT 5s", "TIMEOUT 5 ",
                           "TIMEOUT -99999999999999"}) {
    EXPECT_EQ(ParseRasCommand(line).error.rfind("ERROR: Invalid timeout value ", 0), 0u) << line;
  }
}

TEST(RasCommand, ReadsGroupsOfEvents) {
  EXPECT_EQ(ParseRasCommand("MONITOR").groups, unsigned{kRasLifecycle});
  EXPECT_EQ(ParseRasCommand("MONITOR ").groups, unsigned{kRasLifecycle});
  EXPECT_EQ(ParseRasCommand("monitor trace").groups, unsigned{kRasTrace});
  EXPECT_EQ(ParseRasCommand("MONITOR lifecycle,TRACE").groups, unsigned{kRasAllEvents});
  EXPECT_EQ(ParseRasCommand("MONITOR all").groups, unsigned{kRasAllEvents});
  EXPECT_EQ(ParseRasCommand("MONITOR ,, ,").groups, unsigned{kRasLifecycle});
  EXPECT_EQ(ParseRasCommand("MONITOR all,weather").error, "ERROR: Invalid event group weather");
  EXPECT_EQ(ParseRasCommand("MONITORS").error, "ERROR: Unknown command MONITORS");
}

TEST(RasCommand, SaysWhatItDoesNotKnowInCleanText) {
  EXPECT_EQ(ParseRasCommand("").error, "ERROR: Unknown command ");
  EXPECT_EQ(ParseRasCommand("SET FORMAT xml").error, "ERROR: Invalid format xml");
  const std::string error = ParseRasCommand("\x1b[31m" + std::string(500, 'x')).error;
  EXPECT_EQ(error.find('\x1b'), std::string::npos);
  EXPECT_LT(error.size(), 100u);
}

TEST(RasCommand, DoesNotAnswerHttp) {
  EXPECT_EQ(ParseRasCommand("GET / HTTP/1.1\r").kind, Kind::kForeign);
  EXPECT_EQ(ParseRasCommand("POST /status HTTP/1.0").kind, Kind::kForeign);
}

}  // namespace
}  // namespace harmonaize::daemon
