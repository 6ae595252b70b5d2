#include "src/topology/fabric/fabric_file.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "src/base/clean_text.h"

namespace harmonaize {
namespace {

constexpr char kSmall[] = R"([[host]]
name = ["a", "b"]
rack = "r0"

[[switch]]
name = "leaf"
rack = "r0"

[[link]]
from = ["a", "b"]
to = "leaf"
rate = "1Gbit"
)";

std::string ErrorOf(const std::string& text) {
  const Result<FabricFile> file = ParseFabricFile(text, "f.toml");
  return file.ok() ? "" : file.status().message();
}

TEST(FabricFile, ReadsHostsSwitchesAndLinks) {
  const Result<FabricFile> file = ParseFabricFile(kSmall, "dir/small.toml");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Fabric& fabric = file->fabric;
  EXPECT_EQ(fabric.name, "small");
  ASSERT_EQ(fabric.nodes.size(), 3u);
  EXPECT_EQ(fabric.Hosts(), (std::vector<int>{0, 1}));
  EXPECT_EQ(fabric.HostsOfRack(0), (std::vector<int>{0, 1}));
  EXPECT_EQ(fabric.racks, std::vector<std::string>{"r0"});
  EXPECT_FALSE(fabric.nodes[0].forwards);
  EXPECT_TRUE(fabric.nodes[2].forwards);
  ASSERT_EQ(fabric.links.size(), 2u);
  EXPECT_EQ(fabric.links[1].name, "b-leaf");
  EXPECT_EQ(fabric.FindLink("b-leaf"), 1);
  EXPECT_EQ(fabric.NicAt({1, 0}).link, 1);
  EXPECT_EQ(fabric.EndpointName({1, 0}), "b");
  // One way leads between any two hosts, so there is nothing to choose.
  EXPECT_EQ(fabric.explicit_paths, 0);
  const Edge back = fabric.EdgeAt(3);
  EXPECT_EQ(back.from, 2);
  EXPECT_EQ(back.to, 1);
  EXPECT_DOUBLE_EQ(back.bytes_per_second, 125e6);
}

TEST(FabricFile, GivesEveryReaderTheSameAddresses) {
  const Result<FabricFile> file = LoadFabricFile(FABRICS_FOLDER "/two-racks.toml");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Fabric& fabric = file->fabric;
  EXPECT_EQ(fabric.explicit_paths, 2);
  const Nic& nic = fabric.NicAt({2, 1});
  EXPECT_EQ(nic.device, "nic1");
  EXPECT_EQ(nic.address, "10.96.0.6");
  ASSERT_EQ(nic.paths.size(), 2u);
  EXPECT_EQ(nic.paths[1].device, "nic1.p1");
  EXPECT_EQ(nic.paths[1].address, "10.96.2.6");
}

TEST(FabricFile, ReadsWhatAProviderStates) {
  const Result<FabricFile> file = ParseFabricFile(R"(
[fabric]
name = "cloud"
[[host]]
name = "a"
  [[host.nic]]
  device = "eth0"
  address = "192.0.2.1"
    [[host.nic.path]]
    address = "192.0.2.65"
  [[host.nic]]
  device = "eth1"
  address = "192.0.2.2"
    [[host.nic.path]]
    address = "192.0.2.66"
    device = "eth1.7"
[[host]]
name = "b"
[[link]]
from = "a:eth1"
to = "b:right"
rate = "1Gbit"
rate_back = "2Gbit"
latency_us = 5
name = "long-way"
[[link]]
from = "a"
to = "b"
rate = "1Gbit"
[laboratory]
mtu = 1500
)",
                                                  "x.toml");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Fabric& fabric = file->fabric;
  EXPECT_EQ(file->laboratory.mtu, 1500);
  EXPECT_EQ(fabric.explicit_paths, 1);
  EXPECT_EQ(fabric.NicAt({0, 0}).paths[0].device, "eth0.p0");
  EXPECT_EQ(fabric.NicAt({0, 1}).paths[0].device, "eth1.7");
  EXPECT_EQ(fabric.NicAt({0, 1}).link, 0);
  EXPECT_EQ(fabric.NicAt({0, 0}).link, 1);
  EXPECT_EQ(fabric.EndpointName({1, 0}), "b:right");
  EXPECT_EQ(fabric.NicAt({1, 0}).address, "10.96.0.3");
  EXPECT_EQ(fabric.links[0].name, "long-way");
  EXPECT_DOUBLE_EQ(fabric.EdgeAt(1).bytes_per_second, 250e6);
  EXPECT_DOUBLE_EQ(fabric.EdgeAt(0).latency_seconds, 5e-6);
}

