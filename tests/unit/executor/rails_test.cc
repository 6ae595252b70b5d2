// Which rails a fabric's hosts have, and how messages are dealt over them.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "src/executor/network/fabric_rails.h"
#include "src/executor/network/rail_table.h"
#include "src/topology/fabric/fabric_file.h"

namespace harmonaize {
namespace {

Fabric Shipped(const std::string& name) {
  Result<FabricFile> file = LoadFabricFile(std::string(FABRICS_FOLDER) + "/" + name + ".toml");
  EXPECT_TRUE(file.ok()) << file.status().message();
  return file.ok() ? std::move(file->fabric) : Fabric{};
}

Fabric FabricOf(const std::string& text) {
  Result<FabricFile> file = ParseFabricFile(text, "fabric.toml");
  EXPECT_TRUE(file.ok()) << file.status().message();
  return file.ok() ? std::move(file->fabric) : Fabric{};
}

// host0 has one NIC, the others two.
Fabric Unequal() {
  return FabricOf(R"(
[[host]]
name = ["host0", "host1", "host2"]
[[switch]]
name = ["leaf0", "leaf1"]
[[link]]
from = "host0"
to = "leaf0"
rate = "1Gbit"
[[link]]
from = ["host1", "host2"]
to = ["leaf0", "leaf1"]
rate = "1Gbit"
[[link]]
from = "leaf0"
to = "leaf1"
rate = "1Gbit"
)");
}

TEST(FabricRails, AddressesOfNicsComeBeforeThoseOfPaths) {
  const Fabric fabric = Shipped("two-racks");
  const FabricRails rails(fabric);
  ASSERT_EQ(fabric.explicit_paths, 2);
  EXPECT_EQ(rails.hosts(), 4);
  EXPECT_EQ(rails.plain_rails(), 2u);
  ASSERT_EQ(rails.rails(), 6u);
  for (int host = 0; host < rails.hosts(); ++host) {
    const auto options = rails.RailsOf(host);
    ASSERT_TRUE(options.ok());
    ASSERT_EQ(options->size(), rails.rails());
    for (const transport::RailOptions& rail : *options) {
      EXPECT_EQ(rail.bytes_per_second, 500e6 / 8);
    }
    const Node& node = fabric.nodes[static_cast<size_t>(fabric.Hosts()[static_cast<size_t>(host)])];
    for (int nic = 0; nic < 2; ++nic) {
      for (int path = -1; path < 2; ++path) {
        const int rail = rails.RailFor(host, (host + 1) % 4, nic, nic, path);
        ASSERT_GE(rail, 0);
        const Nic& of = node.nics[static_cast<size_t>(nic)];
        const std::string& address =
            path < 0 ? of.address : of.paths[static_cast<size_t>(path)].address;
        EXPECT_EQ((*options)[static_cast<size_t>(rail)].address.HostText(), address);
      }
    }
  }
}

TEST(FabricRails, ServesPairsOfOnePlaceOnly) {
  const FabricRails rails(Shipped("two-racks"));
  EXPECT_EQ(rails.RailFor(0, 2, 0, 1, -1), -1);
  EXPECT_EQ(rails.RailFor(0, 2, 1, 0, 0), -1);
  EXPECT_EQ(rails.RailFor(0, 2, 2, 2, 0), -1) << "no third NIC";
  EXPECT_EQ(rails.RailFor(0, 2, 0, 0, 2), -1) << "no third path";
}

TEST(FabricRails, AHostThatForwardsHasOneRailAPath) {
  const Fabric fabric = Shipped("ring");
  const FabricRails rails(fabric);
  EXPECT_EQ(rails.plain_rails(), 1u);
  EXPECT_EQ(rails.rails(), 1u + static_cast<size_t>(fabric.explicit_paths));
  EXPECT_EQ(rails.RailFor(0, 1, 0, 0, -1), 0);
  EXPECT_EQ(rails.RailFor(0, 1, 1, 1, -1), -1);
}

TEST(FabricRails, AHostWithFewerNicsLetsOneServeSeveralRails) {
  const Fabric fabric = Unequal();
  const FabricRails rails(fabric);
  EXPECT_EQ(rails.plain_rails(), 2u);
  const auto options = rails.RailsOf(0);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ((*options)[0].address.HostText(), (*options)[1].address.HostText());
  EXPECT_EQ(rails.RailFor(0, 1, 0, 0, -1), 0);
  EXPECT_EQ(rails.RailFor(0, 1, 0, 1, -1), 1);
  EXPECT_EQ(rails.RailFor(1, 0, 1, 0, -1), 1) << "the same rail in both directions";
  EXPECT_EQ(rails.RailFor(1, 2, 0, 1, -1), -1);
}

TEST(FabricRails, HaveSeveralConnectionsWhereThereAreNoPaths) {
  const FabricRails by_path(Shipped("two-racks"));
  Fabric fabric = Shipped("two-racks");
  fabric.explicit_paths = 0;
  const FabricRails by_hash(fabric);
  EXPECT_EQ(by_hash.rails(), 2u);
  const auto with_paths = by_path.RailsOf(0);
  const auto without = by_hash.RailsOf(0);
  ASSERT_TRUE(with_paths.ok() && without.ok());
  for (const transport::RailOptions& one : *with_paths) EXPECT_EQ(one.connections, 1);
  for (const transport::RailOptions& one : *without) {
    EXPECT_EQ(one.connections, transport::kSpreadConnections);
  }
}

// Whatever the addresses, transports pair rails by number.
TEST(FabricRails, TransportsPairThemByNumber) {
  for (const Fabric& fabric : {Shipped("two-racks"), Shipped("rails"), Unequal()}) {
    const FabricRails rails(fabric);
    std::vector<std::vector<transport::RailAnnouncement>> announced;
    for (int host = 0; host < rails.hosts(); ++host) {
      std::vector<transport::RailAnnouncement>& these = announced.emplace_back();
      const auto options = rails.RailsOf(host);
      ASSERT_TRUE(options.ok());
      for (const transport::RailOptions& one : *options) {
        transport::NetworkAddress bound = one.address;
        bound.set_port(1);
        these.push_back(
            {.prefix_bits = static_cast<uint8_t>(one.prefix_bits), .address = bound.ToString()});
      }
    }
    for (size_t a = 0; a < announced.size(); ++a) {
      for (size_t b = 0; b < announced.size(); ++b) {
        const auto pairs = transport::PairRails(announced[a], announced[b]);
        ASSERT_EQ(pairs.size(), rails.rails());
        for (size_t i = 0; i < pairs.size(); ++i) {
          EXPECT_EQ(pairs[i],
                    (transport::RailPair{static_cast<uint8_t>(i), static_cast<uint8_t>(i)}));
        }
      }
    }
  }
}

class RailTables : public testing::Test {
 protected:
  static constexpr size_t kLong = RailTable::kShortBytes + 1;

