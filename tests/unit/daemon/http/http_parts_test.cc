// The parts of the HTTP server that need no connection.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>

#include "daemon/http/entity_tags.h"
#include "daemon/http/http_exchange.h"
#include "daemon/http/loopback_peer.h"
#include "daemon/http/request_checks.h"
#include "daemon/http/request_reader.h"
#include "daemon/http/tcp_guests.h"
#include "daemon/quota/rate_table.h"
#include "src/base/base64_url.h"
#include "src/base/hex.h"

namespace harmonaize::daemon {
namespace {

using std::chrono::milliseconds;

// ---------------------------------------------------------------------------------------------
// Rates

TEST(RateTable, LetsABurstThroughAndThenTheRate) {
  RateTable rates({10, 3});
  RateTable::Time now{};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rates.Take("a", now), std::nullopt);
  EXPECT_EQ(rates.Take("a", now), milliseconds(100));
  EXPECT_EQ(rates.Take("b", now), std::nullopt) << "each key has a rate of its own";
  EXPECT_EQ(rates.Take("a", now + milliseconds(50)), milliseconds(50));
  EXPECT_EQ(rates.Take("a", now + milliseconds(100)), std::nullopt);
  now += std::chrono::seconds(100);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rates.Take("a", now), std::nullopt);
  EXPECT_NE(rates.Take("a", now), std::nullopt) << "what was not used does not add up";
}

TEST(RateTable, LooksWithoutCounting) {
  RateTable rates({10, 1});
  RateTable::Time now{};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rates.Look("a", now), std::nullopt);
  rates.Take("a", now);
  EXPECT_EQ(rates.Look("a", now), std::chrono::milliseconds(100));
  EXPECT_EQ(rates.Look("b", now), std::nullopt);
}

TEST(RateTable, CountsNothingUnderOneKeyWhereAnotherIsBeyondItsLimit) {
  RateTable rates({10, 3});
  RateTable::Time now{};
  EXPECT_EQ(rates.TakeAll({{"job", 1}, {"tenant", 3}}, now), std::nullopt);
  EXPECT_EQ(rates.TakeAll({{"job", 1}, {"tenant", 1}}, now), milliseconds(100));
  EXPECT_EQ(rates.TakeAll({{"job", 3}, {"tenant", 2}}, now), milliseconds(200)) << "the longer one";
  // The job has two left.
  EXPECT_EQ(rates.Take("job", now, 2), std::nullopt);
  EXPECT_EQ(rates.Take("job", now), milliseconds(100));
}

TEST(RateTable, RemembersABoundedNumberOfKeysAndForgetsTheQuietOnes) {
  RateTable rates({1, 2});
  const RateTable::Time now{};
  while (rates.Take("busy", now) == std::nullopt) continue;
  for (size_t i = 0; i < 3 * RateTable::kMostKeys; ++i) rates.Take(std::to_string(i), now);
  EXPECT_LE(rates.keys(), RateTable::kMostKeys);
  EXPECT_NE(rates.Take("busy", now), std::nullopt) << "a busy one is not forgotten for others";
}

// ---------------------------------------------------------------------------------------------
// Entity tags

TEST(EntityTags, TellBodiesAndCallersApartAndNothingElse) {
  const EntityTags tags = std::move(EntityTags::Create()).value();
  const EntityTags others = std::move(EntityTags::Create()).value();
  HttpCaller first;
  HttpCaller second;
  second.tenant.number = 7;
  EXPECT_EQ(tags.Of(first, "a"), tags.Of(first, "a"));
  EXPECT_NE(tags.Of(first, "a"), tags.Of(first, "b"));
  EXPECT_NE(tags.Of(first, "a"), tags.Of(second, "a"));
  EXPECT_NE(tags.Of(first, "a"), others.Of(first, "a")) << "each process has a key of its own";
}

TEST(EntityTags, AnAnswerThatTheCallerHasIsLeftOut) {
  const EntityTags tags = std::move(EntityTags::Create()).value();
  HttpRequest request;
  request.method = "GET";
  HttpResponse response;
  response.body = "body";
  tags.Apply(request, &response);
  ASSERT_EQ(response.headers.size(), 1u);
  const std::string tag = response.headers[0].second;
  EXPECT_EQ(response.status, 200);

  request.headers["if-none-match"] = "\"other\", W/" + tag;
  HttpResponse again;
  again.body = "body";
  tags.Apply(request, &again);
  EXPECT_EQ(again.status, 304);
  EXPECT_EQ(again.body, "");
  HttpResponse changed;
  changed.body = "another body";
  tags.Apply(request, &changed);
  EXPECT_EQ(changed.status, 200);
  HttpResponse problem = HttpProblem(404, "nothing");
  tags.Apply(request, &problem);
  EXPECT_TRUE(problem.headers.empty());
}

