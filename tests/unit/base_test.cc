#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "src/base/collective.h"
#include "src/base/names.h"
#include "src/base/status.h"
#include "src/base/toml_reader.h"

namespace harmonaize {
namespace {

TEST(Status, CarriesCodeAndSentence) {
  EXPECT_TRUE(Status::Ok().ok());
  const Status status = InvalidUsage("rank {} of {}", 3, 4);
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_EQ(status.ToString(), "invalid usage: rank 3 of 4");
  const Result<int> failed = status;
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(failed.status().message(), "rank 3 of 4");
}

TEST(Names, NearestIsASlipOfThePenOrNothing) {
  constexpr std::array<std::string_view, 3> kNames = {"workers.count", "workers.cpus", "log.level"};
  EXPECT_EQ(NearestName("workers.cont", kNames), "workers.count");
  EXPECT_EQ(NearestName("log.lvl", kNames), "log.level");
  EXPECT_EQ(NearestName("zebra", kNames), "");
  EXPECT_EQ(DidYouMean("workers.cpu", kNames), ", did you mean 'workers.cpus'?");
}

TEST(Collective, BlocksFollowNcclsBuffers) {
  const BufferBlocks gather_root = BlocksOf(Collective::kGather, 4, 2, 2);
  EXPECT_EQ(gather_root.send, 1u);
  EXPECT_EQ(gather_root.receive, 4u);
  EXPECT_EQ(BlocksOf(Collective::kGather, 4, 1, 2).receive, 0u);
  EXPECT_EQ(BlocksOf(Collective::kReduceScatter, 4, 1, -1).send, 4u);
  EXPECT_EQ(BlocksOf(Collective::kBroadcast, 4, 1, 0).send, 0u);
}

Status ReadWorkers(const std::string& text, int64_t* count, std::string* level,
                   std::vector<int64_t>* cpus) {
  Result<TomlReader> reader = TomlReader::FromString(text, "provider.toml");
  if (!reader.ok()) return reader.status();
  reader->Integer("workers.count", 0, 64, count);
  reader->IntegerList("workers.cpus", 0, 7, cpus);
  reader->Choice("log.level", {"info", "debug"}, level);
  return reader->Finish();
}

TEST(TomlReader, ReadsWhatIsThereAndLeavesTheRest) {
  int64_t count = 5;
  std::string level = "info";
  std::vector<int64_t> cpus;
  EXPECT_TRUE(ReadWorkers("[workers]\ncpus = [0, 3]\n", &count, &level, &cpus).ok());
  EXPECT_EQ(count, 5);
  EXPECT_EQ(cpus, (std::vector<int64_t>{0, 3}));
}

TEST(TomlReader, ErrorsGiveThePlaceAndTheNearestName) {
  struct {
    std::string text;
    std::string expected;
  } const kCases[] = {
      {"[workers]\ncont = 3\n",
       "provider.toml:2:1: unknown key 'workers.cont', did you mean 'workers.count'?"},
      {"[workers]\ncount = 65\n",
       "provider.toml:2:9: 'workers.count' must be an integer from 0 to 64"},
      {"[workers]\ncount = \"many\"\n",
       "provider.toml:2:9: 'workers.count' must be an integer from 0 to 64"},
      {"[log]\nlevel = \"inof\"\n",
       "provider.toml:2:9: 'log.level' must be one of \"info\", \"debug\", did you mean 'info'?"},
      {"[workers]\ncpus = [1, 9]\n",
       "provider.toml:2:12: 'workers.cpus' must be a list of integers from 0 to 7"},
      {"[wrokers]\n", "provider.toml:1:2: unknown key 'wrokers'"},
  };
  for (const auto& c : kCases) {
    int64_t count = 0;
    std::string level;
    std::vector<int64_t> cpus;
    const Status status = ReadWorkers(c.text, &count, &level, &cpus);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << c.text;
    EXPECT_EQ(status.message().substr(0, c.expected.size()), c.expected);
  }
}

TEST(TomlReader, SyntaxErrorsGiveThePlace) {
  const Result<TomlReader> reader = TomlReader::FromString("a = \nb = 1\n", "x.toml");
  ASSERT_FALSE(reader.ok());
  EXPECT_EQ(reader.status().message().substr(0, 9), "x.toml:1:");
}

TEST(TomlReader, SurvivesAnything) {
  std::mt19937 random(3);
  const std::string seed = "[workers]\ncount = 3\ncpus = [1, 2]\n[log]\nlevel = \"info\"\n";
  for (int i = 0; i < 3000; ++i) {
    std::string text = seed;
    for (int changes = 0; changes < 4; ++changes) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    int64_t count = 0;
    std::string level;
    std::vector<int64_t> cpus;
    const Status status = ReadWorkers(text, &count, &level, &cpus);
    EXPECT_TRUE(status.ok() || !status.message().empty());
  }
}

}  // namespace
}  // namespace harmonaize
