// Transfers between daemons, over real connections of this host.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/transfer/part_fetch.h"
#include "daemon/transfer/part_server.h"
#include "src/base/clock.h"
#include "src/memory/shared_memory.h"

namespace harmonaize::daemon {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

std::shared_ptr<const SecureSettings> SettingsOfKey(char filler) {
  transport::Proof key;
  key.fill(static_cast<std::byte>(filler));
  return *SecureSettings::Of(key);
}

/// A server with one source, in which each 64-bit word is its own number.
class PartTransferTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kBytes = 3 * kTransferPiece + 4096;

  PartTransferTest() {
    signal(SIGPIPE, SIG_IGN);  // as the daemon does
    Result<SharedMemory> made = CreateSharedMemory("part", kBytes);
    memory_ = std::make_shared<SharedMemory>(std::move(*made));
    for (uint64_t i = 0; i < kBytes / 8; ++i) {
      std::memcpy(memory_->mapping.data() + 8 * i, &i, sizeof i);
    }
  }

  TransferSource Source(bool when_idle = false) {
    return {.keeper = memory_,
            .descriptor = memory_->descriptor.get(),
            .bytes = kBytes,
            .is_void = is_void_,
            .when_idle = when_idle,
            .tenant = 7};
  }
  transport::NetworkAddress At(uint16_t port) {
    transport::NetworkAddress address = *transport::NetworkAddress::Parse("127.0.0.1");
    address.set_port(port);
    return address;
  }
  static Status Read(PartFetch* fetch, uint64_t at, std::span<std::byte> into) {
    std::promise<Status> read;
    const Status asked =
        fetch->Read(at, into, [&](const Status& status) { read.set_value(status); });
    return asked.ok() ? read.get_future().get() : asked;
  }

  std::shared_ptr<const SecureSettings> settings_ = SettingsOfKey('k');
  std::shared_ptr<SharedMemory> memory_;
  std::shared_ptr<std::atomic<bool>> is_void_ = std::make_shared<std::atomic<bool>>(false);
  IdleLink idle_link_;
  PartServer server_{{.address = *transport::NetworkAddress::Parse("127.0.0.1"),
                      .settings = settings_,
                      .idle_link = &idle_link_}};
};

TEST_F(PartTransferTest, RangesComeAsTheyAre) {
  const PartServer::Offer offer = *server_.Add(Source());
  PartFetch fetch(At(offer.port), offer.ticket, settings_);
  std::vector<std::byte> all(kBytes);
  ASSERT_TRUE(Read(&fetch, 0, all).ok());
  EXPECT_EQ(std::memcmp(all.data(), memory_->mapping.data(), kBytes), 0);
  std::vector<std::byte> some(kTransferPiece + 8);
  ASSERT_TRUE(Read(&fetch, 4096, some).ok()) << "one ticket serves a connection";
  EXPECT_EQ(std::memcmp(some.data(), memory_->mapping.data() + 4096, some.size()), 0);
  ASSERT_TRUE(Read(&fetch, kBytes, {}).ok());
}

TEST_F(PartTransferTest, WhatIsNotInTheSourceIsRefused) {
  const PartServer::Offer offer = *server_.Add(Source());
  PartFetch fetch(At(offer.port), offer.ticket, settings_);
  std::vector<std::byte> bytes(16);
  EXPECT_FALSE(Read(&fetch, kBytes - 8, bytes).ok());
  EXPECT_FALSE(Read(&fetch, UINT64_MAX - 8, bytes).ok());
}

TEST_F(PartTransferTest, ATicketServesItsSourceAndNoOtherTicketDoes) {
  const PartServer::Offer offer = *server_.Add(Source());
  std::vector<std::byte> bytes(16);
  TransferTicket other = offer.ticket;
  other[0] ^= std::byte{1};
  PartFetch wrong(At(offer.port), other, settings_);
  EXPECT_EQ(Read(&wrong, 0, bytes).code(), Code::kUnavailable);
  PartFetch first(At(offer.port), offer.ticket, settings_);
  EXPECT_TRUE(Read(&first, 0, bytes).ok());
  // The thread and its connection have ended by then, and begin anew.
  std::this_thread::sleep_for(200ms);
  EXPECT_TRUE(Read(&first, 8, bytes).ok());
}

/// More sources than the server has connections: each is read while there is room.
TEST_F(PartTransferTest, ManySourcesAreReadBeyondTheNumberOfConnections) {
  constexpr size_t kSources = 150;
  std::vector<std::unique_ptr<PartFetch>> fetches;
  std::vector<std::vector<std::byte>> read(kSources, std::vector<std::byte>(kBytes));
  std::vector<std::promise<Status>> done(kSources);
  for (size_t i = 0; i < kSources; ++i) {
    const PartServer::Offer offer = *server_.Add(Source());
    fetches.push_back(std::make_unique<PartFetch>(At(offer.port), offer.ticket, settings_));
    ASSERT_TRUE(fetches.back()
                    ->Read(0, read[i], [&, i](const Status& status) { done[i].set_value(status); })
                    .ok());
  }
  for (size_t i = 0; i < kSources; ++i) {
    const Status status = done[i].get_future().get();
    ASSERT_TRUE(status.ok()) << i << ": " << status.ToString();
    ASSERT_EQ(std::memcmp(read[i].data(), memory_->mapping.data(), kBytes), 0) << i;
  }
}

