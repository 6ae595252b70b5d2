#include "src/probing/rdma_counters.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace harmonaize {
namespace {

namespace fs = std::filesystem;

// A folder that looks like /sys/class/infiniband.
class RdmaCountersTest : public ::testing::Test {
 protected:
  RdmaCountersTest() {
    std::string name = ::testing::TempDir() + "harmonaize-rdma-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~RdmaCountersTest() override { fs::remove_all(folder_); }

  /// `file`: "mlx5_0/ports/1/counters/port_xmit_data".
  void Write(const std::string& file, const std::string& content) {
    fs::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << content;
  }
  std::vector<RdmaCounters> Read() { return ReadRdmaCounters(folder_); }

  fs::path folder_;
};

TEST_F(RdmaCountersTest, EveryCounterIsReadFromItsOwnFile) {
  const std::string port = "mlx5_0/ports/1/";
  Write(port + "counters/port_xmit_data", "10\n");
  Write(port + "counters/port_rcv_data", "4611686018427387903\n");
  Write(port + "counters/port_xmit_wait", "3\n");
  Write(port + "hw_counters/np_ecn_marked_roce_packets", "4\n");
  Write(port + "hw_counters/np_cnp_sent", "5\n");
  Write(port + "hw_counters/rp_cnp_handled", "6\n");
  Write(port + "hw_counters/out_of_sequence", "7\n");
  Write(port + "hw_counters/packet_seq_err", "8\n");
  Write(port + "hw_counters/local_ack_timeout_err", "0\n");
  const std::vector<RdmaCounters> all = Read();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].device, "mlx5_0");
  EXPECT_EQ(all[0].port, 1);
  // The files of data count words of four bytes.
  EXPECT_EQ(all[0].sent_bytes, 40u);
  EXPECT_EQ(all[0].received_bytes, 18446744073709551612u);
  EXPECT_EQ(all[0].send_wait_ticks, 3u);
  EXPECT_EQ(all[0].marked_packets, 4u);
  EXPECT_EQ(all[0].sent_congestion_notifications, 5u);
  EXPECT_EQ(all[0].handled_congestion_notifications, 6u);
  EXPECT_EQ(all[0].out_of_sequence_packets, 7u);
  EXPECT_EQ(all[0].sequence_errors, 8u);
  EXPECT_EQ(all[0].acknowledgement_timeouts, 0u);
}

TEST_F(RdmaCountersTest, WhatADeviceDoesNotCountIsToldFromZero) {
  Write("efa_0/ports/1/counters/port_xmit_data", "0\n");
  const std::vector<RdmaCounters> all = Read();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].sent_bytes, 0u);
  EXPECT_EQ(all[0].received_bytes, std::nullopt);
  EXPECT_EQ(all[0].send_wait_ticks, std::nullopt);
  EXPECT_EQ(all[0].marked_packets, std::nullopt);
  EXPECT_EQ(all[0].sent_congestion_notifications, std::nullopt);
  EXPECT_EQ(all[0].handled_congestion_notifications, std::nullopt);
  EXPECT_EQ(all[0].out_of_sequence_packets, std::nullopt);
  EXPECT_EQ(all[0].sequence_errors, std::nullopt);
  EXPECT_EQ(all[0].acknowledgement_timeouts, std::nullopt);
}

TEST_F(RdmaCountersTest, WhatIsNoNumberCountsAsAbsent) {
  for (const char* garbage :
       {"", "\n", "N/A (no PMA)\n", "12 packets\n", " 12\n", "-1\n", "18446744073709551616\n"}) {
    Write("mlx5_0/ports/1/counters/port_xmit_data", garbage);
    Write("mlx5_0/ports/1/hw_counters/np_cnp_sent", garbage);
    const std::vector<RdmaCounters> all = Read();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].sent_bytes, std::nullopt) << garbage;
    EXPECT_EQ(all[0].sent_congestion_notifications, std::nullopt) << garbage;
  }
  // A folder in a file's place can be opened, but not read.
  fs::create_directories(folder_ / "mlx5_0/ports/1/hw_counters/out_of_sequence");
  EXPECT_EQ(Read().at(0).out_of_sequence_packets, std::nullopt);
}

TEST_F(RdmaCountersTest, PortsComeByDeviceAndNumber) {
  for (const char* port : {"mlx5_1/ports/1", "mlx5_0/ports/10", "mlx5_0/ports/2"}) {
    fs::create_directories(folder_ / port);
  }
  fs::create_directories(folder_ / "without_ports");
  std::vector<std::string> names;
  for (const RdmaCounters& one : Read())
    names.push_back(one.device + ":" + std::to_string(one.port));
  EXPECT_EQ(names, (std::vector<std::string>{"mlx5_0:2", "mlx5_0:10", "mlx5_1:1"}));
}

TEST_F(RdmaCountersTest, AHostWithoutDevicesHasNone) {
  EXPECT_TRUE(Read().empty());
  EXPECT_TRUE(ReadRdmaCounters(folder_ / "nothing").empty());
}

}  // namespace
}  // namespace harmonaize
