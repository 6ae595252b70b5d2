#include "src/probing/nic_counters.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "src/base/file_descriptor.h"

namespace harmonaize {
namespace {

using Names = std::vector<std::string>;

constexpr size_t kFrameBytes = 1000;

/// Waits for what is bound to come; false after 20 s.
bool Eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

bool Shell(const std::string& command) {
  return std::system((command + " 2>/dev/null >/dev/null").c_str()) == 0;
}

/// Calls `body` on a thread in a network namespace of its own, made ready by `commands`. All that
/// is in it goes with the thread. "" or why it could not be called.
std::string InOwnNamespace(const Names& commands, const std::function<void()>& body) {
  std::string reason;
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) != 0) {
      reason = ErrnoError(errno, "making a network namespace failed; it takes root").message();
      return;
    }
    for (const std::string& command : commands) {
      if (Shell(command)) continue;
      reason = "'" + command + "' failed; it takes iproute2 and a kernel that has this";
      return;
    }
    body();
  }).join();
  return reason;
}

std::unique_ptr<NicCounterReader> OpenReader() {
  Result<std::unique_ptr<NicCounterReader>> reader = NicCounterReader::Open();
  EXPECT_TRUE(reader.ok()) << reader.status().message();
  return reader.ok() ? std::move(*reader) : nullptr;
}

std::vector<NicCounters> Read(NicCounterReader& reader, const Names& devices) {
  Result<std::vector<NicCounters>> counters = reader.Read(devices);
  EXPECT_TRUE(counters.ok()) << counters.status().message();
  return counters.ok() ? std::move(*counters) : std::vector<NicCounters>();
}

/// The counters of a device that is there.
NicCounters ReadOne(NicCounterReader& reader, const std::string& device) {
  std::vector<NicCounters> counters = Read(reader, {device});
  EXPECT_EQ(counters.size(), 1u) << device;
  return counters.empty() ? NicCounters() : std::move(counters[0]);
}

/// Bytes that wait in the device's queue. It must have one.
uint64_t QueuedBytes(NicCounterReader& reader, const std::string& device) {
  const NicCounters counters = ReadOne(reader, device);
  EXPECT_TRUE(counters.queue.has_value()) << device;
  return counters.queue ? counters.queue->queued_bytes : 0;
}

/// Sends frames that are for nobody straight into the device's queue.
void SendFrames(const char* device, int frames) {
  const FileDescriptor socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  ASSERT_TRUE(socket.valid());
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_ifindex = static_cast<int>(::if_nametoindex(device));
  ASSERT_NE(to.sll_ifindex, 0) << device;
  std::array<unsigned char, kFrameBytes> frame{};
  frame.fill(0xff);
  // An ethertype for experiments.
  frame[12] = 0x88;
  frame[13] = 0xb5;
  for (int i = 0; i < frames; ++i) {
    const ssize_t sent = ::sendto(socket.get(), frame.data(), frame.size(), 0,
                                  reinterpret_cast<const sockaddr*>(&to), sizeof to);
    // A queue that drops what it has no room for may say so.
    ASSERT_TRUE(sent == static_cast<ssize_t>(frame.size()) || errno == ENOBUFS) << errno;
  }
}

/// A pair of devices with so many queues, both up.
Names Pair(const std::string& one, const std::string& other, int queues) {
  const std::string many = " numtxqueues " + std::to_string(queues) + " numrxqueues 1 ";
  return {"ip link add name " + one + many + "type veth peer name " + other,
          "ip link set " + one + " up", "ip link set " + other + " up"};
}

Names operator+(Names names, const Names& more) {
  names.insert(names.end(), more.begin(), more.end());
  return names;
}

// So slow that what has come into the queue is still there whenever the test gets to look.
const std::string kCrawl = "tbf rate 8kbit burst 2000 limit ";

