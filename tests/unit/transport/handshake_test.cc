#include "src/transport/link/handshake.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <tuple>
#include <vector>

#include "tests/support/transport_node.h"

namespace harmonaize::transport {
namespace {

using testing::TestKey;

Greeting From(unsigned char host) {
  Greeting greeting;
  greeting.instance.fill(static_cast<std::byte>(host));
  return greeting;
}

/// Carries what one says to the other until both are silent; the bytes that went, in order.
struct Exchange {
  std::vector<std::byte> to_acceptor;
  std::vector<std::byte> to_initiator;
  Status at_acceptor;
  Status at_initiator;

  Exchange(Handshake* initiator, Handshake* acceptor) {
    for (bool more = true; more && at_acceptor.ok() && at_initiator.ok();) {
      more = Carry(initiator, acceptor, &to_acceptor, &at_acceptor);
      more |= Carry(acceptor, initiator, &to_initiator, &at_initiator);
    }
  }

  static bool Carry(Handshake* from, Handshake* to, std::vector<std::byte>* log, Status* status) {
    const std::vector<std::byte> bytes = from->TakeOutput();
    log->insert(log->end(), bytes.begin(), bytes.end());
    // One byte at a time, as a network might.
    for (size_t i = 0; i < bytes.size() && status->ok(); ++i) {
      *status = to->Consume(std::span(bytes).subspan(i, 1));
    }
    return !bytes.empty();
  }
};

TEST(Handshake, OfTwoWithOneKeySucceeds) {
  const ClusterKey key = TestKey();
  Greeting greeting = From(1);
  greeting.purpose = Purpose::kRail;
  greeting.link = 77;
  greeting.initiator_rail = 2;
  greeting.acceptor_rail = 3;
  Handshake initiator(Handshake::Role::kInitiator, &key, greeting);
  Handshake acceptor(Handshake::Role::kAcceptor, &key, From(2));
  const Exchange exchange(&initiator, &acceptor);
  ASSERT_TRUE(initiator.done() && acceptor.done());
  EXPECT_EQ(initiator.Wanted(), 0u);
  EXPECT_EQ(acceptor.theirs().instance, greeting.instance);
  EXPECT_EQ(acceptor.theirs().link, 77u);
  EXPECT_EQ(acceptor.ours().purpose, Purpose::kRail);
  EXPECT_EQ(acceptor.theirs().acceptor_rail, 3);
  EXPECT_EQ(initiator.theirs().instance, From(2).instance);
}

TEST(Handshake, FailsWithAnotherKeyOrNone) {
  const ClusterKey key = TestKey('a');
  const ClusterKey other = TestKey('b');
  const ClusterKey none;
  for (const auto& [first, second] :
       {std::pair{&key, &other}, std::pair{&key, &none}, std::pair{&none, &key}}) {
    Handshake initiator(Handshake::Role::kInitiator, first, From(1));
    Handshake acceptor(Handshake::Role::kAcceptor, second, From(2));
    const Exchange exchange(&initiator, &acceptor);
    EXPECT_FALSE(exchange.at_acceptor.ok());
    EXPECT_FALSE(initiator.done() || acceptor.done());
    // The acceptor has said nothing but its greeting.
    EXPECT_EQ(exchange.to_initiator.size(), kGreetingBytes);
  }
}

TEST(Handshake, RecordedBytesServeNobody) {
  const ClusterKey key = TestKey();
  Handshake initiator(Handshake::Role::kInitiator, &key, From(1));
  Handshake acceptor(Handshake::Role::kAcceptor, &key, From(2));
  const Exchange recorded(&initiator, &acceptor);
  ASSERT_TRUE(acceptor.done());

  Handshake again(Handshake::Role::kAcceptor, &key, From(2));
  const std::span<const std::byte> said = recorded.to_acceptor;
  EXPECT_TRUE(again.Consume(said.first(kGreetingBytes)).ok());
  EXPECT_FALSE(again.Consume(said.subspan(kGreetingBytes)).ok());
  EXPECT_FALSE(again.done());

  Handshake fooled(Handshake::Role::kInitiator, &key, From(1));
  const std::span<const std::byte> answered = recorded.to_initiator;
  EXPECT_TRUE(fooled.Consume(answered.first(kGreetingBytes)).ok());
  EXPECT_FALSE(fooled.Consume(answered.subspan(kGreetingBytes)).ok());
  EXPECT_FALSE(fooled.done());
}

TEST(Handshake, ADaemonIsNotMirrored) {
  // A stranger without the key sends a daemon's own words back to it.
  const ClusterKey key = TestKey();
  Handshake daemon(Handshake::Role::kInitiator, &key, From(1));
  const std::vector<std::byte> greeting = daemon.TakeOutput();
  EXPECT_FALSE(daemon.Consume(greeting).ok());

  // With the instance changed the greeting passes; the proof must not.
  Handshake second(Handshake::Role::kInitiator, &key, From(1));
  std::vector<std::byte> changed = second.TakeOutput();
  ASSERT_EQ(changed.size(), kGreetingBytes);
  std::replace(changed.begin() + 32, changed.begin() + 48, std::byte{1}, std::byte{9});
  ASSERT_TRUE(second.Consume(changed).ok());
  const std::vector<std::byte> proof = second.TakeOutput();
  EXPECT_FALSE(second.Consume(proof).ok());
}

TEST(Handshake, EveryChangedBitIsNoticed) {
  const ClusterKey key = TestKey();
  for (size_t bit = 0; bit < 8 * (kGreetingBytes + sizeof(Proof)); bit += 3) {
    Handshake initiator(Handshake::Role::kInitiator, &key, From(1));
    Handshake acceptor(Handshake::Role::kAcceptor, &key, From(2));
    Status status;
    size_t at = 0;
    for (int turn = 0; turn < 2 && status.ok(); ++turn) {
      std::vector<std::byte> bytes = initiator.TakeOutput();
      for (std::byte& one : bytes) {
        if (at++ == bit / 8) one ^= static_cast<std::byte>(1u << (bit % 8));
      }
      status = acceptor.Consume(bytes);
      if (status.ok()) static_cast<void>(initiator.Consume(acceptor.TakeOutput()));
    }
    EXPECT_FALSE(acceptor.done()) << "bit " << bit;
  }
}

/// Speaks these versions as a host's daemon does.
Greeting Speaking(unsigned char host, const VersionRange& versions) {
  Greeting greeting = From(host);
  greeting.versions = versions;
  return greeting;
}

TEST(Handshake, TwoReleasesTakeTheLatestVersionOfBoth) {
  const ClusterKey key = TestKey();
  const std::vector<std::tuple<VersionRange, VersionRange, uint32_t>> cases = {
      {{6, 7}, {6, 7}, 7}, {{6, 6}, {6, 7}, 6}, {{6, 7}, {5, 6}, 6}, {{7, 9}, {6, 7}, 7}};
  for (const auto& [first, second, version] : cases) {
    Handshake initiator(Handshake::Role::kInitiator, &key, Speaking(1, first));
    Handshake acceptor(Handshake::Role::kAcceptor, &key, Speaking(2, second));
    const Exchange exchange(&initiator, &acceptor);
    ASSERT_TRUE(initiator.done() && acceptor.done());
    EXPECT_EQ(initiator.ours().version, version);
    EXPECT_EQ(acceptor.ours().version, version);
  }
}

TEST(Handshake, ReleasesTooFarApartBothSaySo) {
  const ClusterKey key = TestKey();
  Handshake initiator(Handshake::Role::kInitiator, &key, Speaking(1, {8, 9}));
  Handshake acceptor(Handshake::Role::kAcceptor, &key, Speaking(2, {6, 7}));
  const Status refused = acceptor.Consume(initiator.TakeOutput());
  EXPECT_EQ(refused.code(), Code::kInvalidUsage);
  EXPECT_EQ(refused.message(),
            "it speaks versions 8 to 9 of the protocol between daemons, and this daemon versions 6 "
            "to 7: update this daemon");
  const Status told = initiator.Consume(acceptor.TakeOutput());
  EXPECT_EQ(told.code(), Code::kInvalidUsage);
  EXPECT_EQ(told.message(),
            "it speaks versions 6 to 7 of the protocol between daemons, and this daemon versions 8 "
            "to 9: update the other daemon");
  EXPECT_EQ(acceptor.Wanted(), 0u);
  EXPECT_TRUE(initiator.TakeOutput().empty()) << "the initiator shows no proof";
}

TEST(Handshake, NobodyBetweenMakesThemTakeAnOlderVersion) {
  constexpr size_t kLatestAt = 84;  // of Greeting::versions.latest, by the layout on the wire
  const ClusterKey key = TestKey();
  Handshake initiator(Handshake::Role::kInitiator, &key, Speaking(1, {6, 7}));
  Handshake acceptor(Handshake::Role::kAcceptor, &key, Speaking(2, {6, 7}));
  std::vector<std::byte> greeting = initiator.TakeOutput();
  ASSERT_EQ(greeting[kLatestAt], std::byte{7});
  greeting[kLatestAt] = std::byte{6};
  ASSERT_TRUE(acceptor.Consume(greeting).ok());
  EXPECT_EQ(acceptor.ours().version, 6u);
  ASSERT_TRUE(initiator.Consume(acceptor.TakeOutput()).ok());
  EXPECT_FALSE(acceptor.Consume(initiator.TakeOutput()).ok());
  EXPECT_FALSE(acceptor.done());
}

TEST(Handshake, GarbageIsRefusedAtItsFirstBytes) {
  const ClusterKey key = TestKey();
  Handshake acceptor(Handshake::Role::kAcceptor, &key, From(2));
  const std::string request = "GET / HTTP/1.1\r\n";
  EXPECT_FALSE(acceptor.Consume(std::as_bytes(std::span(request).first(4))).ok());
  EXPECT_EQ(acceptor.Wanted(), 0u);
}

TEST(Handshake, RandomBytesNeverPass) {
  const ClusterKey key = TestKey();
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    Handshake acceptor(Handshake::Role::kAcceptor, &key, From(2));
    Handshake good(Handshake::Role::kInitiator, &key, From(1));
    // Half of them begin as they should.
    std::vector<std::byte> bytes = good.TakeOutput();
    for (size_t i = round % 2 == 0 ? 0 : random() % bytes.size(); i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(random());
    }
    Status status = acceptor.Consume(bytes);
    std::array<std::byte, sizeof(Proof)> proof;
    std::generate(proof.begin(), proof.end(), [&] { return static_cast<std::byte>(random()); });
    if (status.ok()) status = acceptor.Consume(proof);
    EXPECT_FALSE(status.ok());
    EXPECT_FALSE(acceptor.done());
  }
}

TEST(ClusterKey, SignsAsOpensslDoes) {
  const std::vector<std::byte> bytes(131, std::byte{0xaa});
  const ClusterKey key = *ClusterKey::FromBytes(bytes);
  // From `printf 'label\0transcript' | openssl dgst -sha256 -mac HMAC -macopt hexkey:aaaa...`.
  const std::string transcript = "transcript";
  const Proof proof = key.Sign("label", std::as_bytes(std::span(transcript)));
  std::string hex;
  for (const std::byte one : proof) hex += fmt::format("{:02x}", static_cast<unsigned>(one));
  EXPECT_EQ(hex, "29b5ce2a9cb8dd30cdc25db96926c95f36ca594da4a3dbf98ca8a0ce633e1ae9");
  EXPECT_TRUE(key.Verify(proof, "label", std::as_bytes(std::span(transcript))));
  EXPECT_FALSE(key.Verify(proof, "other", std::as_bytes(std::span(transcript))));
}

class KeyFile {
 public:
  KeyFile(const std::string& content, mode_t mode) {
    const int fd = mkstemp(path_.data());
    EXPECT_EQ(write(fd, content.data(), content.size()), static_cast<ssize_t>(content.size()));
    EXPECT_EQ(fchmod(fd, mode), 0);
    close(fd);
  }
  ~KeyFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = ::testing::TempDir() + "harmonaize-key-XXXXXX";
};

TEST(ClusterKey, IsReadFromAFile) {
  const std::string text(44, 'x');
  const KeyFile plain(text, 0600);
  const KeyFile with_newline(text + "\r\n", 0640);
  const Result<ClusterKey> first = ClusterKey::FromFile(plain.path());
  const Result<ClusterKey> second = ClusterKey::FromFile(with_newline.path());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(first->Verify(second->Sign("l", {}), "l", {}));
}

TEST(ClusterKey, RefusesWhatIsNotSecretOrTooShort) {
  const KeyFile open(std::string(44, 'x'), 0644);
  const KeyFile brief(std::string(31, 'x') + "\n\n\n", 0600);
  const KeyFile vast(std::string(5000, 'x'), 0600);
  EXPECT_NE(ClusterKey::FromFile(open.path()).status().message().find("chmod o="),
            std::string::npos);
  EXPECT_NE(ClusterKey::FromFile(brief.path()).status().message().find("31"), std::string::npos);
  EXPECT_FALSE(ClusterKey::FromFile(vast.path()).ok());
  const Status missing = ClusterKey::FromFile("/nowhere/key").status();
  EXPECT_EQ(missing.code(), Code::kInvalidArgument);
  EXPECT_NE(missing.message().find("/nowhere/key"), std::string::npos);
  EXPECT_NE(missing.message().find("urandom"), std::string::npos);
}

}  // namespace
}  // namespace harmonaize::transport
