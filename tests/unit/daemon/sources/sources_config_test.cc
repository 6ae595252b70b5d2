#include "daemon/sources/sources_config.h"

#include <gtest/gtest.h>

#include "daemon/sources/endpoint.h"
#include "tests/support/text_checks.h"

namespace harmonaize::daemon {
namespace {

SourceConfig Kubernetes() {
  return {.kind = "kubernetes",
          .endpoint = "https://10.96.0.1:6443",
          .token_file = "/token",
          .ca_file = "/ca.crt",
          .node = "node-7"};
}

std::string ErrorOf(const SourceConfig& source) {
  const Status status = ValidateSources({{source}});
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  return status.message();
}

TEST(SourcesConfig, WhatTheCloudsUsuallyNeedIsValid) {
  EXPECT_TRUE(ValidateSources({}).ok());
  const Status all =
      ValidateSources({{{.kind = "azure"}, {.kind = "aws"}, {.kind = "gcp"}, Kubernetes()}});
  EXPECT_TRUE(all.ok()) << all.message();
  EXPECT_TRUE(ValidateSources({{{.kind = "aws", .endpoint = "http://[fd00:ec2::254]"}}}).ok());
  EXPECT_TRUE(ValidateSources({{{.kind = "azure", .node = "vmss_0"}}}).ok());
}

TEST(SourcesConfig, ErrorsNameTheKeyAndTheWayOut) {
  ExpectHolds(ErrorOf({.kind = "azur"}), "sources[0].kind is 'azur', did you mean 'azure'?");
  ExpectHolds(ErrorOf({.kind = "aws", .interval_seconds = -1}), "sources[0].interval_seconds");
  ExpectHolds(ErrorOf({.kind = "aws", .interval_seconds = 3601}), "possible are 0");
  ExpectHolds(ErrorOf({.kind = "aws", .token_file = "/t"}),
              "sources[0].token_file is for kubernetes");
  ExpectHolds(ErrorOf({.kind = "gcp", .ca_file = "/c"}), "sources[0].ca_file is for kubernetes");
  ExpectHolds(ErrorOf({.kind = "gcp", .node = "x"}), "sources[0].node is for kubernetes and azure");
  ExpectHolds(ErrorOf({.kind = "aws", .approve_when_all_agree = true}),
              "sources[0].approve_when_all_agree is for azure");
  SourceConfig source = Kubernetes();
  source.endpoint = "";
  ExpectHolds(ErrorOf(source), "sources[0].endpoint is missing");
  source = Kubernetes();
  source.token_file = "";
  ExpectHolds(ErrorOf(source), "sources[0].token_file is missing");
  source = Kubernetes();
  source.ca_file = "";
  ExpectHolds(ErrorOf(source), "sources[0].ca_file is missing");
  source = Kubernetes();
  source.node = "";
  ExpectHolds(ErrorOf(source), "sources[0].node is missing");
  for (const char* node : {"a/b", "a?b", "a b", "..", "../x", "a%2fb", "a\nb"}) {
    source.node = node;
    ExpectHolds(ErrorOf(source), "sources[0].node");
  }
  const Status twice = ValidateSources({{{.kind = "aws"}, {.kind = "aws"}}});
  ExpectHolds(twice.message(), "sources[1].kind is 'aws' a second time");
}

TEST(SourcesConfig, ATokenNeverGoesOverPlainHttpAndNoNameLeadsACloudsSourceElsewhere) {
  SourceConfig source = Kubernetes();
  source.endpoint = "http://10.96.0.1";
  ExpectHolds(ErrorOf(source), "must begin with https://");
  ExpectHolds(ErrorOf({.kind = "aws", .endpoint = "http://metadata"}), "an IP address");
  ExpectHolds(ErrorOf({.kind = "aws", .endpoint = "https://169.254.169.254"}), "must be http://");
}

TEST(Endpoint, IsAHostAndAPort) {
  const Result<Endpoint> plain = ParseEndpoint("http://169.254.169.254");
  ASSERT_TRUE(plain.ok());
  EXPECT_FALSE(plain->tls);
  EXPECT_TRUE(plain->is_address);
  EXPECT_EQ(plain->port, 80);
  EXPECT_EQ(plain->HostHeader(), "169.254.169.254");
  const Result<Endpoint> named = ParseEndpoint("https://api.example:6443");
  ASSERT_TRUE(named.ok());
  EXPECT_TRUE(named->tls);
  EXPECT_FALSE(named->is_address);
  EXPECT_EQ(named->HostHeader(), "api.example:6443");
  const Result<Endpoint> six = ParseEndpoint("https://[::1]");
  ASSERT_TRUE(six.ok());
  EXPECT_EQ(six->host, "::1");
  EXPECT_EQ(six->port, 443);
  EXPECT_EQ(six->HostHeader(), "[::1]");
  EXPECT_EQ(ParseEndpoint("http://[::1]:8080")->HostHeader(), "[::1]:8080");
}

TEST(Endpoint, NothingElseIsOne) {
  for (const char* text : {"",
                           "169.254.169.254",
                           "ftp://a",
                           "http://",
                           "http://:80",
                           "http://a:0",
                           "http://a:65536",
                           "http://a:",
                           "http://a:8x",
                           "http://a/",
                           "http://a?b",
                           "http://user@a",
                           "http://a b",
                           "http://[::1",
                           "http://::1",
                           "http://[1.2.3.4]",
                           "http://[::1]8080",
                           "http://[]",
                           "HTTP://a",
                           "http://-a",
                           "http://.a",
                           "http://a\r\nHost: b",
                           "http://a:80:80"}) {
    EXPECT_FALSE(ParseEndpoint(text).ok()) << text;
  }
}

}  // namespace
}  // namespace harmonaize::daemon