TEST_F(PartTransferTest, ATenantLeavesConnectionsForTheOthers) {
  const PartServer::Offer offer = *server_.Add(Source());
  const TransferRequest request = {.ticket = offer.ticket, .at = 0, .bytes = 8};
  // They stay between two requests for as long as they may.
  std::vector<std::unique_ptr<SecureSocket>> held;
  for (int i = 0; i < 300; ++i) {
    auto socket = SecureSocket::Connect(At(offer.port), settings_);
    TransferAnswer answer{};
    const bool is_served = socket.ok() &&
                           (*socket)->Send(std::as_bytes(std::span(&request, 1))).ok() &&
                           (*socket)->Receive(std::as_writable_bytes(std::span(&answer, 1))).ok();
    if (is_served) held.push_back(std::move(*socket));
  }
  EXPECT_EQ(held.size(), 128u) << "half of them";
  TransferSource others = Source();
  others.tenant = 8;
  const PartServer::Offer offer_of_other = *server_.Add(std::move(others));
  PartFetch fetch(At(offer_of_other.port), offer_of_other.ticket, settings_);
  std::vector<std::byte> bytes(16);
  EXPECT_TRUE(Read(&fetch, 0, bytes).ok());
}

TEST_F(PartTransferTest, StrangersOfAnotherHostKeepNobodyOut) {
  const PartServer::Offer offer = *server_.Add(Source());
  const transport::NetworkAddress address = At(offer.port);
  const auto connected = [&address] {
    FileDescriptor stranger(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const transport::NetworkAddress other = *transport::NetworkAddress::Parse("127.0.0.2");
    EXPECT_EQ(bind(stranger.get(), other.get(), other.length()), 0);
    EXPECT_EQ(connect(stranger.get(), address.get(), address.length()), 0);
    return stranger;
  };
  // They say nothing, and come again when they are sent away.
  std::vector<FileDescriptor> strangers(100);
  std::atomic<bool> is_over{false};
  std::atomic<int> rounds{0};
  std::thread flood([&] {
    for (; !is_over; ++rounds) {
      for (FileDescriptor& stranger : strangers) {
        char byte = 0;
        const bool is_there =
            stranger.valid() && recv(stranger.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
        if (!is_there) stranger = connected();
      }
      std::this_thread::sleep_for(2ms);
    }
  });
  while (rounds < 5) std::this_thread::sleep_for(1ms);
  PartFetch fetch(At(offer.port), offer.ticket, settings_);
  std::vector<std::byte> bytes(16);
  const Status read = Read(&fetch, 0, bytes);
  is_over = true;
  flood.join();
  EXPECT_TRUE(read.ok()) << read.message();
}

TEST_F(PartTransferTest, AnotherKeyIsRefusedByBothEnds) {
  const PartServer::Offer offer = *server_.Add(Source());
  std::vector<std::byte> bytes(16);
  PartFetch stranger(At(offer.port), offer.ticket, SettingsOfKey('x'));
  const Status refused = Read(&stranger, 0, bytes);
  EXPECT_NE(refused.message().find("another key"), std::string::npos) << refused.message();
  PartFetch fetch(At(offer.port), offer.ticket, settings_);
  EXPECT_TRUE(Read(&fetch, 0, bytes).ok()) << "the ticket is still good";
}

TEST_F(PartTransferTest, PlainBytesOfAStrangerGetNothing) {
  const PartServer::Offer offer = *server_.Add(Source());
  const FileDescriptor stranger(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const transport::NetworkAddress address = At(offer.port);
  ASSERT_EQ(connect(stranger.get(), address.get(), address.length()), 0);
  const TransferRequest request = {.ticket = offer.ticket, .at = 0, .bytes = kBytes};
  ASSERT_EQ(send(stranger.get(), &request, sizeof request, 0),
            static_cast<ssize_t>(sizeof request));
  std::vector<std::byte> answer(kBytes);
  size_t received = 0;
  for (;;) {
    const ssize_t bytes = recv(stranger.get(), answer.data(), answer.size(), 0);
    if (bytes <= 0) break;
    received += static_cast<size_t>(bytes);
  }
  EXPECT_LT(received, 64u) << "an alert of TLS, if anything";
}

TEST_F(PartTransferTest, WhatIsReplacedMeanwhileIsWorthNothing) {
  const PartServer::Offer offer = *server_.Add(Source());
  PartFetch fetch(At(offer.port), offer.ticket, settings_);
  std::vector<std::byte> bytes(kBytes);
  ASSERT_TRUE(Read(&fetch, 0, bytes).ok());
  is_void_->store(true);
  const Status replaced = Read(&fetch, 0, bytes);
  EXPECT_NE(replaced.message().find("replaced"), std::string::npos) << replaced.message();
}

/// A rank that overwrites its memory at any moment, after it was told to: no reader takes a mixture
/// for good.
TEST_F(PartTransferTest, NothingMoreComesOfWhatWasReplaced) {
  constexpr uint64_t kManyBytes = uint64_t{1} << 40;
  const FileDescriptor sparse(memfd_create("sparse", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(sparse.get(), kManyBytes), 0);
  TransferSource source = Source();
  source.descriptor = sparse.get();
  source.bytes = kManyBytes;
  const PartServer::Offer offer = *server_.Add(std::move(source));
  const auto socket = SecureSocket::Connect(At(offer.port), settings_);
  ASSERT_TRUE(socket.ok());
  const TransferRequest request = {.ticket = offer.ticket, .at = 0, .bytes = kManyBytes};
  ASSERT_TRUE((*socket)->Send(std::as_bytes(std::span(&request, 1))).ok());
  std::vector<std::byte> piece(kTransferPiece);
  ASSERT_TRUE((*socket)->Receive(piece).ok());
  is_void_->store(true);
  uint64_t pieces = 0;
  while (pieces < 4096 && (*socket)->Receive(piece).ok()) ++pieces;
  EXPECT_LT(pieces, 4096u) << "what was on its way";
  PartFetch again(At(offer.port), offer.ticket, settings_);
  EXPECT_EQ(Read(&again, 0, piece).code(), Code::kUnavailable);
}

TEST_F(PartTransferTest, NoMixtureIsEverTakenForGood) {
  for (int round = 0; round < 30; ++round) {
    is_void_ = std::make_shared<std::atomic<bool>>(false);
    std::memset(memory_->mapping.data(), 1, kBytes);
    const PartServer::Offer offer = *server_.Add(Source());
    PartFetch fetch(At(offer.port), offer.ticket, settings_);
    std::vector<std::byte> bytes(kBytes);
    std::promise<Status> read;
    ASSERT_TRUE(fetch.Read(0, bytes, [&](const Status& status) { read.set_value(status); }).ok());
    std::this_thread::sleep_for(round * 100us);
    is_void_->store(true, std::memory_order_seq_cst);
    std::memset(memory_->mapping.data(), 2, kBytes);
    if (read.get_future().get().ok()) {
      EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{1}),
                static_cast<ptrdiff_t>(kBytes));
    }
  }
}

TEST_F(PartTransferTest, ItGivesWayToTenantsTraffic) {
  const PartServer::Offer offer = *server_.Add(Source(true));
  PartFetch fetch(At(offer.port), offer.ticket, settings_);
  std::vector<std::byte> bytes(kBytes);
  // Noted far ahead of now: the links stay busy, and only its patience brings it on.
  idle_link_.NoteBusy(MonotonicNanoseconds() + 3600 * uint64_t{1'000'000'000});
  const uint64_t begun_ns = MonotonicNanoseconds();
  ASSERT_TRUE(Read(&fetch, 0, bytes).ok());
  EXPECT_GE(MonotonicNanoseconds() - begun_ns, 4 * IdleLink::kLongestWaitNs);
}

TEST_F(PartTransferTest, EndsOfEitherSideEndIt) {
  std::vector<std::byte> bytes(kBytes);
  {
    const PartServer::Offer offer = *server_.Add(Source(true));
    idle_link_.NoteBusy(MonotonicNanoseconds() + 3600 * uint64_t{1'000'000'000});
    PartFetch fetch(At(offer.port), offer.ticket, settings_);
    ASSERT_TRUE(fetch.Read(0, bytes, [](const Status&) {}).ok());
    std::this_thread::sleep_for(20ms);
  }
  // The server still has the thread of that connection.
  auto server = std::make_unique<PartServer>(
      PartServer::Services{.address = *transport::NetworkAddress::Parse("127.0.0.1"),
                           .settings = settings_,
                           .idle_link = &idle_link_});
  const PartServer::Offer offer = *server->Add(Source(true));
  PartFetch fetch(At(offer.port), offer.ticket, settings_);
  std::promise<Status> read;
  ASSERT_TRUE(fetch.Read(0, bytes, [&](const Status& status) { read.set_value(status); }).ok());
  std::this_thread::sleep_for(20ms);
  server.reset();
  EXPECT_FALSE(read.get_future().get().ok());
}

}  // namespace
}  // namespace harmonaize::daemon
