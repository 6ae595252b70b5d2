#include "src/requirements/terms.h"

#include <gtest/gtest.h>

#include <string>

namespace harmonaize {
namespace {

JobTerms TermsOf(const std::string& text) {
  const Result<Requirements> read = ParseRequirements(text, "job.toml");
  EXPECT_TRUE(read.ok()) << read.status().message();
  return JobTerms(read.ok() ? *read : Requirements{});
}

TEST(JobTerms, OfAJobThatSaysNothingAreTheDefaults) {
  const JobTerms terms;
  EXPECT_EQ(terms.For("tp0", Collective::kAllReduce, 1 << 20), CollectiveTerms{});
  EXPECT_EQ(terms.SharingOf("tp0"), SharingTerms{});
  EXPECT_EQ(terms.faults(), FaultTerms{});
  EXPECT_EQ(terms.SizesToTellApart("tp0"), std::vector<uint64_t>{0});
}

TEST(JobTerms, HaveEveryKeyThatSaysHowOperationsAreCarriedOut) {
  const JobTerms terms = TermsOf(R"(
[collectives]
objective = "energy"
percentile = 95
priority = 2
bandwidth_floor = "2 GB/s"
bandwidth_cap = "3 GB/s"
deadline_us = 250
algorithms.allow = ["ring", "star"]
algorithms.forbid = ["chain"]
reproducible = true
inline = false
processors = 3
compression = {allow = ["bf16"], error_bound = 0.02}
[faults]
late_after = "3 s"
give_up_after = "2 min"
on_rank_loss = "shrink"
)");
  const CollectiveTerms expected = {
      .objective = Objective::kEnergy,
      .deadline_seconds = 250 * 1e-6,
      .percentile = 95,
      .allowed_algorithms = {"ring", "star"},
      .forbidden_algorithms = {"chain"},
      .reproducible = true,
      .may_go_inline = false,
      .processors = 3,
      .compression = {.bf16 = true, .error_bound = 0.02},
      .sharing = {.priority = 2, .floor_bytes_per_second = 2e9, .cap_bytes_per_second = 3e9}};
  EXPECT_EQ(terms.For("", Collective::kReduce, 0), expected);
  EXPECT_EQ(terms.SharingOf(""), expected.sharing);
  const FaultTerms faults = {
      .late_after_seconds = 3, .give_up_after_seconds = 120, .shrinks_on_loss = true};
  EXPECT_EQ(terms.faults(), faults);
}

TEST(JobTerms, LaterOverridesGoBeforeEarlierOnes) {
  const JobTerms terms = TermsOf(R"(
[collectives]
objective = "throughput"
priority = 1
[[collectives.override]]
communicator = "tp*"
objective = "latency"
priority = 2
[[collectives.override]]
communicator = "tp*"
collective = "AllReduce"
sizes = ["1 MiB", "4 MiB"]
objective = "energy"
deadline_us = 50
)");
  const auto objective = [&](std::string_view communicator, Collective collective, uint64_t bytes) {
    return terms.For(communicator, collective, bytes).objective;
  };
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  EXPECT_EQ(objective("dp", Collective::kAllReduce, kMiB), Objective::kThroughput);
  EXPECT_EQ(objective("tp0", Collective::kReduce, kMiB), Objective::kLatency);
  EXPECT_EQ(objective("tp0", Collective::kAllReduce, kMiB - 1), Objective::kLatency);
  EXPECT_EQ(objective("tp0", Collective::kAllReduce, kMiB), Objective::kEnergy);
  EXPECT_EQ(objective("tp0", Collective::kAllReduce, 4 * kMiB), Objective::kEnergy);
  EXPECT_EQ(objective("tp0", Collective::kAllReduce, 4 * kMiB + 1), Objective::kLatency);
  EXPECT_EQ(terms.SharingOf("tp0").priority, 2);
  EXPECT_EQ(terms.SharingOf("pp0").priority, 1);
  EXPECT_EQ(terms.SizesToTellApart("tp0"), (std::vector<uint64_t>{0, kMiB, 4 * kMiB + 1}));
  EXPECT_EQ(terms.SizesToTellApart("dp"), std::vector<uint64_t>{0});
}

JobTerms TermsOf(const char* text, bool may_look) {
  const Result<Requirements> read = ParseRequirements(text, "test");
  EXPECT_TRUE(read.ok()) << read.status().message();
  return JobTerms(*read, may_look);
}

TEST(JobTerms, RanksWaitByTheObjectiveOfTheirCommunicator) {
  EXPECT_EQ(JobTerms().LookingOf("any"), Looking::kAsItPays);
  const char* const latency =
      "[[collectives.override]]\ncommunicator = 'tp*'\nobjective = 'latency'";
  EXPECT_EQ(TermsOf(latency, true).LookingOf("tp0"), Looking::kForLong);
  EXPECT_EQ(TermsOf(latency, true).LookingOf("dp"), Looking::kAsItPays);
  EXPECT_EQ(TermsOf(latency, false).LookingOf("tp0"), Looking::kAsItPays)
      << "the policy forbids it";
  EXPECT_EQ(TermsOf("collectives.objective = 'energy'", false).LookingOf("any"), Looking::kNever);
  EXPECT_EQ(TermsOf("collectives.objective = 'throughput'", true).LookingOf("any"),
            Looking::kAsItPays);
  const char* const some =
      "[[collectives.override]]\ncollective = 'AllReduce'\nobjective = 'latency'";
  EXPECT_EQ(TermsOf(some, true).LookingOf("any"), Looking::kAsItPays)
      << "a wait is for all operations";
}

TEST(JobTerms, AdviceHasTheRangesAndTheGoal) {
  EXPECT_FALSE(JobTerms().adapt().accumulation.has_value());
  const AdaptTerms terms = TermsOf(
                               "job = {goal = 'deadline', deadline = 2027-01-31T18:00:00Z}\n"
                               "[adapt]\nbatch_size = [8, 64]\naccumulation = [1, 4]\n"
                               "synchronisation_interval = [1, 2]\n"
                               "learning_rate_factor = [0.5, 2]\n",
                               false)
                               .adapt();
  EXPECT_EQ(terms.batch_size, (ValueRange{8, 64}));
  EXPECT_EQ(terms.accumulation, (ValueRange{1, 4}));
  EXPECT_EQ(terms.synchronisation_interval, (ValueRange{1, 2}));
  EXPECT_EQ(terms.learning_rate_factor, (ValueRange{0.5, 2}));
  EXPECT_EQ(terms.deadline, 1801418400);
  EXPECT_FALSE(TermsOf("job = {goal = 'fastest', deadline = 2027-01-31T18:00:00Z}", false)
                   .adapt()
                   .deadline.has_value());
}

TEST(MatchesPattern, StarsStandForAnyCharacters) {
  EXPECT_TRUE(MatchesPattern("tp0", "tp0"));
  EXPECT_TRUE(MatchesPattern("tp0", "tp*"));
  EXPECT_TRUE(MatchesPattern("tp", "tp*"));
  EXPECT_TRUE(MatchesPattern("", "*"));
  EXPECT_TRUE(MatchesPattern("abcabd", "*ab*d"));
  EXPECT_TRUE(MatchesPattern("aaab", "a*ab"));
  EXPECT_TRUE(MatchesPattern("a*b", "a*b"));
  EXPECT_FALSE(MatchesPattern("tp0", "tp"));
  EXPECT_FALSE(MatchesPattern("tp", "tp0"));
  EXPECT_FALSE(MatchesPattern("abc", "*b"));
  EXPECT_FALSE(MatchesPattern("", "a*"));
  EXPECT_TRUE(MatchesPattern("", ""));
}

TEST(MatchesPattern, ManyStarsTakeNoLongTime) {
  std::string pattern;
  for (int i = 0; i < 64; ++i) pattern += "a*";
  EXPECT_FALSE(MatchesPattern(std::string(128, 'a'), pattern.substr(0, 127) + "b"));
}

}  // namespace
}  // namespace harmonaize
