#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/planner/planner.h"
#include "src/planner/stated_costs.h"

namespace CLI {
class App;
}

namespace harmonaize {

/// A planning task, as given on a command line.
struct PlanRequest {
  std::string fabric = {};
  std::vector<std::string> link_rates = {};  ///< Texts for ParseStatedRates.
  std::vector<std::string> hosts = {};
  int ranks_per_host = 1;
  std::string collective = "AllReduce";
  int root = 0;
  bool out_of_place = false;
  std::vector<std::string> sizes = {};
  std::string policy = "adaptive";
  std::string plan_file = {};
  bool reproducible = false;
  WireTerms wire = {};
  StatedCosts costs = {};
};

/// Adds the options to a command.
void AddPlanOptions(CLI::App& command, PlanRequest* request);

/// A planner with the objects that it borrows.
struct PlanSetup {
  std::unique_ptr<FabricModel> model;
  PlannerOptions options;
  std::unique_ptr<Planner> planner;
  std::vector<uint64_t> sizes;
};

/// Reads the files and makes the planner. Errors name what is wrong and what would do.
Result<PlanSetup> SetUpPlan(const PlanRequest& request);

/// Returns the host of each rank: `hosts` lists "host0" (with `ranks_per_host` ranks) and
/// "host0:4"; ranks are numbered in this order. Empty: all hosts.
Result<std::vector<int>> HostsOfRanks(const FabricModel& model,
                                      const std::vector<std::string>& hosts, int ranks_per_host);

}  // namespace harmonaize