  std::map<size_t, int> Deal(int host, int path, int messages) {
    std::map<size_t, int> times;
    for (int i = 0; i < messages; ++i) {
      const MessageName name{.host = host, .path = path, .number = static_cast<uint32_t>(i)};
      ++times[table_.Next(name, kLong).rail];
    }
    return times;
  }

  const FabricRails rails_{Shipped("two-racks")};
  RailTable table_{rails_, 0};
};

TEST_F(RailTables, WithoutLanesAllPlainRailsTakeTurns) {
  EXPECT_EQ(Deal(2, -1, 10), (std::map<size_t, int>{{0, 5}, {1, 5}}));
  EXPECT_EQ(Deal(3, 7, 10), (std::map<size_t, int>{{0, 5}, {1, 5}})) << "a path nobody knows";
}

TEST_F(RailTables, DealsByWeight) {
  const std::vector<Lane> lanes = {{0, 0, 0, 10}, {1, 1, 1, 4}, {1, 1, 0, 6}};
  ASSERT_TRUE(table_.SetLanes(rails_, 2, 1, lanes));
  const auto rail = [&](int nic, int path) {
    return static_cast<size_t>(rails_.RailFor(0, 2, nic, nic, path));
  };
  EXPECT_EQ(Deal(2, 1, 100),
            (std::map<size_t, int>{{rail(0, 0), 50}, {rail(1, 1), 20}, {rail(1, 0), 30}}));
  // Any ten that follow each other have their shares, wherever they begin.
  Deal(2, 1, 3);
  EXPECT_EQ(Deal(2, 1, 10),
            (std::map<size_t, int>{{rail(0, 0), 5}, {rail(1, 1), 2}, {rail(1, 0), 3}}));
  EXPECT_EQ(Deal(3, 1, 4), (std::map<size_t, int>{{0, 2}, {1, 2}})) << "another host's";
}

TEST_F(RailTables, ShortMessagesOfAnOperationStayTogether) {
  std::map<size_t, int> times;
  for (uint64_t operation = 0; operation < 10; ++operation) {
    const size_t rail = table_.Next({.operation = operation, .host = 2, .number = 0}, 1024).rail;
    for (uint32_t number = 1; number < 5; ++number) {
      const MessageName name{.operation = operation, .host = 2, .number = number};
      EXPECT_EQ(table_.Next(name, 8).rail, rail);
    }
    ++times[rail];
  }
  EXPECT_EQ(times, (std::map<size_t, int>{{0, 5}, {1, 5}})) << "operations share the rails";
}

TEST_F(RailTables, PathsAreDealtApartAndOthersAsThoseWithout) {
  ASSERT_TRUE(table_.SetLanes(rails_, 2, -1, std::vector<Lane>{{1, 1, -1, 3}}));
  ASSERT_TRUE(table_.SetLanes(rails_, 2, 2, std::vector<Lane>{{0, 0, 1, 3}}));
  EXPECT_EQ(Deal(2, -1, 3), (std::map<size_t, int>{{1, 3}}));
  EXPECT_EQ(Deal(2, 0, 3), (std::map<size_t, int>{{1, 3}}));
  EXPECT_EQ(Deal(2, 2, 3),
            (std::map<size_t, int>{{static_cast<size_t>(rails_.RailFor(0, 2, 0, 0, 1)), 3}}));
}

TEST_F(RailTables, OneConnectionIsTakenWhereALaneIsNotSpread) {
  EXPECT_FALSE(table_.Next({.host = 2}, kLong).first_connection) << "nothing was said";
  ASSERT_TRUE(table_.SetLanes(rails_, 2, -1, std::vector<Lane>{{.spread = false}}));
  EXPECT_EQ(table_.Next({.host = 2}, kLong), (transport::RailChoice{0, true}));
  ASSERT_TRUE(table_.SetLanes(rails_, 2, -1, std::vector<Lane>{{.spread = true}}));
  EXPECT_EQ(table_.Next({.host = 2}, kLong), (transport::RailChoice{0, false}));
}

TEST_F(RailTables, OfRailsThatMayBeTakenTheNextOneIs) {
  const auto all = [](size_t) { return true; };
  const auto second = [](size_t rail) { return rail == 1; };
  EXPECT_EQ(table_.NextAmong(2, all)->rail, 0u);
  EXPECT_EQ(table_.NextAmong(2, all)->rail, 1u);
  EXPECT_EQ(table_.NextAmong(2, second)->rail, 1u);
  EXPECT_EQ(table_.NextAmong(2, all)->rail, 0u);
  EXPECT_FALSE(table_.NextAmong(2, [](size_t) { return false; }).has_value());
  EXPECT_EQ(table_.NextAmong(2, all)->rail, 1u) << "as before";
}

TEST_F(RailTables, LanesThatNoRailServesAreLeftOut) {
  ASSERT_TRUE(table_.SetLanes(rails_, 2, 0, std::vector<Lane>{{0, 1, 0, 5}, {1, 1, 1, 1}}));
  EXPECT_EQ(Deal(2, 0, 3),
            (std::map<size_t, int>{{static_cast<size_t>(rails_.RailFor(0, 2, 1, 1, 1)), 3}}));
  EXPECT_FALSE(table_.SetLanes(rails_, 2, 0, std::vector<Lane>{{0, 1, 0, 5}}));
  EXPECT_EQ(Deal(2, 0, 3).size(), 1u) << "as before";
}

}  // namespace
}  // namespace harmonaize
