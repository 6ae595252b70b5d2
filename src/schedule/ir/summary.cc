#include "src/schedule/ir/summary.h"

#include <algorithm>
#include <map>
#include <utility>

#include "src/schedule/ir/step_graph.h"

namespace harmonaize {
namespace {

/// Returns the most messages that must have arrived before a step is done, over all steps.
int LongestChain(const StepGraph& graph) {
  std::vector<int> came(static_cast<size_t>(graph.size()), 0);
  int longest = 0;
  for (const int step : graph.order()) {
    int& mine = came[static_cast<size_t>(step)];
    const int first = step - graph.IndexOf(step);
    for (const int before : graph.StepOf(step).after) {
      const int earlier = first + before;
      mine = std::max(mine, came[static_cast<size_t>(earlier)]);
    }
    const int sender = graph.SenderOf(step);
    if (sender >= 0) mine = std::max(mine, came[static_cast<size_t>(sender)] + 1);
    longest = std::max(longest, mine);
  }
  return longest;
}

}  // namespace

void LoadTable::Add(const Load& load) {
  if (load.blocks == 0) return;
  loads_.push_back(load);
  // Merging when the list has doubled keeps both time and memory close to the result's.
  constexpr size_t kLeast = 4096;
  if (loads_.size() >= std::max(kLeast, 2 * merged_)) Merge();
}

void LoadTable::Merge() {
  const auto hosts = [](const Load& load) {
    return static_cast<uint64_t>(load.from_host) << 32 | static_cast<uint32_t>(load.to_host);
  };
  const auto before = [&](const Load& a, const Load& b) {
    return hosts(a) != hosts(b) ? hosts(a) < hosts(b) : a.path < b.path;
  };
  // The entries that were merged before are in order.
  const auto added = loads_.begin() + static_cast<std::ptrdiff_t>(merged_);
  std::sort(added, loads_.end(), before);
  std::inplace_merge(loads_.begin(), added, loads_.end(), before);
  size_t kept = 0;
  for (const Load& load : loads_) {
    if (kept > 0 && !before(loads_[kept - 1], load)) {
      Load& same = loads_[kept - 1];
      same.blocks += load.blocks;
      same.earliest = std::min(same.earliest, load.earliest);
      same.latest = std::max(same.latest, load.latest);
      same.following = std::min(same.following, load.following);
    } else {
      loads_[kept++] = load;
    }
  }
  loads_.resize(kept);
  merged_ = kept;
}

std::vector<Load> LoadTable::Take() {
  Merge();
  return std::move(loads_);
}

Summary Summarize(const Schedule& schedule) {
  Summary summary;
  summary.pieces = schedule.pieces;
  LoadTable loads;
  for (const HostProgram& program : schedule.programs) {
    for (const Step& step : program.steps) {
      if (step.kind == StepKind::kSend) loads.Add(program.host, step.peer_host, step.path, 1);
    }
  }
  summary.loads = loads.Take();
  summary.hosts = CountTraffic(schedule).hosts;
  std::sort(summary.hosts.begin(), summary.hosts.end(),
            [](const HostTraffic& a, const HostTraffic& b) { return a.host < b.host; });
  const Result<StepGraph> graph = StepGraph::Build(schedule);
  if (graph.ok()) summary.dependent_messages = LongestChain(*graph);
  return summary;
}

}  // namespace harmonaize
