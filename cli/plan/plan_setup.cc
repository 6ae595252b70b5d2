#include "cli/plan/plan_setup.h"

#include <charconv>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>

#include "cli/command_line.h"
#include "cli/explain/explain_table.h"
#include "src/base/byte_size.h"
#include "src/base/collective.h"
#include "src/base/names.h"
#include "src/planner/plan_file.h"
#include "src/topology/fabric/fabric_file.h"
#include "src/topology/fabric/fabric_names.h"

namespace harmonaize {
namespace {

constexpr int kMostRanksAHost = 1024;

Result<Problem> MakeProblem(const FabricModel& model, const PlanRequest& request) {
  HZ_ASSIGN_OR_RETURN(const Collective collective, FindCollective(request.collective));
  Problem problem{.collective = collective, .host_of_rank = {}};
  if (IsPointToPoint(problem.collective)) {
    return InvalidArgument("{} is between two ranks; there is nothing to plan", request.collective);
  }
  HZ_ASSIGN_OR_RETURN(problem.host_of_rank,
                      HostsOfRanks(model, request.hosts, request.ranks_per_host));
  problem.root = HasRoot(problem.collective) ? request.root : -1;
  problem.in_place = !request.out_of_place;
  return problem;
}

Result<PlannerOptions> MakeOptions(const FabricModel& model, const PlanRequest& request) {
  PlannerOptions options{.terms = {.reproducible = request.reproducible, .wire = request.wire}};
  options.policy = FindPlanPolicy(request.policy).value_or(PlanPolicy::kAdaptive);
  options.costs = request.costs.ToNetworkCosts();
  if ((options.policy == PlanPolicy::kFixed) != !request.plan_file.empty()) {
    return InvalidArgument("--policy fixed and --plan-file go together");
  }
  if (options.policy != PlanPolicy::kFixed) return options;
  HZ_ASSIGN_OR_RETURN(options.fixed, LoadPlanFile(request.plan_file, model));
  return options;
}

}  // namespace

Result<std::vector<int>> HostsOfRanks(const FabricModel& model,
                                      const std::vector<std::string>& hosts, int ranks_per_host) {
  std::vector<int> host_of_rank;
  if (hosts.empty()) {
    for (int host = 0; host < model.hosts(); ++host) {
      host_of_rank.insert(host_of_rank.end(), static_cast<size_t>(ranks_per_host), host);
    }
  }
  std::vector<std::string_view> names;
  for (int host = 0; host < model.hosts(); ++host) names.push_back(model.HostName(host));
  for (const std::string& text : hosts) {
    const size_t colon = text.find(':');
    const std::string name = text.substr(0, colon);
    const int host = model.HostNamed(name);
    if (host < 0) {
      return InvalidArgument("the fabric has no host '{}'{}", name, DidYouMean(name, names));
    }
    int ranks = ranks_per_host;
    const char* end = text.data() + text.size();
    if (colon != std::string::npos) {
      const auto parsed = std::from_chars(text.data() + colon + 1, end, ranks);
      if (parsed.ec != std::errc() || parsed.ptr != end || ranks < 1 || ranks > kMostRanksAHost) {
        return InvalidArgument("'{}': a host's number of ranks is from 1 to {}", text,
                               kMostRanksAHost);
      }
    }
    host_of_rank.insert(host_of_rank.end(), static_cast<size_t>(ranks), host);
  }
  return host_of_rank;
}

void AddPlanOptions(CLI::App& command, PlanRequest* request) {
  command.add_option("--fabric", request->fabric, "The fabric file (docs/fabric-file.md)")
      ->required()
      ->type_name("FILE");
  command.add_option("--link-rate", request->link_rates,
                     "Plan as if a link had this rate: LINK=RATE, or LINK=FORTH,BACK, such as "
                     "leaf0-spine1=100Mbit; may be repeated");
  command
      .add_option("--hosts", request->hosts,
                  "Hosts in the order of the ranks, separated by commas; host0:4 has 4 ranks "
                  "(default: all)")
      ->delimiter(',');
  command
      .add_option("--ranks-per-host", request->ranks_per_host,
                  "Ranks of each host for which --hosts states none")
      ->check(CLI::Range(1, kMostRanksAHost))
      ->capture_default_str();
  command
      .add_option("--collective", request->collective,
                  "What to plan: AllReduce, AllGather, Broadcast, ...")
      ->transform(CLI::Validator(CheckCollective, ""))
      ->type_name("COLLECTIVE")
      ->capture_default_str();
  command.add_option("--root", request->root, "The root's rank, where there is one")
      ->capture_default_str();
  command.add_flag("--out-of-place", request->out_of_place,
                   "Allow plans that cannot be run in place");
  command
      .add_option(
          "--size", request->sizes,
          "Bytes of the call: its count times the type's size, such as 64M; several with commas "
          "(default: powers of four from 256 to 1G)")
      ->delimiter(',');
  command.add_option("--policy", request->policy, "How to choose, see below")
      ->check(CLI::IsMember({"adaptive", "static-ring", "fixed"}))
      ->capture_default_str();
  command.add_option("--plan-file", request->plan_file, "The plan, for --policy fixed")
      ->type_name("FILE");
  command.add_flag("--reproducible", request->reproducible,
                   "Only plans that reduce in the order of the ranks");
  command
      .add_option("--message-us", request->costs.message_us,
                  "Time that a message without data takes, in microseconds")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      .add_option("--handling-us", request->costs.handling_us,
                  "Time that a host works for each message, in microseconds")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      .add_option("--wire-gbps", request->costs.wire_gbps,
                  "Rate at which a processor sends or receives, in GB/s, as with TCP; 0: it "
                  "touches no byte, as "
                  "with RDMA")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      .add_option("--memory-gbps", request->costs.memory_gbps,
                  "Rate at which a host reads and writes its memory, in GB/s")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      .add_option("--shared-processors", request->costs.shared_processors,
                  "Processors that do the work of all hosts together, as in a laboratory; 0: each "
                  "host has its own")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command
      .add_option("--bucket-ms", request->costs.bucket_ms,
                  "What a link sends at once after a pause, in milliseconds at its rate, as in a "
                  "laboratory")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

Result<PlanSetup> SetUpPlan(const PlanRequest& request) {
  PlanSetup setup;
  for (const std::string& text : request.sizes) {
    HZ_ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(text));
    setup.sizes.push_back(bytes);
  }
  if (setup.sizes.empty()) setup.sizes = SizeClasses();
  HZ_ASSIGN_OR_RETURN(FabricFile file, LoadFabricFile(request.fabric));
  for (const std::string& text : request.link_rates) {
    HZ_ASSIGN_OR_RETURN(const StatedRates stated, ParseStatedRates(file.fabric, text));
    file.fabric.links[static_cast<size_t>(stated.link)].bytes_per_second = stated.bytes_per_second;
  }
  setup.model = std::make_unique<FabricModel>(std::move(file.fabric));
  HZ_ASSIGN_OR_RETURN(Problem problem, MakeProblem(*setup.model, request));
  HZ_ASSIGN_OR_RETURN(PlannerOptions options, MakeOptions(*setup.model, request));
  setup.options = options;
  HZ_ASSIGN_OR_RETURN(Planner planner,
                      Planner::Make(*setup.model, std::move(problem), std::move(options)));
  setup.planner = std::make_unique<Planner>(std::move(planner));
  return setup;
}

}  // namespace harmonaize