TEST(FabricFile, NamesParallelLinksApart) {
  const Result<FabricFile> file = LoadFabricFile(FABRICS_FOLDER "/two-racks.toml");
  ASSERT_TRUE(file.ok());
  EXPECT_GE(file->fabric.FindLink("host0-leaf0"), 0);
  EXPECT_GE(file->fabric.FindLink("host0-leaf0.1"), 0);
  EXPECT_EQ(file->fabric.FindLink("host0-leaf0.2"), -1);
}

// Each: a line of kSmall, what stands in its place, and what is said of it.
TEST(FabricFile, ErrorsGiveThePlaceAndTheWayOut) {
  const struct {
    std::string line;
    std::string instead;
    std::string expected;
  } kCases[] = {
      {"to = \"leaf\"", "to = \"leef\"",
       "f.toml:11:6: there is no host or switch 'leef', did you mean 'leaf'?"},
      {"to = \"leaf\"", "", "f.toml:9:1: a [[link]] needs 'to'"},
      {"rate = \"1Gbit\"", "rte = \"1Gbit\"", "f.toml:9:1: a [[link]] needs a 'rate'"},
      {"rate = \"1Gbit\"", "rate = \"1Gbit\"\nrte = 1",
       "f.toml:13:1: unknown key 'link[0].rte', did you mean 'link[0].rate'?"},
      {"rate = \"1Gbit\"", "rate = \"1GB\"", "f.toml:12:8: '1GB' is no rate"},
      {"rate = \"1Gbit\"", "rate = 1", "f.toml:12:8: 'link[0].rate' must be a string"},
      {"name = [\"a\", \"b\"]", "name = [\"a\", \"a b\"]\n[[host]]\nname=\"b\"",
       "f.toml: 'a b' cannot name a host"},
      {"name = \"leaf\"", "name = \"a\"", "f.toml:6:8: a node named 'a' is there already"},
      {"name = \"leaf\"", "name = \"leaf\"\nrole = \"spin\"",
       "f.toml:7:8: 'switch[0].role' must be one of \"leaf\", \"spine\", \"core\", did you mean "
       "'spine'?"},
      {"to = \"leaf\"", "to = \"leaf:1\"", "f.toml:11:6: 'leaf' is a switch: its ports have no"},
      {"from = [\"a\", \"b\"]", "from = [\"a:x\", \"a:x\"]",
       "f.toml:10:8: NIC 'x' of host 'a' has a link already"},
      {"from = [\"a\", \"b\"]", "from = \"a\"", "f.toml: host 'b' has no link"},
      {"from = [\"a\", \"b\"]", "from = [\"a\", \"b\", \"leaf\"]",
       "f.toml: link 'leaf-leaf' joins 'leaf' with itself"},
      {"[[switch]]", "[switch]", "f.toml:5:1: 'switch' must be tables: [[switch]]"},
      {"[[switch]]", "[fabric]\nnetwork = \"10.0.0.0/33\"\n[[switch]]",
       "f.toml:6:11: '10.0.0.0/33' is no IPv4 network"},
      {"[[switch]]", "[fabric]\nnetwork = \"10.0.0.0/28\"\n[[switch]]",
       "f.toml: network 10.0.0.0/28 has too few addresses"},
      {"[[switch]]", "[[path]]\nthrough = [\"a\"]\n[[switch]]",
       "f.toml:6:11: 'a' is a host that does not forward"},
      {"rate = \"1Gbit\"", "rate = \"1Gbit\"\nname = \"x\"",
       "f.toml:13:8: only a single link can be given a name"},
  };
  for (const auto& one : kCases) {
    std::string text = kSmall;
    text.replace(text.find(one.line), one.line.size(), one.instead);
    EXPECT_EQ(ErrorOf(text).substr(0, one.expected.size()), one.expected) << text;
  }
}

