#include "src/ipc/nccl_settings.h"

#include <gtest/gtest.h>

namespace harmonaize {
namespace {

std::vector<NcclSetting> Decoded(std::string_view text) {
  Result<std::vector<NcclSetting>> settings = DecodeNcclSettings(text);
  EXPECT_TRUE(settings.ok()) << settings.status().message();
  return settings.ok() ? *std::move(settings) : std::vector<NcclSetting>();
}

TEST(NcclSettings, AreReadAsTheyAreWritten) {
  const std::vector<NcclSetting> settings = {{"NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1"},
                                             {"NCCL_SOCKET_IFNAME", "^docker,lo"}};
  EXPECT_EQ(EncodeNcclSettings(settings),
            "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1\nNCCL_SOCKET_IFNAME=^docker,lo\n");
  EXPECT_EQ(Decoded(EncodeNcclSettings(settings)), settings);
  EXPECT_TRUE(Decoded("").empty());
}

TEST(NcclSettings, HaveNamesOfNcclsForm) {
  EXPECT_TRUE(IsNcclSettingName("NCCL_IB_TC"));
  EXPECT_TRUE(IsNcclSettingName("NCCL_LL128_C2C"));
  for (const char* name : {"", "NCCL_", "NCCL", "nccl_ib_tc", "LD_PRELOAD", "NCCL_IB TC",
                           "NCCL_IB=TC", "NCCL_IB\nTC", "XNCCL_IB_TC"}) {
    EXPECT_FALSE(IsNcclSettingName(name)) << name;
  }
  EXPECT_TRUE(IsNcclSettingName("NCCL_" + std::string(kMostNcclNameBytes - 5, 'A')));
  EXPECT_FALSE(IsNcclSettingName("NCCL_" + std::string(kMostNcclNameBytes - 4, 'A')));
}

TEST(NcclSettings, OfProvidersLoadNoCodeAndWriteNoFiles) {
  for (const char* name :
       {"NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_PROFILER_PLUGIN", "NCCL_GIN_PLUGIN",
        "NCCL_FUTURE_PLUGIN", "NCCL_IBVERBS_LIB", "NCCL_CUDA_PATH", "NCCL_DEBUG", "NCCL_DEBUG_FILE",
        "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE", "NCCL_COMM_ID", "NCCL_HOSTID",
        "NCCL_CONF_FILE", "NCCL_ENV_PLUGIN", "NCCL_PROXY_DUMP_SIGNAL"}) {
    EXPECT_FALSE(WhyNotForProviders(name).empty()) << name;
    EXPECT_FALSE(CheckNcclSetting({name, "1"}).ok()) << name;
    EXPECT_TRUE(Decoded(std::string(name) + "=1\n").empty()) << name;
  }
  for (const char* name : {"NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_TOPO_FILE", "NCCL_RAS_ADDR",
                           "NCCL_IB_GID_INDEX", "NCCL_CROSS_NIC"}) {
    EXPECT_TRUE(WhyNotForProviders(name).empty()) << name;
  }
}

TEST(NcclSettings, HaveValuesThatFitIntoOneLine) {
  EXPECT_TRUE(CheckNcclSetting({"NCCL_IB_TC", std::string(kMostNcclValueBytes, 'x')}).ok());
  for (const std::string& value :
       {std::string(), std::string(kMostNcclValueBytes + 1, 'x'), std::string("a\nNCCL_NET=b"),
        std::string("a\0b", 3), std::string("\xc3\xa4"), std::string("a\tb")}) {
    EXPECT_FALSE(CheckNcclSetting({"NCCL_IB_TC", value}).ok()) << value;
  }
}

TEST(NcclSettings, OfABrokenDaemonAreRefusedOrLeftOut) {
  for (const char* text : {"NCCL_IB_TC=1", "NCCL_IB_TC\n", "NCCL_IB_TC=1\n\n", "\n"}) {
    EXPECT_FALSE(DecodeNcclSettings(text).ok()) << text;
  }
  EXPECT_EQ(Decoded("NCCL_IB_TC=1\nLD_PRELOAD=/x.so\nNCCL_IB_TC=2\n=3\nNCCL_NET=\n"),
            (std::vector<NcclSetting>{{"NCCL_IB_TC", "1"}}));
  std::string many;
  for (size_t i = 0; i <= kMostNcclSettings; ++i) many += "NCCL_A" + std::to_string(i) + "=1\n";
  EXPECT_FALSE(DecodeNcclSettings(many).ok());
  EXPECT_FALSE(DecodeNcclSettings(std::string(kMostNcclSettingsBytes + 1, '\n')).ok());
}

}  // namespace
}  // namespace harmonaize