TEST(NicCounters, TheLoopbackDeviceCountsWhatASocketSends) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in self{};
  self.sin_family = AF_INET;
  self.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof self;
  auto* address = reinterpret_cast<sockaddr*>(&self);
  if (::bind(socket.get(), address, length) != 0 ||
      ::getsockname(socket.get(), address, &length) != 0) {
    GTEST_SKIP() << "there is no 127.0.0.1 to send to";
  }
  const auto reader = OpenReader();
  ASSERT_NE(reader, nullptr);
  const NicCounters before = ReadOne(*reader, "lo");
  std::array<char, kFrameBytes> data{};
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(::sendto(socket.get(), data.data(), data.size(), 0, address, length),
              static_cast<ssize_t>(data.size()));
    ASSERT_EQ(::recv(socket.get(), data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
  }
  const NicCounters after = ReadOne(*reader, "lo");
  EXPECT_EQ(after.device, "lo");
  EXPECT_GE(after.sent_packets, before.sent_packets + 10);
  EXPECT_GE(after.received_packets, before.received_packets + 10);
  // With the headers of IPv4 and UDP.
  EXPECT_GE(after.sent_bytes, before.sent_bytes + 10 * (kFrameBytes + 28));
  EXPECT_GE(after.received_bytes, before.received_bytes + 10 * (kFrameBytes + 28));
}

TEST(NicCounters, ADeviceThatDoesNotExistIsLeftOut) {
  const auto reader = OpenReader();
  ASSERT_NE(reader, nullptr);
  EXPECT_TRUE(Read(*reader, {}).empty());
  EXPECT_TRUE(Read(*reader, {"hz-nowhere"}).empty());
  const std::vector<NicCounters> counters =
      Read(*reader, {"hz-nowhere", "lo", "", "a-name-that-is-too-long-for-a-device", "lo"});
  ASSERT_EQ(counters.size(), 2u);
  EXPECT_EQ(counters[0].device, "lo");
  EXPECT_EQ(counters[1].device, "lo");
}

TEST(NicCounters, WhatWaitsForARateIsQueuedUntilItIsSent) {
  const Names setup =
      Pair("hza", "hzb", 1) + Names{"tc qdisc add dev hza root " + kCrawl + "1000000"};
  const std::string reason = InOwnNamespace(setup, [] {
    const auto reader = OpenReader();
    ASSERT_NE(reader, nullptr);
    SendFrames("hza", 20);
    const NicCounters waiting = ReadOne(*reader, "hza");
    ASSERT_TRUE(waiting.queue.has_value());
    EXPECT_EQ(waiting.queue->kind, "tbf");
    EXPECT_GE(waiting.queue->queued_bytes, kFrameBytes);
    EXPECT_GT(waiting.queue->overlimits, 0u);
    EXPECT_EQ(waiting.queue->drops, 0u);

    ASSERT_TRUE(Shell("tc qdisc change dev hza root tbf rate 1gbit burst 100000 limit 1000000"));
    // The queue looks at its new rate when something comes.
    SendFrames("hza", 1);
    EXPECT_TRUE(Eventually([&] { return QueuedBytes(*reader, "hza") == 0; }));
    // What has left the queue is counted as sent a moment later.
    EXPECT_TRUE(Eventually([&] { return ReadOne(*reader, "hza").sent_packets >= 21; }));
    const NicCounters sender = ReadOne(*reader, "hza");
    EXPECT_GE(sender.sent_bytes, 21 * kFrameBytes);
    EXPECT_TRUE(Eventually([&] {
      const NicCounters receiver = ReadOne(*reader, "hzb");
      return receiver.received_packets >= sender.sent_packets &&
             receiver.received_bytes >= sender.sent_bytes;
    }));
  });
  if (!reason.empty()) GTEST_SKIP() << reason;
}

TEST(NicCounters, WhatDoesNotFitIsDropped) {
  const Names setup = Pair("hza", "hzb", 1) + Names{"tc qdisc add dev hza root " + kCrawl + "5000"};
  const std::string reason = InOwnNamespace(setup, [] {
    const auto reader = OpenReader();
    ASSERT_NE(reader, nullptr);
    SendFrames("hza", 50);
    const NicCounters counters = ReadOne(*reader, "hza");
    ASSERT_TRUE(counters.queue.has_value());
    EXPECT_GT(counters.queue->drops, 0u);
    EXPECT_LE(counters.queue->queued_bytes, 5000u);
    // The queue's drops are no drops of the device.
    EXPECT_EQ(counters.send_drops, 0u);
  });
  if (!reason.empty()) GTEST_SKIP() << reason;
}

