#include "src/requirements/requirements.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/requirements/requirements_table.h"
#include "src/base/collective.h"
#include "src/base/json_text.h"
#include "src/base/words.h"
#include "src/requirements/requirements_schema.h"
#include "src/schedule/algorithms/algorithms.h"
#include "tests/unit/requirements/sample_values.h"

namespace harmonaize {
namespace {

Requirements Read(const std::string& text) {
  const Result<Requirements> read = ParseRequirements(text, "job.toml");
  EXPECT_TRUE(read.ok()) << read.status().message() << "\n" << text;
  return read.ok() ? *read : Requirements{};
}

template <typename T>
T ValueOf(const RequirementTable& table, std::string_view key) {
  const auto found = table.find(key);
  if (found == table.end() || !std::holds_alternative<T>(found->second)) {
    ADD_FAILURE() << key << " is not there";
    return T{};
  }
  return std::get<T>(found->second);
}

constexpr char kDocument[] = R"(
# Of a language model.
[job]
name = "llama"
deadline = 2027-01-31T19:00:00.5+01:00
[collectives]
objective = "throughput"
bandwidth_floor = "16 Gbit/s"
algorithms.forbid = "star"
compression = {allow = ["bf16", "fp8"], error_bound = 1e-2}
[[collectives.override]]
communicator = "tp*"
sizes = ["0 B", "64 KiB"]
objective = "latency"
[[collectives.override]]
collective = "AllReduce"
deadline_us = 300
[adapt]
batch_size = [256, 1024]
[faults]
late_after = "1.5 min"
[[market.launch]]
cluster = "north"
price = 2
)";

TEST(ParseRequirements, ReadsEachKindOfValue) {
  const Requirements read = Read(kDocument);
  EXPECT_EQ(ValueOf<std::string>(read.values, "job.name"), "llama");
  EXPECT_EQ(ValueOf<double>(read.values, "job.deadline"), 1801418400.5);
  EXPECT_EQ(ValueOf<double>(read.values, "collectives.bandwidth_floor"), 2e9);
  EXPECT_EQ(ValueOf<std::vector<std::string>>(read.values, "collectives.algorithms.forbid"),
            std::vector<std::string>{"star"});
  EXPECT_EQ(ValueOf<double>(read.values, "collectives.compression.error_bound"), 0.01);
  EXPECT_EQ(ValueOf<ValueRange>(read.values, "adapt.batch_size"), (ValueRange{256, 1024}));
  EXPECT_EQ(ValueOf<double>(read.values, "faults.late_after"), 90);
  ASSERT_EQ(read.overrides.size(), 2u);
  EXPECT_EQ(ValueOf<ValueRange>(read.overrides[0], "sizes"), (ValueRange{0, 65536}));
  EXPECT_EQ(ValueOf<std::string>(read.overrides[0], "objective"), "latency");
  EXPECT_EQ(ValueOf<double>(read.overrides[1], "deadline_us"), 300);
  ASSERT_EQ(read.launches.size(), 1u);
  EXPECT_EQ(ValueOf<std::string>(read.launches[0], "cluster"), "north");
}

TEST(ParseRequirements, AnEmptyDocumentSaysNothing) {
  EXPECT_EQ(Read(""), Requirements{});
  EXPECT_EQ(Read("[collectives]\n[job]\n"), Requirements{});
}

TEST(ParseRequirements, TakesEveryKeyAloneAndWritesItBack) {
  for (const RequirementKey& key : RequirementKeys()) {
    const Requirements read = Read(fmt::format("{} = {}\n", key.name, RightValue(key)));
    EXPECT_EQ(read.values.size(), 1u) << key.name;
    EXPECT_EQ(Read(RequirementsText(read)), read) << RequirementsText(read);
  }
  for (const RequirementKey& key : OverrideKeys()) {
    const Requirements read =
        Read(fmt::format("[[collectives.override]]\n{} = {}\n", key.name, RightValue(key)));
    ASSERT_EQ(read.overrides.size(), 1u) << key.name;
    EXPECT_EQ(Read(RequirementsText(read)), read) << RequirementsText(read);
  }
}

TEST(RequirementsText, IsReadAsTheSame) {
  const Requirements read = Read(kDocument);
  EXPECT_EQ(Read(RequirementsText(read)), read) << RequirementsText(read);
}

TEST(RequirementsText, HasTheFirstAndTheLastTimeThatMayBeSaid) {
  for (const std::string time : {"1970-01-01T00:00:00.000000Z", "2262-04-11T00:00:00.000000Z"}) {
    const std::string text = "[job]\ndeadline = " + time + "\n";
    EXPECT_EQ(RequirementsText(Read(text)), text);
  }
  const Result<Requirements> late =
      ParseRequirements("[job]\ndeadline = 2262-04-11T00:00:01Z\n", "job.toml");
  EXPECT_EQ(late.status().message(),
            "job.toml:2:12: 'job.deadline' must be a time from 1970-01-01T00:00:00Z to "
            "2262-04-11T00:00:00Z");
}

TEST(Merged, LaterKeysReplaceEarlierOnesOneByOne) {
  const Requirements first = Read(kDocument);
  const Requirements second =
      Read("[collectives]\nobjective = \"energy\"\npriority = 1\n[job]\nname = \"other\"\n");
  const Requirements merged = Merged(first, second);
  EXPECT_EQ(ValueOf<std::string>(merged.values, "collectives.objective"), "energy");
  EXPECT_EQ(ValueOf<int64_t>(merged.values, "collectives.priority"), 1);
  EXPECT_EQ(ValueOf<std::string>(merged.values, "job.name"), "other");
  EXPECT_EQ(ValueOf<double>(merged.values, "faults.late_after"), 90);
  EXPECT_EQ(merged.overrides, first.overrides);
  const Requirements third = Read("[[collectives.override]]\nobjective = \"latency\"\n");
  EXPECT_EQ(Merged(merged, third).overrides, third.overrides);
}

TEST(Says, TellsWhetherAStatementChangesAnything) {
  const Requirements known = Read(kDocument);
  const std::string statements[] = {
      "",
      kDocument,
      "faults.late_after = \"90 s\"\n",
      "faults.late_after = \"91 s\"\n",
      "job.kind = \"batch\"\n",
      "[[collectives.override]]\nobjective = \"latency\"\n",
      "[[market.launch]]\nprice = 3\n",
  };
  int changing = 0;
  for (const std::string& text : statements) {
    const Requirements statement = Read(text);
    EXPECT_EQ(Says(known, statement), Merged(known, statement) == known) << text;
    changing += Says(known, statement) ? 0 : 1;
  }
  EXPECT_EQ(changing, 4);
}

TEST(RequirementKeys, NameWhatThereIs) {
  std::string algorithms;
  for (const Algorithm& algorithm : Algorithms()) {
    algorithms += (algorithms.empty() ? "" : " ") + std::string(algorithm.name);
  }
  std::string collectives;
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    collectives += (collectives.empty() ? "" : " ") + std::string(CollectiveName(collective));
  }
  std::set<std::string_view> names;
  for (const RequirementKey& key : RequirementKeys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name << " is there twice";
    EXPECT_TRUE(key.meaning.ends_with('.')) << key.name;
    EXPECT_NE(MeaningOfTable(key.name.substr(0, key.name.find('.'))), "") << key.name;
    if (key.name.find("algorithms.") != key.name.npos) {
      EXPECT_EQ(key.choices, algorithms);
    }
  }
  EXPECT_EQ(OverrideKeys()[1].choices, collectives);
  for (const RequirementKey& key : CollectiveKeys()) {
    EXPECT_TRUE(names.contains("collectives." + std::string(key.name))) << key.name;
  }
}