TEST(FabricFile, FindsWhatIsWrongWithTheWhole) {
  EXPECT_EQ(ErrorOf(""), "f.toml: the fabric has no host");
  const std::string islands = R"(
[[host]]
name = ["a", "b", "c"]
[[link]]
from = "a"
to = "b"
rate = "1Gbit"
[[link]]
from = "b"
to = "c"
rate = "1Gbit"
)";
  EXPECT_EQ(ErrorOf(islands).substr(0, 51), "f.toml: host 'a' is disconnected from host 'c': no ");
  std::string joined = islands;
  joined.replace(joined.find("[[link]]"), 0, "forwards = true\n");
  EXPECT_EQ(ErrorOf(joined), "");
  EXPECT_NE(ErrorOf("[[host]]\nname = \"a\"\n[[host.nic]]\n[[host.nic]]\n[[host]]\nname = \"b\"\n"
                    "[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"1Gbit\"\n")
                .find("no link ends at NIC 'nic1' of host 'a'"),
            std::string::npos);
  EXPECT_NE(ErrorOf("[[host]]\nname = \"a\"\n[[host.nic]]\naddress = \"10.96.0.2\"\n[[host]]\n"
                    "name = \"b\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"1Gbit\"\n")
                .find("address 10.96.0.2 belongs to host 'a' and to host 'b'"),
            std::string::npos);
  EXPECT_NE(LoadFabricFile("/nowhere/f.toml").status().message().find("cannot read"),
            std::string::npos);
}

// A fabric file may be another host's, and its errors reach logs and terminals.
TEST(FabricFile, WhatItQuotesIsClean) {
  const struct {
    std::string line;
    std::string instead;
  } kCases[] = {
      {"\"leaf\"", "\"le\\u001b[2Jaf\""},       // names a switch
      {"to = \"leaf\"", "to = \"\\u009b2J\""},  // names nothing
      {"1Gbit", "\\u00071Gbit"},
      {"rate = ", "\"\\u001b\" = 1\nrate = "},
      {"rate = ", "\x1b"},
  };
  for (const auto& one : kCases) {
    std::string text = kSmall;
    text.replace(text.find(one.line), one.line.size(), one.instead);
    const std::string error = ErrorOf(text);
    EXPECT_FALSE(error.empty()) << text;
    EXPECT_EQ(error, CleanText(error, error.size()));
  }
}

TEST(FabricFile, StatedNumberOfPathsWins) {
  const std::string head = "[routing]\nexplicit_paths = 3\n";
  const Result<FabricFile> file = ParseFabricFile(head + kSmall, "f.toml");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->fabric.NicAt({0, 0}).paths.size(), 3u);
}

TEST(FabricFile, ShippedFabricsAreValid) {
  for (const char* name : {"one-rack", "two-racks", "three-racks-unequal", "ring", "rails"}) {
    const Result<FabricFile> file =
        LoadFabricFile(std::string(FABRICS_FOLDER "/") + name + ".toml");
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(file->fabric.name, name);
    std::set<std::string> addresses;
    for (const Endpoint& end : file->fabric.Endpoints()) {
      EXPECT_TRUE(addresses.insert(file->fabric.NicAt(end).address).second);
    }
  }
}

TEST(FabricFile, SurvivesAnything) {
  std::mt19937 random(5);
  const std::string seed = kSmall;
  for (int i = 0; i < 3000; ++i) {
    std::string text = seed;
    for (int changes = 0; changes < 3; ++changes) {
      // Mostly swaps of what is there already, which parse more often than noise does.
      text[random() % text.size()] =
          random() % 8 != 0 ? text[random() % text.size()] : static_cast<char>(random());
    }
    const Result<FabricFile> file = ParseFabricFile(text, "f.toml");
    if (file.ok()) {
      EXPECT_TRUE(ValidateFabric(file->fabric).ok());
    } else {
      EXPECT_EQ(file.status().message().substr(0, 7), "f.toml:");
    }
  }
}

}  // namespace
}  // namespace harmonaize
