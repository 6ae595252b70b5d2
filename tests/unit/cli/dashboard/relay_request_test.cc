#include "cli/dashboard/relay_request.h"

#include <gtest/gtest.h>

#include <string>

namespace harmonaize {
namespace {

constexpr uint16_t kPort = 4711;

std::string Head(const std::string& first, const std::string& more = "") {
  return first + " HTTP/1.1\r\nHost: 127.0.0.1:4711\r\n" + more + "\r\n";
}

RelayHead::State StateOf(const std::string& text) {
  return ReadRelayHead(text).state;
}

/// Returns the action for a request, and the status of a refusal behind it.
std::string DecisionOn(const std::string& text) {
  const RelayHead head = ReadRelayHead(text);
  if (head.state != RelayHead::State::kWhole) return "not whole";
  const RelayDecision decision = DecideRelay(head.request, kPort);
  switch (decision.action) {
    case RelayAction::kShowPage: return "page";
    case RelayAction::kExchange: return "exchange";
    case RelayAction::kForward: return "forward";
    case RelayAction::kRefuse: break;
  }
  EXPECT_FALSE(decision.detail.empty());
  return std::to_string(decision.status);
}

TEST(RelayRequest, IsReadOnceItsHeadIsWhole) {
  const std::string text = Head("GET /v1/events?follow=true",
                                "Authorization: Bearer hz_00\r\nAccept: text/event-stream\r\n"
                                "Last-Event-ID: ab.01@7\r\nOrigin: http://127.0.0.1:4711\r\n");
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(StateOf(text.substr(0, size)), RelayHead::State::kMore) << size;
  }
  const RelayHead head = ReadRelayHead(text);
  ASSERT_EQ(head.state, RelayHead::State::kWhole);
  EXPECT_EQ(head.request.method, "GET");
  EXPECT_EQ(head.request.target, "/v1/events?follow=true");
  EXPECT_EQ(head.request.host, "127.0.0.1:4711");
  EXPECT_EQ(head.request.origin, "http://127.0.0.1:4711");
  EXPECT_EQ(head.request.bearer, "hz_00");
  EXPECT_EQ(head.request.last_event_id, "ab.01@7");
  EXPECT_TRUE(head.request.wants_stream);
  EXPECT_FALSE(head.request.has_body);
}

TEST(RelayRequest, IsWrongWhereItsFormIs) {
  EXPECT_EQ(StateOf("\x16\x03\x01 a TLS hello, maybe\r\n\r\n"), RelayHead::State::kWrong);
  EXPECT_EQ(StateOf("GET  HTTP/1.1\r\n\r\n"), RelayHead::State::kWrong);
  EXPECT_EQ(StateOf(Head("GET /", "Host: localhost:4711\r\n")), RelayHead::State::kWrong);
  EXPECT_EQ(StateOf(Head("GET /", "Origin: a\r\nOrigin: b\r\n")), RelayHead::State::kWrong);
  EXPECT_EQ(StateOf(Head("GET /", "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n")),
            RelayHead::State::kWrong);
  EXPECT_EQ(StateOf(Head("GET /", "Last-Event-ID: a b\r\n")), RelayHead::State::kWrong);
  EXPECT_EQ(StateOf(Head("GET /", "Authorization: Bearer " + std::string(2000, 'a') + "\r\n")),
            RelayHead::State::kWrong);
  EXPECT_EQ(StateOf(Head("GET /", "X: " + std::string(kMostRelayHeadBytes, 'a') + "\r\n")),
            RelayHead::State::kWrong);
  EXPECT_EQ(StateOf("GET /" + std::string(kMostRelayHeadBytes, 'a')), RelayHead::State::kWrong);
}

TEST(RelayRequest, LeadsToThePageTheExchangeOrTheDaemon) {
  EXPECT_EQ(DecisionOn(Head("GET /")), "page");
  EXPECT_EQ(DecisionOn(Head("POST /v1/token/exchange", "Content-Length: 0\r\n")), "exchange");
  EXPECT_EQ(DecisionOn(Head("GET /v1/jobs")), "forward");
  EXPECT_EQ(DecisionOn("GET /v1/jobs HTTP/1.1\r\nHost: localhost:4711\r\n\r\n"), "forward");
}

TEST(RelayRequest, OfAnotherHostOrOriginIsRefused) {
  for (const char* const host : {"evil.example:4711", "127.0.0.1", "127.0.0.1:80", "localhost",
                                 "127.0.0.1:4711.evil.example", ""}) {
    EXPECT_EQ(DecisionOn("GET /v1/jobs HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n"), "421")
        << host;
  }
  EXPECT_EQ(DecisionOn("GET /v1/jobs HTTP/1.0\r\n\r\n"), "421");
  for (const char* const origin : {"http://evil.example", "null", "https://127.0.0.1:4711",
                                   "http://localhost:4711", "http://127.0.0.1:4712"}) {
    EXPECT_EQ(DecisionOn(Head("GET /v1/jobs", "Origin: " + std::string(origin) + "\r\n")), "403")
        << origin;
  }
}

TEST(RelayRequest, ThatWouldChangeSomethingIsRefused) {
  for (const char* const line : {"POST /v1/tokens", "DELETE /v1/tokens/3f", "PUT /v1/policy",
                                 "HEAD /v1/jobs", "POST /v1/token/exchange?x=1", "TRACE /"}) {
    EXPECT_EQ(DecisionOn(Head(line)), "405") << line;
  }
  for (const char* const line : {"GET /metrics", "GET /v1", "GET //v1/jobs", "GET /favicon.ico"}) {
    EXPECT_EQ(DecisionOn(Head(line)), "404") << line;
  }
  EXPECT_EQ(DecisionOn(Head("GET /v1/jobs", "Content-Length: 5\r\n")), "413");
  EXPECT_EQ(DecisionOn(Head("POST /v1/token/exchange", "Transfer-Encoding: chunked\r\n")), "413");
}

TEST(RelayRequest, GoesOnWithoutWhatTheBrowserSaidOfItself) {
  const RelayHead head = ReadRelayHead(Head(
      "GET /v1/events?follow=true",
      "Authorization: Bearer hz_00\r\nCookie: a=b\r\nUser-Agent: x\r\n"
      "Origin: http://127.0.0.1:4711\r\nAccept: text/event-stream\r\nLast-Event-ID: ab@7\r\n"));
  EXPECT_EQ(ForwardedRequest(head.request),
            "GET /v1/events?follow=true HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            "Accept: text/event-stream\r\nLast-Event-ID: ab@7\r\n\r\n");
}

}  // namespace
}  // namespace harmonaize