TEST(RequirementsSchema, HasEveryKey) {
  const nlohmann::json schema = ReadJson(RequirementsSchema());
  for (const RequirementKey& key : RequirementKeys()) {
    const nlohmann::json* place = &schema;
    std::string_view rest = key.name;
    while (!rest.empty()) {
      const size_t dot = rest.find('.');
      const std::string part(rest.substr(0, dot));
      ASSERT_TRUE((*place)["properties"].contains(part)) << key.name;
      place = &(*place)["properties"][part];
      rest = dot == rest.npos ? "" : rest.substr(dot + 1);
    }
    EXPECT_EQ((*place)["description"], key.meaning);
  }
  const auto& item = schema["properties"]["collectives"]["properties"]["override"]["items"];
  EXPECT_TRUE(item["properties"].contains("communicator"));
  EXPECT_TRUE(item["properties"]["compression"]["properties"].contains("error_bound"));
}

TEST(RequirementsTable, ListsWhatIsSaid) {
  const std::string table = RequirementsTable(Read(kDocument));
  EXPECT_NE(table.find("collectives.bandwidth_floor"), std::string::npos) << table;
  EXPECT_NE(table.find("\"2 GB/s\""), std::string::npos) << table;
  EXPECT_NE(table.find("collectives.override[1].deadline_us"), std::string::npos) << table;
  EXPECT_NE(table.find("[256, 1024]"), std::string::npos) << table;
  const std::string all = AllRequirementKeys();
  for (const RequirementKey& key : RequirementKeys()) {
    EXPECT_NE(all.find(key.meaning), std::string::npos) << key.name;
  }
}

TEST(RequirementsDocument, SaysOfEachKeyWhatTheTableSays) {
  std::ifstream file(REQUIREMENTS_DOCUMENT);
  const std::string document(std::istreambuf_iterator<char>(file), {});
  const auto expect = [&](std::string_view name, const RequirementKey& key) {
    const size_t row = document.find(fmt::format("\n| `{}` | ", name));
    ASSERT_NE(row, std::string::npos) << name;
    const std::string line = document.substr(row + 1, document.find('\n', row + 1) - row - 1);
    EXPECT_TRUE(line.ends_with(fmt::format("| {} |", key.meaning))) << line;
  };
  for (const RequirementKey& key : RequirementKeys()) {
    expect(key.name.substr(key.name.find('.') + 1), key);
  }
  for (const RequirementKey& key : OverrideKeys()) expect(key.name, key);
  for (const RequirementKey& key : LaunchKeys()) expect(key.name, key);
}

}  // namespace
}  // namespace harmonaize
