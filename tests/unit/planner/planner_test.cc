#include "src/planner/planner.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/executor/network/fabric_rails.h"
#include "src/planner/plan_file.h"
#include "src/schedule/check/check.h"
#include "src/topology/fabric/fat_tree.h"
#include "tests/unit/planner/fabrics.h"

namespace harmonaize {
namespace {

constexpr uint64_t kLarge = uint64_t{64} << 20;

Planner PlannerFor(const FabricModel& model, const Problem& problem,
                   const PlannerOptions& options = {}) {
  Result<Planner> planner = Planner::Make(model, problem, options);
  EXPECT_TRUE(planner.ok()) << planner.status().message();
  return *std::move(planner);
}

std::string AlgorithmOf(const Planner& planner, const RankedPlan& plan) {
  return std::string(planner.candidates()[plan.candidate].spec.algorithm->name);
}

TEST(PlannerTest, ComesNearTheBoundOnEveryFabric) {
  for (const std::string& name : ShippedFabrics()) {
    const FabricModel model = ShippedFabric(name);
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
          Collective::kBroadcast, Collective::kReduce}) {
      const Planner planner = PlannerFor(model, ProblemOn(model, collective));
      const PlannedSize size = planner.PlanFor(kLarge);
      const double share = size.bound_seconds / size.plans[0].prediction.seconds;
      EXPECT_GE(share, 0.9) << name << " " << CollectiveName(collective);
      EXPECT_LE(share, 1.0) << name << " " << CollectiveName(collective);
    }
  }
}

TEST(PlannerTest, BeatsAStaticRingAcrossTheRacks) {
  const FabricModel model = ShippedFabric("two-racks");
  const Problem problem = AcrossTheRacks(model);
  const PlannedSize adaptive = PlannerFor(model, problem).PlanFor(kLarge);
  const Planner ring = PlannerFor(model, problem, {.policy = PlanPolicy::kStaticRing});
  const PlannedSize fixed = ring.PlanFor(kLarge);
  ASSERT_EQ(fixed.plans.size(), 1u);
  EXPECT_EQ(AlgorithmOf(ring, fixed.plans[0]), "ring");
  EXPECT_EQ(ring.candidates()[0].spec.order.hosts, (std::vector<int>{0, 2, 1, 3}));
  EXPECT_GE(fixed.plans[0].prediction.seconds, 2.6 * adaptive.plans[0].prediction.seconds);
  EXPECT_DOUBLE_EQ(fixed.bound_seconds, adaptive.bound_seconds);
}

TEST(PlannerTest, SmallMessagesTakeFewTurns) {
  const FabricModel model = ShippedFabric("two-racks");
  const Planner planner = PlannerFor(model, ProblemOn(model, Collective::kAllReduce));
  const RankedPlan small = planner.PlanFor(256).plans[0];
  const RankedPlan large = planner.PlanFor(kLarge).plans[0];
  const auto turns = [&](const RankedPlan& plan) {
    return planner.candidates()[plan.candidate].footprint.dependent_messages;
  };
  EXPECT_LT(turns(small), turns(large));
}

TEST(PlannerTest, WhereProcessorsAreSlowTheSimplestPlanIsTaken) {
  // A link of 12.5 GB/s between hosts whose processors send and receive 2.25 each.
  const FabricModel model = ShippedFabric("two-hosts");
  const NetworkCosts costs = {.message_seconds = 5e-6,
                              .handling_seconds = 8e-6,
                              .shared_processors = 2,
                              .wire_bytes_per_second = 2.25e9,
                              .credit_seconds = 2e-3};
  const Planner planner =
      PlannerFor(model, ProblemOn(model, Collective::kAllReduce), {.costs = costs});
  for (const uint64_t bytes : {uint64_t{1} << 20, uint64_t{4} << 20, kLarge}) {
    const PlannedSize size = planner.PlanFor(bytes);
    EXPECT_EQ(AlgorithmOf(planner, size.plans[0]), "ring") << bytes;
    EXPECT_GT(size.plans[0].prediction.seconds, 5 * size.bound_seconds) << "links alone know less";
  }
}