TEST(EntityTags, AreFoundInLists) {
  EXPECT_TRUE(ListsEntityTag("*", "\"a\""));
  EXPECT_TRUE(ListsEntityTag(" \"b\" ,\t\"a\"", "\"a\""));
  EXPECT_TRUE(ListsEntityTag("W/\"a\"", "\"a\""));
  EXPECT_FALSE(ListsEntityTag("", "\"a\""));
  EXPECT_FALSE(ListsEntityTag("a, \"ab\",,", "\"a\""));
}

// ---------------------------------------------------------------------------------------------
// Secrets

TEST(Secrets, AreWrittenAsTheStandardSays) {
  const std::string text = "foobar";
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  EXPECT_EQ(Base64UrlOf(bytes), "Zm9vYmFy");
  EXPECT_EQ(Base64UrlOf(bytes.first(5)), "Zm9vYmE");
  EXPECT_EQ(Base64UrlOf(bytes.first(4)), "Zm9vYg");
  const std::array<uint8_t, 3> high = {0xfb, 0xff, 0xfe};
  EXPECT_EQ(Base64UrlOf(high), "-__-");
  EXPECT_EQ(Base64UrlDecoded("-__-"), (std::vector<uint8_t>(high.begin(), high.end())));
  for (const size_t length : {size_t{0}, size_t{4}, size_t{5}, size_t{6}}) {
    const std::vector<uint8_t> begin(bytes.begin(), bytes.begin() + static_cast<long>(length));
    EXPECT_EQ(Base64UrlDecoded(Base64UrlOf(begin)), begin);
  }
  for (const char* const wrong : {"A", "AB=", "A B", "Zm9vYmF", "+//+"}) {
    EXPECT_EQ(Base64UrlDecoded(wrong), std::nullopt) << wrong;
  }
  EXPECT_EQ(HexOf(high), "fbfffe");
}

// ---------------------------------------------------------------------------------------------
// Hosts and tokens of requests

TEST(RequestChecks, HostsAreReadWithAndWithoutAPort) {
  EXPECT_EQ(HostOf("Example.COM"), "example.com");
  EXPECT_EQ(HostOf("example.com:8443"), "example.com");
  EXPECT_EQ(HostOf("[FD00::1]:8443"), "fd00::1");
  EXPECT_EQ(HostOf("[::1]"), "::1");
  for (const char* const wrong :
       {"", ":80", "a:", "a:x", "a:123456", "[::1", "[::1]x", "a:80:80"}) {
    EXPECT_EQ(HostOf(wrong), std::nullopt) << wrong;
  }
}

TEST(RequestChecks, ABearersSecretIsFoundAndNoOtherOne) {
  EXPECT_EQ(BearerOf("Bearer hz_a"), "hz_a");
  EXPECT_EQ(BearerOf("bearer  hz_a"), "hz_a");
  EXPECT_EQ(BearerOf("Basic aHo6eg=="), std::nullopt);
  EXPECT_EQ(BearerOf("Bearer"), std::nullopt);
  EXPECT_EQ(BearerOf("Bearer "), std::nullopt);
  EXPECT_EQ(BearerOf("hz_a"), std::nullopt);
}

TEST(RequestChecks, TheHandlerSeesNoSecret) {
  RequestHead head;
  head.method = "GET";
  head.target = "/";
  head.headers = {{"host", "a"}, {"authorization", "Bearer hz_a"}, {"cookie", "a=b"}, {"x", "y"}};
  HttpRequest request;
  EXPECT_FALSE(CheckRequest(head, {}, &request).has_value());
  EXPECT_EQ(request.headers, (std::map<std::string, std::string>{{"host", "a"}, {"x", "y"}}));
}

TEST(RequestChecks, AnOriginHasToBeThisHostWithItsScheme) {
  RequestHead head;
  head.method = "GET";
  head.target = "/";
  const auto status = [&](bool is_tls, const std::string& origin) {
    head.headers = {{"host", "a.example:8443"}, {"origin", origin}};
    HttpRequest request;
    const auto refusal = CheckRequest(head, {true, is_tls, {"a.example"}}, &request);
    return refusal ? refusal->status : 200;
  };
  EXPECT_EQ(status(true, "https://a.example:8443"), 200);
  EXPECT_EQ(status(true, "http://a.example:8443"), 403);
  EXPECT_EQ(status(false, "http://A.example:8443"), 200);
  EXPECT_EQ(status(true, "https://a.example"), 403);
  EXPECT_EQ(status(true, "https://a.example:8443.evil"), 403);
}