// Which ring a frame takes is the kernel's choice, so all of them are slow.
TEST(NicCounters, AQueueOfManyRingsIsTheSumOfThem) {
  const Names setup =
      Pair("hza", "hzb", 2) + Names{"tc qdisc add dev hza root handle 1: mq",
                                    "tc qdisc add dev hza parent 1:1 " + kCrawl + "5000",
                                    "tc qdisc add dev hza parent 1:2 " + kCrawl + "5000"};
  const std::string reason = InOwnNamespace(setup, [] {
    const auto reader = OpenReader();
    ASSERT_NE(reader, nullptr);
    SendFrames("hza", 50);
    const NicCounters counters = ReadOne(*reader, "hza");
    ASSERT_TRUE(counters.queue.has_value());
    EXPECT_EQ(counters.queue->kind, "mq");
    EXPECT_GE(counters.queue->queued_bytes, kFrameBytes);
    EXPECT_GT(counters.queue->drops, 0u);
    EXPECT_GT(counters.queue->overlimits, 0u);
  });
  if (!reason.empty()) GTEST_SKIP() << reason;
}

TEST(NicCounters, ADeviceWithoutQueueHasNone) {
  const Names setup =
      Pair("hza", "hzb", 1) + Names{"ip link add name hzdown type veth peer name hzpeer"};
  const std::string reason = InOwnNamespace(setup, [] {
    const auto reader = OpenReader();
    ASSERT_NE(reader, nullptr);
    // The kernel shows a "noqueue" for the one that is up, and nothing for the other.
    EXPECT_FALSE(ReadOne(*reader, "hza").queue.has_value());
    EXPECT_FALSE(ReadOne(*reader, "hzdown").queue.has_value());
    EXPECT_FALSE(ReadOne(*reader, "lo").queue.has_value());
  });
  if (!reason.empty()) GTEST_SKIP() << reason;
}

// The kernel tells them in several pieces.
TEST(NicCounters, ManyQueuesOfOthersAreNoHindrance) {
  const Names setup = Pair("hzmany", "hzpeer", 500) +
                      Names{"tc qdisc add dev hzmany root handle 1: mq"} + Pair("hza", "hzb", 1) +
                      Names{"tc qdisc add dev hza root pfifo"};
  const std::string reason = InOwnNamespace(setup, [] {
    const auto reader = OpenReader();
    ASSERT_NE(reader, nullptr);
    for (int i = 0; i < 3; ++i) {
      const std::vector<NicCounters> counters = Read(*reader, {"hza", "gone", "hzmany"});
      ASSERT_EQ(counters.size(), 2u);
      EXPECT_EQ(counters[0].device, "hza");
      ASSERT_TRUE(counters[0].queue.has_value());
      EXPECT_EQ(counters[0].queue->kind, "pfifo");
      EXPECT_EQ(counters[1].device, "hzmany");
      ASSERT_TRUE(counters[1].queue.has_value());
      EXPECT_EQ(counters[1].queue->kind, "mq");
    }
  });
  if (!reason.empty()) GTEST_SKIP() << reason;
}

TEST(NicCounters, AReaderStaysWhereItWasOpened) {
  std::unique_ptr<NicCounterReader> reader;
  const std::string reason =
      InOwnNamespace({"ip link add name hzonly type veth"}, [&reader] { reader = OpenReader(); });
  if (!reason.empty()) GTEST_SKIP() << reason;
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(Read(*reader, {"hzonly"}).size(), 1u);
  const auto outside = OpenReader();
  ASSERT_NE(outside, nullptr);
  EXPECT_TRUE(Read(*outside, {"hzonly"}).empty());
}

}  // namespace
}  // namespace harmonaize
