#include "src/transport/address.h"

#include <gtest/gtest.h>

namespace harmonaize::transport {
namespace {

TEST(NetworkAddress, IsReadAndWritten) {
  for (const char* text : {"10.0.0.1:7000", "127.0.0.1:0", "[::1]:7000", "[fd00::1:2]:65535"}) {
    Result<NetworkAddress> address = NetworkAddress::Parse(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(address->ToString(), text);
  }
  EXPECT_EQ(NetworkAddress::Parse("10.0.0.1", 9)->ToString(), "10.0.0.1:9");
  EXPECT_EQ(NetworkAddress::Parse("fd00::1", 9)->ToString(), "[fd00::1]:9");
  EXPECT_EQ(NetworkAddress::Parse("[fd00::1]", 9)->ToString(), "[fd00::1]:9");
}

TEST(NetworkAddress, RefusesWhatIsNone) {
  for (const char* text : {"", ":", "host", "host:1", "10.0.0.1:", "10.0.0.1:65536", "10.0.0.1:x",
                           "10.0.0:1", "[::1", "[::1]7", "[::1]:", "10.0.0.1:-1", "10.0.0.1:1 "}) {
    const Result<NetworkAddress> address = NetworkAddress::Parse(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_EQ(address.status().code(), Code::kInvalidArgument);
    EXPECT_NE(address.status().message().find(std::string("'") + text + "'"), std::string::npos);
  }
  EXPECT_NE(NetworkAddress::Parse("fe80::1%nowhere").status().message().find("device"),
            std::string::npos);
}

TEST(NetworkAddress, KnowsItsKind) {
  EXPECT_TRUE(NetworkAddress::Parse("127.3.4.5")->IsLoopback());
  EXPECT_TRUE(NetworkAddress::Parse("::1")->IsLoopback());
  EXPECT_FALSE(NetworkAddress::Parse("10.0.0.1")->IsLoopback());
  EXPECT_TRUE(NetworkAddress::Parse("0.0.0.0")->IsWildcard());
  EXPECT_TRUE(NetworkAddress::Parse("::")->IsWildcard());
  EXPECT_FALSE(NetworkAddress::Parse("::1")->IsWildcard());
  EXPECT_FALSE(NetworkAddress().IsWildcard());
  EXPECT_TRUE(NetworkAddress::Parse("fe80::1")->IsLinkLocal());
}

TEST(NetworkAddress, ComparesHostsAndPrefixes) {
  const auto address = [](const char* text) { return *NetworkAddress::Parse(text); };
  EXPECT_TRUE(address("10.0.0.1:1").SameHost(address("10.0.0.1:2")));
  EXPECT_FALSE(address("10.0.0.1").SameHost(address("10.0.0.2")));
  EXPECT_FALSE(address("10.0.0.1").SameHost(address("::1")));
  EXPECT_TRUE(address("10.0.3.1").SamePrefix(address("10.0.0.2"), 22));
  EXPECT_FALSE(address("10.0.3.1").SamePrefix(address("10.0.0.2"), 23));
  EXPECT_TRUE(address("10.0.3.1").SamePrefix(address("99.0.0.2"), 0));
  EXPECT_FALSE(address("10.0.3.1").SamePrefix(address("10.0.3.2"), 32));
  EXPECT_FALSE(address("10.0.3.1").SamePrefix(address("fd00::1"), 0));
}

}  // namespace
}  // namespace harmonaize::transport