TEST(RequestReader, CleansWhatHeadersHold) {
  RequestReader reader({16384, 1000});
  std::string bytes =
      "GET / HTTP/1.1\r\nX: a\xff\xe2\x80\xae"
      "b\r\nX: c\r\n\r\nrest";
  EXPECT_EQ(reader.Read(&bytes), RequestReader::Progress::kHead);
  EXPECT_EQ(reader.head().headers.at("x"),
            "a\uFFFD\uFFFD"
            "b, c");
  EXPECT_EQ(reader.Read(&bytes), RequestReader::Progress::kWhole);
  EXPECT_EQ(bytes, "rest") << "what follows is another request's";
}

// ---------------------------------------------------------------------------------------------
// Guests over TCP

HttpLimits FewGuests() {
  HttpLimits limits;
  limits.token_connections = 2;
  limits.address_connections = 3;
  limits.tcp_connections = 4;
  limits.address_strangers = 2;
  limits.strangers = 3;
  return limits;
}

/// Lets strangers in at times of the test's choice.
class Door {
 public:
  explicit Door(const HttpLimits& limits) : guests_(limits) {}

  /// Returns "in", "out", or the number of the stranger that goes.
  std::string Enter(uint64_t guest, const std::string& address) {
    const TcpGuests::Entrance entrance = guests_.Enter(guest, address, now_);
    if (!entrance.admitted) return "out";
    if (!entrance.leaves.has_value()) return "in";
    guests_.Leave(*entrance.leaves);
    return std::to_string(*entrance.leaves);
  }
  void Wait(std::chrono::milliseconds time) { now_ += time; }
  TcpGuests& guests() { return guests_; }

 private:
  TcpGuests guests_;
  TcpGuests::Time now_{};
};

TEST(TcpGuests, TheOldestStrangerGoesForANewOneOnceItHasHadItsTime) {
  Door door(FewGuests());
  EXPECT_EQ(door.Enter(1, "a"), "in");
  EXPECT_EQ(door.Enter(2, "b"), "in");
  EXPECT_EQ(door.Enter(3, "b"), "in");
  door.Wait(std::chrono::milliseconds(499));
  EXPECT_EQ(door.Enter(4, "b"), "out") << "the oldest may still show a token";
  EXPECT_EQ(door.Enter(5, "c"), "out");
  EXPECT_EQ(door.guests().count(), 3u);
  door.Wait(std::chrono::milliseconds(1));
  EXPECT_EQ(door.Enter(6, "b"), "2") << "of the same address";
  EXPECT_EQ(door.guests().count(), 3u);
}

TEST(TcpGuests, TheAddressWithMostStrangersGivesUpAPlaceForAnother) {
  Door door(FewGuests());
  EXPECT_EQ(door.Enter(1, "honest"), "in");
  EXPECT_EQ(door.Enter(2, "flood"), "in");
  EXPECT_EQ(door.Enter(3, "flood"), "in");
  door.Wait(std::chrono::seconds(1));
  EXPECT_EQ(door.Enter(4, "new"), "2") << "although another one is older";
}

TEST(TcpGuests, WhoShowsATokenInItsTimeIsNotSentAwayByAFlood) {
  Door door(FewGuests());
  EXPECT_EQ(door.Enter(1, "a"), "in");
  for (uint64_t flood = 2; flood < 100; ++flood) {
    EXPECT_NE(door.Enter(flood, "a"), "1");
    door.Wait(std::chrono::milliseconds(4));
  }
  EXPECT_TRUE(door.guests().ShowToken(1, "token"));
}

