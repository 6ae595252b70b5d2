#include "perf/fabric/network_plan.h"

#include <gtest/gtest.h>

namespace harmonaize::fabric {
namespace {

class NetworkPlanTest : public ::testing::Test {
 protected:
  void Load(const std::string& name) {
    Result<FabricFile> file = LoadFabricFile(FABRICS_FOLDER "/" + name + ".toml");
    ASSERT_TRUE(file.ok()) << file.status().message();
    file_ = std::move(*file);
    disturbances_.down.assign(file_.fabric.links.size(), false);
  }
  NetworkPlan Plan() const { return NetworkPlan("lab", file_, disturbances_); }
  int Node(const std::string& name) const { return file_.fabric.FindNode(name); }
  void Cut(const std::string& link) {
    disturbances_.down[static_cast<size_t>(file_.fabric.FindLink(link))] = true;
  }
  /// The line about an address, without "route replace ADDRESS/32 ".
  std::string RouteTo(const std::string& node, const std::string& address) const {
    const std::string text = "\n" + Plan().Routes(Node(node));
    for (const std::string& head : {"\nroute replace " + address + "/32 ",
                                    "\nroute replace unreachable " + address + "/32"}) {
      const size_t at = text.find(head);
      if (at == std::string::npos) continue;
      if (head.find("unreachable") != std::string::npos) return "unreachable";
      return text.substr(at + head.size(), text.find('\n', at + 1) - at - head.size());
    }
    return "none";
  }

  FabricFile file_;
  Disturbances disturbances_;
};

TEST_F(NetworkPlanTest, LinksAreMadeWhereTheyBelong) {
  Load("two-racks");
  const std::string text = Plan().Create();
  EXPECT_EQ(text.substr(0, 24), "netns add hzf.lab.host0\n");
  EXPECT_NE(text.find("link add name nic1 address 02:48:5a:00:01:00 netns hzf.lab.host0 type veth "
                      "peer name link1 address 02:48:5a:00:01:01 netns hzf.lab.leaf0\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(NetworkPlan::Delete({"hzf.lab.a"}), "netns delete hzf.lab.a\n");
}

TEST_F(NetworkPlanTest, OwnAddressesAreSpreadAndPathsAreNot) {
  Load("two-racks");
  EXPECT_EQ(RouteTo("leaf0", "10.96.0.5"),
            "nexthop via 169.254.0.1 dev link8 onlink nexthop via 169.254.0.1 dev link9 onlink");
  EXPECT_EQ(RouteTo("leaf0", "10.96.1.5"), "via 169.254.0.1 dev link8 onlink");
  EXPECT_EQ(RouteTo("leaf0", "10.96.2.5"), "via 169.254.0.1 dev link9 onlink");
  EXPECT_EQ(RouteTo("leaf0", "10.96.2.1"), "via 169.254.0.1 dev link0 onlink");
}

TEST_F(NetworkPlanTest, HostsSendFromTheSamePathAndTheSameRail) {
  Load("two-racks");
  EXPECT_EQ(RouteTo("host0", "10.96.2.6"), "via 169.254.0.1 dev nic1 onlink src 10.96.2.2");
  EXPECT_EQ(RouteTo("host0", "10.96.0.5"), "via 169.254.0.1 dev nic0 onlink src 10.96.0.1");
  EXPECT_NE(Plan().Rules(Node("host0")).find("rule add from 10.96.2.2/32 lookup 1001\n"),
            std::string::npos);
  EXPECT_EQ(Plan().Rules(Node("leaf0")), "");
}

TEST_F(NetworkPlanTest, RoutersGoRoundACutAndPathsDoNot) {
  Load("two-racks");
  Cut("leaf1-spine0");
  EXPECT_EQ(RouteTo("leaf0", "10.96.0.5"), "via 169.254.0.1 dev link9 onlink");
  EXPECT_EQ(RouteTo("leaf0", "10.96.1.5"), "via 169.254.0.1 dev link8 onlink");
  EXPECT_EQ(RouteTo("spine0", "10.96.1.5"), "unreachable");
  // Unless they have not been told; leaf1 itself sees that its port is dead.
  disturbances_.rerouted = false;
  EXPECT_NE(RouteTo("leaf0", "10.96.0.5").find("dev link8"), std::string::npos);
  EXPECT_EQ(RouteTo("leaf1", "10.96.0.1"), "via 169.254.0.1 dev link11 onlink");
}

TEST_F(NetworkPlanTest, HostsMoveToAnotherNicButNotTheirPaths) {
  Load("two-racks");
  Cut("host0-leaf0");
  EXPECT_EQ(RouteTo("host0", "10.96.0.5"), "via 169.254.0.1 dev nic1 onlink src 10.96.0.2");
  EXPECT_EQ(RouteTo("host0", "10.96.1.5"), "unreachable");
  EXPECT_NE(Plan().Routes(Node("host0")).find("route replace unreachable default table 1000\n"),
            std::string::npos);
}

TEST_F(NetworkPlanTest, HostsOfARingAreRouters) {
  Load("ring");
  EXPECT_EQ(RouteTo("host0", "10.96.0.3"), "via 169.254.0.1 dev right onlink src 10.96.0.1");
  EXPECT_EQ(RouteTo("host0", "10.96.0.5"),
            "nexthop via 169.254.0.1 dev right onlink nexthop via 169.254.0.1 dev left onlink");
  bool forwards = false;
  for (const auto& [key, value] : Plan().KernelParameters(0)) {
    forwards = forwards || (key == "net/ipv4/ip_forward" && value == "1");
  }
  EXPECT_TRUE(forwards);
}

TEST_F(NetworkPlanTest, ShapingFollowsTheRatesInForce) {
  Load("two-racks");
  EXPECT_NE(Plan()
                .Shaping(Node("spine0"))
                .find("qdisc replace dev link8 root tbf rate 500000000bit burst 125000 limit "
                      "2097152\n"),
            std::string::npos)
      << Plan().Shaping(Node("spine0"));
  disturbances_.rates[17] = 12.5e6;
  EXPECT_NE(Plan().Shaping(Node("spine0")).find("dev link8 root tbf rate 100000000bit"),
            std::string::npos);
  EXPECT_NE(Plan().Shaping(Node("leaf0")).find("dev link8 root tbf rate 500000000bit"),
            std::string::npos);
}

}  // namespace
}  // namespace harmonaize::fabric
