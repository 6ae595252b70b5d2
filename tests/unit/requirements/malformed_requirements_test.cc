// Documents with one mistake each: the error tells the file, the line, the column, what was
// expected, and the nearest name that there is.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "src/requirements/requirements.h"
#include "tests/unit/replaced_new.h"
#include "tests/unit/requirements/sample_values.h"

namespace harmonaize {
namespace {

/// How many documents the tests below have tried.
int g_tried = 0;

/// Returns whether the text begins with "job.toml:LINE:COLUMN: " and goes on.
bool BeginsWithPlace(std::string_view text, int line) {
  const std::string head = fmt::format("job.toml:{}:", line);
  if (!text.starts_with(head)) return false;
  text.remove_prefix(head.size());
  const size_t end = text.find_first_not_of("0123456789");
  return end != text.npos && end > 0 && text.substr(end).starts_with(": ") && text.size() > end + 2;
}

/// Expects one mistake, in this line, whose text has `words`. Returns the text.
std::string ExpectMistake(const std::string& document, int line, const std::string& words) {
  ++g_tried;
  const Result<Requirements> read = ParseRequirements(document, "job.toml");
  if (read.ok()) {
    ADD_FAILURE() << "taken:\n" << document;
    return "";
  }
  const std::string text = read.status().message();
  EXPECT_EQ(read.status().code(), Code::kInvalidArgument) << text;
  EXPECT_TRUE(BeginsWithPlace(text, line)) << text << "\n" << document;
  EXPECT_NE(text.find(words), std::string::npos) << text << "\n" << document;
  EXPECT_LE(text.size(), 1200u);
  return text;
}

/// Returns names that somebody may type who means `name`: its last part has a letter too few, or
/// one too many.
std::vector<std::string> Mistyped(std::string_view name) {
  const size_t part = name.rfind('.') + 1;
  const size_t middle = part + (name.size() - part) / 2;
  std::string without(name);
  without.erase(middle, 1);
  std::string twice(name);
  twice.insert(middle, 1, name[middle]);
  return {without, twice};
}

TEST(MalformedRequirements, ValuesOfAnotherKindOrBeyondBounds) {
  for (const RequirementKey& key : RequirementKeys()) {
    for (const std::string& value : WrongValues(key)) {
      ExpectMistake(fmt::format("# A comment.\n\n{} = {}\n", key.name, value), 3,
                    value == "{}" ? "" : std::string(key.name));
    }
  }
  for (const RequirementKey& key : OverrideKeys()) {
    for (const std::string& value : WrongValues(key)) {
      ExpectMistake(fmt::format("[[collectives.override]]\n[[collectives.override]]\n{} = {}\n",
                                key.name, value),
                    3, value == "{}" ? "" : fmt::format("collectives.override[1].{}", key.name));
    }
  }
}

TEST(MalformedRequirements, MistypedNames) {
  for (const RequirementKey& key : RequirementKeys()) {
    for (const std::string& name : Mistyped(key.name)) {
      const std::string text =
          ExpectMistake(fmt::format("\n{} = {}\n", name, RightValue(key)), 2, "unknown key");
      EXPECT_NE(text.find("did you mean '"), std::string::npos) << text;
    }
  }
}

TEST(MalformedRequirements, MistypedChoices) {
  EXPECT_NE(ExpectMistake("[collectives]\nobjective = \"latencey\"\n", 2, "\"throughput\"")
                .find("did you mean 'latency'?"),
            std::string::npos);
  EXPECT_NE(ExpectMistake("[collectives.algorithms]\nallow = [\"ring\", \"tow-rings\"]\n", 2, "")
                .find("did you mean 'two-rings'?"),
            std::string::npos);
}

TEST(MalformedRequirements, TextThatIsNoToml) {
  const std::pair<const char*, int> documents[] = {
      {"[collectives\n", 1},
      {"[job]\nname\n", 2},
      {"[job]\nname = \n", 2},
      {"[job]\nname = \"a\n", 2},
      {"[job]\nname = 'a\"\n", 2},
      {"\n\n[job]\nname = \"a\"\nname = \"b\"\n", 5},
      {"[job]\n[job]\n", 2},
      {"[job]\nname = \"a\" kind = \"batch\"\n", 2},
      {"[collectives]\noverride = 3\n", 2},
      {"[collectives.override]\nobjective = \"latency\"\n", 1},
      {"[collectives]\npriority = 07\n", 2},
      {"[collectives]\npriority = 99999999999999999999\n", 2},
      {"[job]\nname = \"\\q\"\n", 2},
      {"[job]\nname = \"\xff\xfe\"\n", 2},
      {"[job]\nname = \"a\\u0000b\"\n", 2},
      {"\x01", 1},
      {"= 3\n", 1},
      {"[]\n", 1},
      {"[[market.launch]\n", 1},
      {"market = [1, 2]\n", 1},
      {"[market]\nlaunch = [1, {}]\n", 2},
      {"job = \"a\"\n", 1},
      {"[jobs]\nname = \"a\"\n", 2},
      {"[collectives.override.deep]\nx = 1\n", 1},
      {"[collectives]\ncompression = \"bf16\"\n", 2},
      {"[collectives]\ncompression = {alow = [\"bf16\"]}\n", 2},
      {"[collectives]\nalgorithms = [\"ring\"]\n", 2},
  };
  for (const auto& [document, line] : documents) ExpectMistake(document, line, "");
}

TEST(MalformedRequirements, ValuesThatCannotBeSaidTogether) {
  ExpectMistake("[collectives]\nbandwidth_floor = \"2 GB/s\"\nbandwidth_cap = \"1 GB/s\"\n", 2,
                "must not be above 'collectives.bandwidth_cap'");
  ExpectMistake("[elastic]\nleast_ranks = 8\nmost_ranks = 4\n", 2, "'elastic.most_ranks'");
  ExpectMistake("[faults]\nlate_after = \"20 s\"\ngive_up_after = \"10 s\"\n", 2,
                "'faults.give_up_after'");
  ExpectMistake("[collectives]\nalgorithms = {allow = [\"ring\"], forbid = [\"star\", \"ring\"]}\n",
                2, "leaves none");
  ExpectMistake(
      "[[collectives.override]]\nbandwidth_floor = \"2 GB/s\"\nbandwidth_cap = \"1 GB/s\"\n", 2,
      "'collectives.override[0].bandwidth_cap'");
}

TEST(MalformedRequirements, QuotedNamesThatSpellTheWayToAKey) {
  ExpectMistake("\"collectives.objective\" = \"latency\"\n", 1, "unknown key");
  ExpectMistake("[collectives]\n\"algorithms.allow\" = \"ring\"\n", 2, "unknown key");
}

TEST(MalformedRequirements, SharesOfLinksForSomeOperations) {
  for (const char* const beside : {"collective = \"AllReduce\"", "sizes = [\"0 B\", \"1 MiB\"]"}) {
    for (const char* const key :
         {"priority = 1", "bandwidth_floor = \"1 GB/s\"", "bandwidth_cap = \"1 GB/s\""}) {
      ExpectMistake(fmt::format("[[collectives.override]]\n{}\n{}\n", beside, key), 3,
                    "for communicators as a whole");
    }
  }
}

TEST(MalformedRequirements, DocumentsBeyondBounds) {
  ExpectMistake(std::string(kMostRequirementsBytes + 1, '#'), 1, "more than 65536 bytes");
  std::string overrides;
  for (size_t i = 0; i <= kMostOverrides; ++i) overrides += "[[collectives.override]]\n";
  ExpectMistake(overrides, 1, "64 are the most");
  std::string launches;
  for (size_t i = 0; i <= kMostLaunches; ++i) launches += "[[market.launch]]\n";
  ExpectMistake(launches, 1, "64 are the most");
  // Each would let a reader call itself thousands of times.
  std::string dotted = "a";
  for (int i = 0; i < 30'000; ++i) dotted += ".a";
  ExpectMistake(dotted + " = 1\n", 1, "16 deep");
  ExpectMistake("[" + dotted + "]\n", 1, "16 deep");
  ExpectMistake("x = " + std::string(60'000, '[') + "\n", 1, "16 deep");
  std::string tables;
  for (int i = 0; i < 10'000; ++i) tables += "a={";
  ExpectMistake(tables, 1, "16 deep");
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "a.a.a.a.a = [ {";
  ExpectMistake(lines, 1, "16 deep");
}

TEST(MalformedRequirements, ManyMistakesAreListedInOrder) {
  std::string document = "[collectives]\n";
  for (int i = 0; i < 4000; ++i) document += fmt::format("x{} = 1\n", i);
  const std::vector<Status> mistakes = ReadRequirements(document, "job.toml", 3).mistakes;
  ASSERT_EQ(mistakes.size(), 3u);
  EXPECT_TRUE(mistakes[0].message().starts_with("job.toml:2:1: ")) << mistakes[0].message();
  EXPECT_TRUE(mistakes[2].message().starts_with("job.toml:4:1: ")) << mistakes[2].message();
}

// Each override makes two dozen keys known. A document that has as many overrides as there may be,
// and then tables that mean nothing, is read with no more work for each of these tables.
TEST(MalformedRequirements, EmptyTablesBesideManyOverridesAreReadWithLittleWork) {
  std::string document;
  for (size_t i = 0; i < kMostOverrides; ++i) document += "[[collectives.override]]\n";
  int tables = 0;
  // The names are too long for a string to keep them without an allocation.
  for (; document.size() + 32 < kMostRequirementsBytes; ++tables) {
    document += fmt::format("[a_table_of_no_meaning_{:04}]\n", tables);
  }
  const int before = AllocationCount();
  const std::vector<Status> mistakes = ReadRequirements(document, "job.toml", 20).mistakes;
  EXPECT_LT(AllocationCount() - before, 32 * tables);
  ASSERT_EQ(mistakes.size(), 20u);
  EXPECT_EQ(mistakes.front().message(), "job.toml:65:2: unknown key 'a_table_of_no_meaning_0000'");
  EXPECT_EQ(mistakes.back().message(), "job.toml:84:2: unknown key 'a_table_of_no_meaning_0019'");
}

TEST(MalformedRequirements, AreHundreds) {
  if (::testing::GTEST_FLAG(filter) != "*") GTEST_SKIP() << "counts what the other tests tried";
  EXPECT_GE(g_tried, 300);
}

}  // namespace
}  // namespace harmonaize
