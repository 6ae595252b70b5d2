// Plans that an operator states.

#include <cstdint>
#include <set>
#include <string>

#include "src/planner/plan_file.h"
#include "src/topology/fabric/fabric_file.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

constexpr std::string_view kFabric = R"(
[[host]]
name = ["host0", "host1", "host2", "host3"]
[[switch]]
name = "leaf0"
[[link]]
from = ["host0", "host1", "host2", "host3"]
to = "leaf0"
rate = "1Gbit"
)";

const FabricModel& Model() {
  static const FabricModel kModel(ParseFabricFile(kFabric, "fabric.toml")->fabric);
  return kModel;
}

void RequireHosts(const std::vector<int>& hosts) {
  for (const int host : hosts) {
    Require(host >= 0 && host < Model().hosts(), "a plan's hosts are the fabric's");
  }
}

void Run(std::string_view text) {
  const Result<PlanSpec> spec = ParsePlanFile(text, "fuzz.toml", Model());
  if (!spec.ok()) return RequireClean(spec.status().message(), "a clean error");
  Require(spec->algorithm != nullptr, "a plan has an algorithm");
  Require(spec->pieces >= 1 && spec->pieces <= 4096, "pieces within their bounds");
  Require(spec->algorithm->takes_order || spec->order.hosts.empty(), "an order where one is taken");
  Require(spec->algorithm->needs_groups != spec->groups.empty(), "groups where they are needed");
  RequireHosts(spec->order.hosts);
  for (const std::vector<int>& group : spec->groups) RequireHosts(group);
  // Whether the plan suits a communicator is the planner's to say, without harm.
  const Problem problem{.collective = Collective::kAllReduce, .host_of_rank = {0, 1, 1, 2, 3}};
  static_cast<void>(
      Planner::Make(Model(), problem, {.policy = PlanPolicy::kFixed, .fixed = *spec}));
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::TextOf(data, size));
  return 0;
}
