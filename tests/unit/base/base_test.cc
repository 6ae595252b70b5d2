#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "src/base/byte_size.h"
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
  EXPECT_EQ(DidYouMeanKey("workers.cpu", kNames), ", did you mean 'workers.cpus'?");
  EXPECT_EQ(DidYouMeanKey("level", kNames), ", did you mean 'log.level'?");
  EXPECT_EQ(DidYouMeanKey("policy.defaults.count", kNames), ", did you mean 'workers.count'?");
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
  HZ_ASSIGN_OR_RETURN(TomlReader reader, TomlReader::FromString(text, "provider.toml"));
  reader.Integer("workers.count", 0, 64, count);
  reader.IntegerList("workers.cpus", 0, 7, cpus);
  reader.Choice("log.level", {"info", "debug"}, level);
  return reader.Finish();
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

TEST(TomlReader, ReadsTablesAndListsOfStrings) {
  Result<TomlReader> reader =
      TomlReader::FromString("[[host]]\nname = \"a\"\n[[host]]\nname = [\"b\", \"c\"]\n", "f.toml");
  ASSERT_TRUE(reader.ok());
  ASSERT_EQ(reader->Tables("host"), 2u);
  EXPECT_EQ(reader->Tables("switch"), 0u);
  std::vector<std::string> names;
  reader->StringList("host[0].name", &names);
  EXPECT_EQ(names, std::vector<std::string>{"a"});
  reader->StringList("host[1].name", &names);
  EXPECT_EQ(names, (std::vector<std::string>{"b", "c"}));
  EXPECT_TRUE(reader->Has("host[1].name"));
  EXPECT_FALSE(reader->Has("host[2].name"));
  EXPECT_TRUE(reader->Finish().ok());
  // What the caller finds wrong has the place of the value, or of the table that lacks it.
  reader->Reject("host[1].rack", "no rack");
  EXPECT_EQ(reader->Finish().message(), "f.toml:3:1: no rack");
  reader->Reject("host[0].name", "not this one");
  EXPECT_EQ(reader->Finish().message(), "f.toml:2:8: not this one");
}

TEST(TomlReader, KeysOfTablesMustBeAskedForToo) {
  const auto error = [](const std::string& text, bool ask) {
    Result<TomlReader> reader = TomlReader::FromString(text, "f.toml");
    std::vector<std::string> names;
    if (ask && reader->Tables("host") > 0) reader->StringList("host[0].name", &names);
    return reader->Finish().message();
  };
  EXPECT_EQ(error("[[host]]\nname = \"a\"\nnane = 1\n", true),
            "f.toml:3:1: unknown key 'host[0].nane', did you mean 'host[0].name'?");
  EXPECT_EQ(error("[[host]]\nname = \"a\"\n", false), "f.toml:1:3: unknown key 'host'");
  EXPECT_EQ(error("host = 3\n", true), "f.toml:1:8: 'host' must be tables: [[host]]");
  EXPECT_EQ(error("[[host]]\nname = [1]\n", true), "f.toml:2:9: 'host[0].name' lists strings only");
  EXPECT_EQ(error("[[host]]\nname = 1\n", true),
            "f.toml:2:8: 'host[0].name' must be a string or a list of strings");
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

TEST(FindCollective, TakesAnySpelling) {
  for (const char* text : {"AllReduce", "allreduce", "all_reduce", "ALL-REDUCE"}) {
    const Result<Collective> collective = FindCollective(text);
    ASSERT_TRUE(collective.ok()) << text;
    EXPECT_EQ(*collective, Collective::kAllReduce);
  }
  EXPECT_EQ(*FindCollective("all-to-all"), Collective::kAllToAll);
  const Result<Collective> wrong = FindCollective("AllRedcue");
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.status().message().find("did you mean 'AllReduce'?"), std::string::npos);
}

TEST(ByteSize, IsReadInPowersOf1024) {
  EXPECT_EQ(ParseBytes("4096").value(), 4096u);
  EXPECT_EQ(ParseBytes("64K").value(), 65536u);
  EXPECT_EQ(ParseBytes("1MiB").value(), 1u << 20);
  EXPECT_EQ(ParseBytes("2g").value(), uint64_t{2} << 30);
  for (const char* wrong : {"", "0", "x", "1X", "-1", "1.5M", "99999T", "64KK"}) {
    EXPECT_FALSE(ParseBytes(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace harmonaize