/// Two ends of a TCP connection over loopback. `user`: who makes the client's end.
struct LoopbackPair {
  explicit LoopbackPair(uid_t user, const char* loopback = "127.0.0.1:0") {
    own = transport::NetworkAddress::Parse(loopback).value();
    const FileDescriptor listener(socket(own.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener.get(), own.get(), own.length()), 0);
    EXPECT_EQ(listen(listener.get(), 1), 0);
    EXPECT_EQ(getsockname(listener.get(), generic, &length), 0);
    own = transport::NetworkAddress::From(generic);
    // A socket belongs to the file system's user id of the thread that makes it.
    const auto before = static_cast<uid_t>(setfsuid(user));
    client = FileDescriptor(socket(own.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    setfsuid(before);
    EXPECT_EQ(connect(client.get(), own.get(), own.length()), 0);
    length = sizeof address;
    accepted = FileDescriptor(accept(listener.get(), generic, &length));
    peer = transport::NetworkAddress::From(generic);
  }

  FileDescriptor client;
  FileDescriptor accepted;
  transport::NetworkAddress own;
  transport::NetworkAddress peer;
};

TEST(LoopbackPeers, TheKernelSaysWhoseTheOtherEndIs) {
  Result<LoopbackPeers> peers = LoopbackPeers::Open();
  ASSERT_TRUE(peers.ok()) << peers.status().message();
  const LoopbackPair mine(getuid());
  EXPECT_EQ(peers->UserOf(mine.peer, mine.own), getuid());
  const LoopbackPair six(getuid(), "[::1]:0");
  EXPECT_EQ(peers->UserOf(six.peer, six.own), getuid());
  if (getuid() != 0) return;
  const LoopbackPair other(65534);
  EXPECT_EQ(peers->UserOf(other.peer, other.own), 65534u);
  EXPECT_EQ(peers->UserOf(mine.peer, mine.own), 0u);
}

TEST(LoopbackPeers, ASocketThatNobodyHoldsIsNotTakenForRoots) {
  Result<LoopbackPeers> peers = LoopbackPeers::Open();
  ASSERT_TRUE(peers.ok()) << peers.status().message();
  LoopbackPair pair(getuid());
  pair.client.Reset();
  EXPECT_EQ(peers->UserOf(pair.peer, pair.own), std::nullopt);
  pair.peer.set_port(1);
  EXPECT_EQ(peers->UserOf(pair.peer, pair.own), std::nullopt) << "there is no such socket";
  EXPECT_EQ(peers->UserOf({}, pair.own), std::nullopt);
}

TEST(TcpGuests, ThoseWithATokenStayAndAreCounted) {
  Door door(FewGuests());
  TcpGuests& guests = door.guests();
  for (uint64_t i = 1; i <= 2; ++i) {
    EXPECT_EQ(door.Enter(i, "a"), "in");
    EXPECT_TRUE(guests.ShowToken(i, "first"));
    EXPECT_TRUE(guests.ShowToken(i, "first")) << "a second request counts no more";
  }
  door.Enter(3, "a");
  EXPECT_FALSE(guests.ShowToken(3, "first")) << "as many of the token as there may be";
  EXPECT_TRUE(guests.ShowToken(3, "second"));
  door.Enter(4, "a");
  EXPECT_FALSE(guests.ShowToken(4, "third")) << "as many of the address";
  door.Enter(5, "b");
  EXPECT_TRUE(guests.ShowToken(5, "third"));
  door.Enter(6, "c");
  EXPECT_FALSE(guests.ShowToken(6, "fourth")) << "as many as there may be";
  EXPECT_EQ(guests.WithToken("first"), (std::vector<uint64_t>{1, 2}));
  guests.Leave(1);
  EXPECT_TRUE(guests.ShowToken(6, "first"));
  EXPECT_FALSE(guests.ShowToken(99, "first")) << "nobody of that number is here";
}

TEST(TcpGuests, AnIpv6HostIsOneAddressWhateverItsSuffix) {
  EXPECT_EQ(AddressKey("fd00::1"), AddressKey("fd00::ffff:2"));
  EXPECT_NE(AddressKey("fd00:0:0:1::1"), AddressKey("fd00:0:0:2::1"));
  EXPECT_NE(AddressKey("::ffff:10.0.0.1"), AddressKey("::ffff:10.0.0.2"));
  EXPECT_EQ(AddressKey("10.0.0.1"), "10.0.0.1");
}

// ---------------------------------------------------------------------------------------------
// Problems

TEST(HttpProblem, SaysWhatTheStandardWants) {
  const HttpResponse problem = HttpProblem(InvalidUsage("it is \"so\"\xff"));
  EXPECT_EQ(problem.status, 409);
  EXPECT_EQ(problem.content_type, "application/problem+json");
  EXPECT_EQ(problem.body,
            "{\"type\":\"about:blank\",\"title\":\"Conflict\",\"status\":409,"
            "\"detail\":\"it is \\\"so\\\"\uFFFD\"}\n");
}

}  // namespace
}  // namespace harmonaize::daemon