TEST(PlannerTest, EqualInputsGiveEqualPlans) {
  for (const std::string& name : ShippedFabrics()) {
    const FabricModel a = ShippedFabric(name);
    const FabricModel b = ShippedFabric(name);
    const Planner one = PlannerFor(a, ProblemOn(a, Collective::kAllReduce, 3));
    const Planner two = PlannerFor(b, ProblemOn(b, Collective::kAllReduce, 3));
    ASSERT_EQ(one.candidates().size(), two.candidates().size());
    for (const uint64_t bytes : SizeClasses()) {
      const PlannedSize left = one.PlanFor(bytes);
      const PlannedSize right = two.PlanFor(bytes);
      for (size_t i = 0; i < left.plans.size(); ++i) {
        EXPECT_EQ(left.plans[i].candidate, right.plans[i].candidate);
        EXPECT_EQ(left.plans[i].pieces, right.plans[i].pieces);
        // To the last bit.
        EXPECT_EQ(left.plans[i].prediction.seconds, right.plans[i].prediction.seconds);
      }
    }
  }
}

TEST(PlannerTest, EveryCandidateOfEveryCollectiveIsASoundSchedule) {
  for (const std::string& name : ShippedFabrics()) {
    const FabricModel model = ShippedFabric(name);
    for (int i = 0; i < kCollectiveCount; ++i) {
      const auto collective = static_cast<Collective>(i);
      if (IsPointToPoint(collective)) continue;
      const Planner planner = PlannerFor(model, ProblemOn(model, collective, 2));
      EXPECT_GT(planner.bound_seconds_per_byte(), 0);
      for (const RankedPlan& plan : planner.PlanFor(64 << 10).plans) {
        const OutlineResult outline = planner.OutlineOf(plan);
        ASSERT_TRUE(outline.ok()) << outline.status().message();
        EXPECT_TRUE(Check((*outline)->Write()).ok()) << AlgorithmOf(planner, plan);
      }
    }
  }
}

// Each route of packed trees has a rail, so that links carry what the trees were packed for.
TEST(PlannerTest, EveryLaneOfEveryCandidateHasARail) {
  for (const std::string& name : ShippedFabrics()) {
    const FabricModel model = ShippedFabric(name);
    const FabricRails rails(model.fabric());
    for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather,
                                        Collective::kReduceScatter, Collective::kBroadcast}) {
      SCOPED_TRACE(name + " " + std::string(CollectiveName(collective)));
      const Planner planner = PlannerFor(model, ProblemOn(model, collective));
      for (const RankedPlan& plan : planner.PlanFor(kLarge).plans) {
        size_t named = 0;
        for (int host = 0; host < model.hosts(); ++host) {
          for (const MessageLanes& one : planner.LanesFrom(plan.candidate, host)) {
            if (one.path >= 0) ++named;
            for (const Lane& lane : one.lanes) {
              EXPECT_GE(rails.RailFor(host, one.to_host, lane.from_nic, lane.to_nic, lane.path), 0);
            }
          }
        }
        if (AlgorithmOf(planner, plan) != "packed-trees") continue;
        EXPECT_GT(named, 0u);
        const double bound = planner.bound_seconds_per_byte() * static_cast<double>(kLarge);
        EXPECT_LE(plan.prediction.network, 1.001 * bound / NetworkCosts().payload_share);
      }
    }
  }
}

TEST(PlannerTest, ReproduciblePlansReduceInRankOrder) {
  const FabricModel model = ShippedFabric("one-rack");
  const Planner planner = PlannerFor(model, ProblemOn(model, Collective::kAllReduce),
                                     {.terms = {.reproducible = true}});
  for (const RankedPlan& plan : planner.PlanFor(kLarge).plans) {
    const OutlineResult outline = planner.OutlineOf(plan);
    EXPECT_TRUE(ReducesInRankOrder((*outline)->Write())) << AlgorithmOf(planner, plan);
  }
  EXPECT_FALSE(Planner::Make(model, ProblemOn(model, Collective::kAllReduce),
                             {.policy = PlanPolicy::kStaticRing, .terms = {.reproducible = true}})
                   .ok());
}

TEST(PlannerTest, OneHostTakesOnePass) {
  const FabricModel model = ShippedFabric("one-rack");
  Problem problem = ProblemOn(model, Collective::kAllReduce);
  problem.host_of_rank = {1, 1, 1};
  const Planner planner = PlannerFor(model, problem);
  const PlannedSize size = planner.PlanFor(kLarge);
  ASSERT_EQ(size.plans.size(), 1u);
  EXPECT_EQ(AlgorithmOf(planner, size.plans[0]), "one-host");
  EXPECT_EQ(size.bound_seconds, 0);
  EXPECT_GT(size.plans[0].prediction.memory, 0);
}

