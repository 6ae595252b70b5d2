#include "src/transport/link/rail.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "src/transport/ucx/rdma_devices.h"

namespace harmonaize::transport {
namespace {

RailAnnouncement Tcp(const std::string& address, uint8_t bits = 24) {
  return {RailAnnouncement::Kind::kTcp, bits, address};
}
RailAnnouncement Ucx() {
  return {RailAnnouncement::Kind::kUcx, 0, "opaque"};
}

TEST(PairRails, PrefersTheSameNetwork) {
  const std::vector<RailPair> pairs =
      PairRails({Tcp("10.0.1.1:1"), Tcp("10.0.2.1:1")}, {Tcp("10.0.2.9:1"), Tcp("10.0.1.9:1")});
  EXPECT_EQ(pairs, (std::vector<RailPair>{{0, 1}, {1, 0}}));
}

TEST(PairRails, TakesRoutedOnesInOrder) {
  EXPECT_EQ(PairRails({Tcp("10.0.1.1:1"), Tcp("10.0.2.1:1")},
                      {Tcp("10.0.3.1:1"), Tcp("10.0.4.1:1"), Tcp("10.0.5.1:1")}),
            (std::vector<RailPair>{{0, 0}, {1, 1}}));
}

TEST(PairRails, NeverMixesKindsOrFamilies) {
  EXPECT_EQ(PairRails({Tcp("10.0.1.1:1"), Ucx()}, {Ucx(), Tcp("[fd00::1]:1")}),
            (std::vector<RailPair>{{1, 0}}));
  EXPECT_TRUE(PairRails({Tcp("10.0.1.1:1")}, {}).empty());
  EXPECT_TRUE(PairRails({Tcp("nonsense")}, {Tcp("10.0.0.1:1")}).empty());
}

TEST(DiscoverRails, OnLoopbackIsThatAddress) {
  const std::vector<RailOptions> rails = DiscoverRails(*NetworkAddress::Parse("127.0.0.1:7000"));
  ASSERT_EQ(rails.size(), 1u);
  EXPECT_EQ(rails[0].address.ToString(), "127.0.0.1:0");
}

TEST(DiscoverRails, ElsewhereIsNeverLoopback) {
  for (const RailOptions& rail : DiscoverRails(*NetworkAddress::Parse("0.0.0.0:7000"))) {
    EXPECT_FALSE(rail.address.IsLoopback()) << RailName(rail);
  }
}

TEST(SpreadConnections, AreEightWhereThereIsRoom) {
  EXPECT_EQ(SpreadConnections(1), 8);
  EXPECT_EQ(SpreadConnections(8), 8);
  EXPECT_EQ(SpreadConnections(9), 7);
  EXPECT_EQ(SpreadConnections(kMaxRails), 1);
  for (size_t rails = 1; rails <= kMaxRails; ++rails) {
    EXPECT_LE(rails * static_cast<size_t>(SpreadConnections(rails)), kMaxConnections);
  }
}

TEST(RdmaPorts, AreReadFromTheKernelsFolder) {
  const std::filesystem::path root = ::testing::TempDir() + "harmonaize-infiniband";
  std::filesystem::remove_all(root);
  const auto add = [&](const std::string& port, const char* state, const char* rate) {
    std::filesystem::create_directories(root / port);
    std::ofstream(root / port / "state") << state << "\n";
    std::ofstream(root / port / "rate") << rate << "\n";
    std::ofstream(root / port / "link_layer") << "InfiniBand\n";
  };
  add("mlx5_1/ports/1", "1: DOWN", "10 Gb/sec (4X SDR)");
  add("mlx5_0/ports/2", "4: ACTIVE", "100 Gb/sec (4X EDR)");
  const std::vector<RdmaPort> ports = ListRdmaPorts(root);
  std::filesystem::remove_all(root);
  ASSERT_EQ(ports.size(), 2u);
  EXPECT_EQ(ports[0].UcxName(), "mlx5_0:2");
  EXPECT_TRUE(ports[0].active);
  EXPECT_EQ(ports[0].gigabits_per_second, 100);
  EXPECT_EQ(ports[0].link_layer, "InfiniBand");
  EXPECT_FALSE(ports[1].active);
  EXPECT_TRUE(ListRdmaPorts("/nowhere").empty());
}

}  // namespace
}  // namespace harmonaize::transport
