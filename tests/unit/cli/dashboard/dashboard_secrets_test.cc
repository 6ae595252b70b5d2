#include "cli/dashboard/dashboard_secrets.h"

#include <gtest/gtest.h>

#include <set>

namespace harmonaize {
namespace {

using std::chrono::seconds;

/// Secrets, and the time that they go by.
struct Fixture {
  DashboardSecrets::Clock::time_point now{};
  DashboardSecrets secrets{[this] { return now; }};

  std::string Link() { return secrets.NewLink().value(); }
  std::optional<std::string> Exchange(const std::string& secret) {
    return secrets.Exchange(secret).value();
  }
};

TEST(DashboardSecrets, ExchangesALinkOnce) {
  Fixture one;
  const std::string link = one.Link();
  const std::optional<std::string> session = one.Exchange(link);
  ASSERT_TRUE(session.has_value());
  EXPECT_NE(*session, link);
  EXPECT_TRUE(one.secrets.Holds(*session));
  EXPECT_FALSE(one.secrets.Holds(link));
  EXPECT_FALSE(one.Exchange(link).has_value());
  EXPECT_TRUE(one.secrets.Holds(*session)) << "the second try ends nothing";
}

TEST(DashboardSecrets, TakesNoTextButTheLink) {
  Fixture one;
  EXPECT_FALSE(one.Exchange("").has_value()) << "there is no link yet";
  const std::string link = one.Link();
  std::string other = link;
  other.back() = other.back() == '0' ? '1' : '0';
  for (const std::string& text : {std::string(), other, link + "0", link.substr(1)}) {
    EXPECT_FALSE(one.Exchange(text).has_value()) << text;
    EXPECT_FALSE(one.secrets.Holds(text)) << text;
  }
  EXPECT_TRUE(one.Exchange(link).has_value());
  EXPECT_FALSE(one.Exchange("").has_value());
}

TEST(DashboardSecrets, ForgetsALinkThatHasWaitedTooLong) {
  Fixture one;
  const std::string early = one.Link();
  one.now += DashboardSecrets::kLinkHolds;
  EXPECT_FALSE(one.Exchange(early).has_value());
  const std::string late = one.Link();
  one.now += DashboardSecrets::kLinkHolds - seconds(1);
  EXPECT_TRUE(one.Exchange(late).has_value());
}

TEST(DashboardSecrets, HasOneLinkAtATime) {
  Fixture one;
  const std::string before = one.Link();
  const std::string after = one.Link();
  EXPECT_FALSE(one.Exchange(before).has_value());
  EXPECT_TRUE(one.Exchange(after).has_value());
}

TEST(DashboardSecrets, EndsTheOldestSessionForAFurtherOne) {
  Fixture one;
  std::vector<std::string> sessions;
  for (size_t i = 0; i <= DashboardSecrets::kMostSessions; ++i) {
    sessions.push_back(one.Exchange(one.Link()).value());
  }
  EXPECT_FALSE(one.secrets.Holds(sessions.front()));
  for (size_t i = 1; i < sessions.size(); ++i) EXPECT_TRUE(one.secrets.Holds(sessions[i])) << i;
  EXPECT_EQ(std::set<std::string>(sessions.begin(), sessions.end()).size(), sessions.size());
}

}  // namespace
}  // namespace harmonaize