TEST(PlannerTest, ManyHostsGoWithoutPackedTreesAndSaySo) {
  const FabricModel model = FabricOf(FatTreeFile({.hosts = 64}).value());
  const Planner planner = PlannerFor(model, ProblemOn(model, Collective::kAllReduce));
  const auto& left_out = planner.not_considered();
  EXPECT_TRUE(std::any_of(left_out.begin(), left_out.end(), [](const NotConsidered& one) {
    return one.what == "packed-trees" && one.why == "more than 24 hosts";
  }));
  const PlannedSize size = planner.PlanFor(uint64_t{1} << 30);
  const double network = size.plans[0].prediction.network;
  EXPECT_GE(size.bound_seconds / network, 0.9);
}

TEST(PlannerTest, RefusesWhatDoesNotGoTogether) {
  const FabricModel model = ShippedFabric("one-rack");
  Problem problem = ProblemOn(model, Collective::kAllReduce);
  problem.host_of_rank.push_back(9);
  EXPECT_EQ(Planner::Make(model, problem, {}).status().message(),
            "a rank is on host 9; the fabric has 4 hosts");
  EXPECT_EQ(FindPlanPolicy("static-ring"), PlanPolicy::kStaticRing);
  EXPECT_EQ(FindPlanPolicy("ring"), std::nullopt);
}

TEST(PlanFileTest, FixesThePlan) {
  const FabricModel model = ShippedFabric("two-racks");
  const Result<PlanSpec> spec = ParsePlanFile(R"(
[plan]
algorithm = "ring"
order = ["host0", "host2", "host1", "host3"]
pieces = 4
paths = "even"
)",
                                              "plan.toml", model);
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  const Planner planner = PlannerFor(model, ProblemOn(model, Collective::kAllReduce),
                                     {.policy = PlanPolicy::kFixed, .fixed = *spec});
  const PlannedSize size = planner.PlanFor(kLarge);
  ASSERT_EQ(size.plans.size(), 1u);
  EXPECT_EQ(size.plans[0].pieces, 4);
  EXPECT_EQ((*planner.OutlineOf(size.plans[0]))->pieces(), 16);
  EXPECT_EQ(planner.candidates()[0].spec.paths, PathUse::kEven);
  EXPECT_EQ(Planner::Make(model, ProblemOn(model, Collective::kBroadcast),
                          {.policy = PlanPolicy::kFixed, .fixed = *spec})
                .status()
                .message(),
            "the algorithm 'ring' does not carry out Broadcast");
}

TEST(PlanFileTest, GroupsAreTables) {
  const FabricModel model = ShippedFabric("two-racks");
  const Result<PlanSpec> spec = ParsePlanFile(R"(
[plan]
algorithm = "hierarchical"
[[group]]
hosts = ["host0", "host2"]
[[group]]
hosts = ["host1", "host3"]
)",
                                              "plan.toml", model);
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  EXPECT_EQ(spec->groups, (std::vector<std::vector<int>>{{0, 2}, {1, 3}}));
}

