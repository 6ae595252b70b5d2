// Memory of messages of NCCL's net plugin. The plugin is linked into the test, so that both have
// one table of the memory that the daemon maps.

#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <cstring>
#include <vector>

#include "plugins/nccl-net/net_abi.h"
#include "src/client/memory/memory.h"
#include "tests/support/cluster.h"
#include "tests/support/net_connections.h"
#include "tests/support/net_plugin.h"

extern "C" const harmonaize::nccl_abi::NetV12 ncclNetPlugin_v12;

namespace harmonaize::testing {
namespace {

constexpr size_t kBytes = 300'000;

/// Memory that the daemon maps.
struct SharedBuffer {
  SharedBuffer() {
    const Result<void*> made = RegionTable::Get().Allocate(kBytes);
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (made.ok()) data = static_cast<uint8_t*>(*made);
  }
  ~SharedBuffer() { EXPECT_TRUE(RegionTable::Get().Free(data).ok()); }

  uint8_t* data = nullptr;
};

class NcclNetMemory : public ::testing::Test {
 protected:
  NcclNetMemory() {
    EXPECT_EQ(plugin_.init(), ncclSuccess) << NetLog();
    NetHandle handle;
    listen_ = net_.Listen(&handle);
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while ((send_ == nullptr || receive_ == nullptr) && !HasFailure()) {
      EXPECT_LT(std::chrono::steady_clock::now(), until);
      if (send_ == nullptr) {
        EXPECT_EQ(plugin_.connect(0, &handle, &send_), ncclSuccess) << NetLog();
      }
      if (receive_ == nullptr) {
        EXPECT_EQ(plugin_.accept(listen_, &receive_), ncclSuccess) << NetLog();
      }
      sched_yield();
    }
  }
  ~NcclNetMemory() override {
    EXPECT_EQ(plugin_.close_send(send_), ncclSuccess);
    EXPECT_EQ(plugin_.close_recv(receive_), ncclSuccess);
    EXPECT_EQ(plugin_.close_listen(listen_), ncclSuccess);
  }

  void* Register(void* comm, void* data) {
    void* registration = nullptr;
    EXPECT_EQ(plugin_.reg_mr(comm, data, kBytes, nccl_abi::kPointerToHost, &registration),
              ncclSuccess);
    return registration;
  }
  /// Sends a message, and returns whether it is in the receiver's memory before the receiver has
  /// looked at its request. It is there afterwards.
  bool ArrivesBeforeALook(uint8_t* from, uint8_t* to) {
    const std::vector<uint8_t> message = NetBytes(kBytes, ++seed_);
    std::memcpy(from, message.data(), kBytes);
    std::memset(to, 0, kBytes);
    void* const registrations[] = {Register(send_, from), Register(receive_, to)};
    NetRequest received = net_.Receive(receive_, to, kBytes, 1, registrations[1]);
    NetRequest sent = net_.Send(send_, from, kBytes, 1, registrations[0]);
    net_.Wait(&sent);  // the daemon has the message where the receiver is to have it
    const bool arrived = std::memcmp(to, message.data(), kBytes) == 0;
    net_.Wait(&received);
    EXPECT_EQ(std::memcmp(to, message.data(), kBytes), 0);
    EXPECT_EQ(plugin_.dereg_mr(send_, registrations[0]), ncclSuccess);
    EXPECT_EQ(plugin_.dereg_mr(receive_, registrations[1]), ncclSuccess);
    return arrived;
  }

  TestCluster cluster_{1};
  NetPlugin plugin_ = NetPlugin::Of(&ncclNetPlugin_v12);
  NetConnections net_{&plugin_};
  void* listen_ = nullptr;
  void* send_ = nullptr;
  void* receive_ = nullptr;
  uint64_t seed_ = 0;
};

TEST_F(NcclNetMemory, RegisteredMemoryThatTheDaemonMapsIsUsedInPlace) {
  SharedBuffer from;
  SharedBuffer to;
  EXPECT_TRUE(ArrivesBeforeALook(from.data, to.data));
  // Twice, since a registration may go before the memory.
  EXPECT_TRUE(ArrivesBeforeALook(to.data, from.data));
}

TEST_F(NcclNetMemory, OtherRegisteredMemoryIsCopiedByItsProcess) {
  std::vector<uint8_t> from(kBytes);
  std::vector<uint8_t> to(kBytes);
  EXPECT_FALSE(ArrivesBeforeALook(from.data(), to.data()));
  SharedBuffer shared;
  EXPECT_TRUE(ArrivesBeforeALook(from.data(), shared.data));
  EXPECT_FALSE(ArrivesBeforeALook(shared.data, to.data()));
}

}  // namespace
}  // namespace harmonaize::testing
