#include "daemon/http/http_target.h"

#include <gtest/gtest.h>

namespace harmonaize::daemon {
namespace {

TEST(HttpTarget, IsDecoded) {
  const Result<HttpTarget> target =
      ParseHttpTarget("/v1/jobs/team%2Frun%20%C3%A9?since=2026-01-01T00%3A00&a+b=c+d&flag");
  ASSERT_TRUE(target.ok()) << target.status().message();
  EXPECT_EQ(target->path, (std::vector<std::string>{"v1", "jobs", "team/run é"}));
  EXPECT_EQ(target->query, (std::map<std::string, std::string>{
                               {"since", "2026-01-01T00:00"}, {"a b", "c d"}, {"flag", ""}}));
  EXPECT_TRUE(ParseHttpTarget("/")->path.empty());
  EXPECT_TRUE(ParseHttpTarget("/?")->query.empty());
}

TEST(HttpTarget, OfWrongFormIsRefused) {
  for (const char* const wrong :
       {"",        "v1",        "*",       "//",         "/a/",  "/a//b",     "/.",         "/a/..",
        "/%2e%2E", "/a%2",      "/a%zz",   "/%00",       "/%7f", "/%c0%af",   "/%ed%a0%80", "/a#b",
        "/?=1",    "/?a=1&a=2", "/?a&%61", "/?a=%0d%0a", "/?&&", "/%e2%80%ae"}) {
    EXPECT_EQ(ParseHttpTarget(wrong).status().code(), Code::kInvalidArgument) << wrong;
  }
  std::string deep;
  for (int i = 0; i < 33; ++i) deep += "/a";
  EXPECT_FALSE(ParseHttpTarget(deep).ok());
  EXPECT_TRUE(ParseHttpTarget(deep.substr(2)).ok());
  std::string many = "/?";
  for (int i = 0; i < 33; ++i) many += "p" + std::to_string(i) + "=1&";
  EXPECT_FALSE(ParseHttpTarget(many).ok());
  EXPECT_FALSE(ParseHttpTarget("/" + std::string(kMostTargetBytes, 'a')).ok());
}

TEST(HttpTarget, IsTheSameWhenItIsEncodedAgain) {
  const std::vector<std::string> path = {"v1", "a/b", "%", "é?#&", "~-._"};
  const std::string encoded = EncodeHttpPath(path);
  EXPECT_EQ(encoded, "/v1/a%2Fb/%25/%C3%A9%3F%23%26/~-._");
  EXPECT_EQ(ParseHttpTarget(encoded)->path, path);
  EXPECT_EQ(EncodeHttpPath({}), "/");
}

}  // namespace
}  // namespace harmonaize::daemon