TEST(PlanFileTest, ErrorsSayWhereAndWhat) {
  const FabricModel model = ShippedFabric("two-racks");
  const auto error = [&](const std::string& text) {
    return ParsePlanFile(text, "plan.toml", model).status().message();
  };
  const auto starts = [](const std::string& message, const std::string& with) {
    EXPECT_TRUE(message.starts_with(with)) << message;
  };
  const auto holds = [](const std::string& message, const std::string& what) {
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  starts(error("[plan]\nalgorithm = \"rings\"\n"), "plan.toml:2:");
  holds(error("[plan]\nalgorithm = \"rings\"\n"), "did you mean 'ring'?");
  holds(error("[plan]\npieces = 2\n"), "a plan needs an 'algorithm'");
  starts(error("[plan]\nalgorithm = \"ring\"\npieces = 0\n"), "plan.toml:3:");
  starts(error("[plan]\nalgorithm = \"ring\"\norder = [\"host0\", \"hots1\"]\n"), "plan.toml:3:");
  holds(error("[plan]\nalgorithm = \"ring\"\norder = [\"hots1\"]\n"),
        "the fabric has no host 'hots1', did you mean 'host1'?");
  holds(error("[plan]\nalgorithm = \"ring\"\npeices = 2\n"), "pieces");
  holds(error("[plan]\nalgorithm = \"hierarchical\"\n"), "needs [[group]]s");
  holds(error("[plan]\nalgorithm = \"packed-trees\"\norder = [\"host0\"]\n"), "takes no order");
  holds(error("[plan]\nalgorithm = \"ring\"\n[[group]]\nhosts = [\"host0\"]\n"), "takes no groups");
}

// ---------------------------------------------------------------------------------------------
// Formats on the wire

WireTerms AnyFormat(double error_bound) {
  return {.bf16 = true, .fp8 = true, .error_bound = error_bound};
}

TEST(PlannerTest, SendsSumsInAFormatThatIsFasterWithinTheBound) {
  const FabricModel model = ShippedFabric("two-racks");
  const auto best = [&](uint64_t bytes, const WireTerms& wire) {
    return PlannerFor(model, ProblemOn(model, Collective::kAllReduce), {.terms = {.wire = wire}})
        .PlanFor(bytes)
        .plans[0];
  };
  const RankedPlan plain = best(kLarge, {});
  const RankedPlan bf16 = best(kLarge, AnyFormat(0.02));
  EXPECT_EQ(plain.wire, WireFormat::kSame);
  EXPECT_EQ(bf16.wire, WireFormat::kBf16);
  EXPECT_GT(plain.prediction.seconds, 1.9 * bf16.prediction.seconds);
  const RankedPlan fp8 = best(kLarge, AnyFormat(0.5));
  EXPECT_EQ(fp8.wire, WireFormat::kFp8);
  EXPECT_GT(plain.prediction.seconds, 3.7 * fp8.prediction.seconds);
  // Small messages take as long in any format.
  EXPECT_EQ(best(256, AnyFormat(0.5)).wire, WireFormat::kSame);
}

TEST(PlannerTest, KeepsTheErrorBoundWithEachPlan) {
  const FabricModel model = ShippedFabric("two-racks");
  for (const double bound : {0.0, 0.005, 0.008, 0.012, 0.02, 0.2, 1.0}) {
    const Planner planner = PlannerFor(model, ProblemOn(model, Collective::kAllReduce),
                                       {.terms = {.wire = AnyFormat(bound)}});
    const PlannedSize size = planner.PlanFor(kLarge);
    for (const RankedPlan& plan : size.plans) {
      const int roundings = planner.candidates()[plan.candidate].roundings;
      ASSERT_GE(roundings, 2);
      EXPECT_LE(WireErrorBound(plan.wire, roundings, 4), bound) << AlgorithmOf(planner, plan);
    }
    if (bound == 0.005) {
      EXPECT_EQ(size.plans[0].wire, WireFormat::kSame);
    }
  }
}

TEST(PlannerTest, WithADeadlineTheLeastLossyFormatThatMeetsItIsUsed) {
  const FabricModel model = ShippedFabric("two-racks");
  const auto best = [&](const PlanTerms& terms) {
    return PlannerFor(model, ProblemOn(model, Collective::kAllReduce), {.terms = terms})
        .PlanFor(kLarge)
        .plans[0];
  };
  const double plain = best({}).prediction.seconds;
  const auto format = [&](double deadline_seconds, bool fp8 = true) {
    PlanTerms terms{.deadline_seconds = deadline_seconds, .wire = AnyFormat(0.5)};
    terms.wire.fp8 = fp8;
    return best(terms).wire;
  };
  EXPECT_EQ(format(1.01 * plain), WireFormat::kSame);
  EXPECT_EQ(format(0.9 * plain), WireFormat::kBf16);
  EXPECT_EQ(format(0.4 * plain), WireFormat::kFp8);
  // Nothing meets it: the fastest.
  EXPECT_EQ(format(0.1 * plain), WireFormat::kFp8);
  EXPECT_EQ(format(0.1 * plain, false), WireFormat::kBf16);
}

TEST(PlannerTest, SumsStayAsTheyAreUnlessTheyMayChange) {
  const FabricModel model = ShippedFabric("two-racks");
  const WireTerms terms = AnyFormat(1);
  const Problem reduces = ProblemOn(model, Collective::kAllReduce);
  const Problem gathers = ProblemOn(model, Collective::kAllGather);
  for (const Planner& planner :
       {PlannerFor(model, gathers, {.terms = {.wire = terms}}),
        PlannerFor(model, reduces, {.terms = {.reproducible = true, .wire = terms}}),
        PlannerFor(model, reduces, {.policy = PlanPolicy::kStaticRing, .terms = {.wire = terms}}),
        PlannerFor(model, reduces)}) {
    for (const RankedPlan& plan : planner.PlanFor(kLarge).plans) {
      EXPECT_EQ(plan.wire, WireFormat::kSame) << AlgorithmOf(planner, plan);
    }
  }
}

// ---------------------------------------------------------------------------------------------
// What a job says

TEST(PlannerTest, UsesTheAlgorithmsThatTheJobWants) {
  const FabricModel model = ShippedFabric("two-racks");
  const Problem problem = ProblemOn(model, Collective::kAllReduce);
  const Planner only =
      PlannerFor(model, problem, {.terms = {.allowed_algorithms = {"ring", "star"}}});
  for (const Candidate& candidate : only.candidates()) {
    const std::string name(candidate.spec.algorithm->name);
    EXPECT_TRUE(name == "ring" || name == "star") << name;
  }
  const Planner all = PlannerFor(model, problem);
  const std::string usual = AlgorithmOf(all, all.PlanFor(kLarge).plans[0]);
  const Planner without = PlannerFor(model, problem, {.terms = {.forbidden_algorithms = {usual}}});
  EXPECT_NE(AlgorithmOf(without, without.PlanFor(kLarge).plans[0]), usual);
  EXPECT_FALSE(Planner::Make(model, problem, {.terms = {.allowed_algorithms = {"one-host"}}}).ok());
}

/// The best plan for each objective, with what there is least of in it.
TEST(PlannerTest, AnObjectiveHasTheLeastOfWhatItWantsLittleOf) {
  for (const std::string& name : ShippedFabrics()) {
    const FabricModel model = ShippedFabric(name);
    const Problem problem = ProblemOn(model, Collective::kAllReduce);
    const auto planner_for = [&](PlanObjective objective) {
      return PlannerFor(model, problem, {.terms = {.objective = objective}});
    };
    const Planner fastest = planner_for(PlanObjective::kFastest);
    const Planner fewest = planner_for(PlanObjective::kFewestMessages);
    const Planner least_traffic = planner_for(PlanObjective::kLeastTraffic);
    const Planner least_work = planner_for(PlanObjective::kLeastWork);
    for (const uint64_t bytes : {uint64_t{4096}, uint64_t{1} << 20, kLarge}) {
      const RankedPlan best = fastest.PlanFor(bytes).plans[0];
      const auto messages = [](const Planner& planner, const RankedPlan& plan) {
        return planner.candidates()[plan.candidate].footprint.dependent_messages;
      };
      const RankedPlan few = fewest.PlanFor(bytes).plans[0];
      EXPECT_LE(messages(fewest, few), messages(fastest, best)) << name << " " << bytes;
      const RankedPlan light = least_traffic.PlanFor(bytes).plans[0];
      EXPECT_LE(light.prediction.network, 1.02 * best.prediction.network) << name << " " << bytes;
      const RankedPlan easy = least_work.PlanFor(bytes).plans[0];
      const auto work = [](const RankedPlan& plan) {
        return plan.prediction.handling + plan.prediction.memory;
      };
      EXPECT_LE(work(easy), 1.02 * work(best)) << name << " " << bytes;
      for (const RankedPlan& plan : {few, light, easy}) {
        EXPECT_LE(plan.prediction.seconds, 1.25 * best.prediction.seconds) << name << " " << bytes;
      }
    }
  }
}

TEST(PlannerTest, ADeadlineIsMetWithTheLeastTraffic) {
  const FabricModel model = ShippedFabric("two-racks");
  const Problem problem = ProblemOn(model, Collective::kAllReduce);
  const Planner usual = PlannerFor(model, problem);
  const uint64_t bytes = 4096;
  const RankedPlan fastest = usual.PlanFor(bytes).plans[0];
  const double seconds = fastest.prediction.seconds;
  double before = fastest.prediction.network;
  for (const double times : {1.0, 1.5, 3.0, 10.0}) {
    const Planner planner =
        PlannerFor(model, problem, {.terms = {.deadline_seconds = times * seconds}});
    const RankedPlan plan = planner.PlanFor(bytes).plans[0];
    EXPECT_LE(plan.prediction.seconds, times * seconds * (1 + 1e-9));
    EXPECT_LE(plan.prediction.network, 1.02 * before) << times;
    before = plan.prediction.network;
  }
  EXPECT_LT(before, 0.9 * fastest.prediction.network);
  const Planner late = PlannerFor(model, problem, {.terms = {.deadline_seconds = 0.5 * seconds}});
  EXPECT_EQ(AlgorithmOf(late, late.PlanFor(bytes).plans[0]), AlgorithmOf(usual, fastest))
      << "where nothing meets it, the fastest";
}

}  // namespace
}  // namespace harmonaize
