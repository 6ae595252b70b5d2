#include "src/planner/edge_loads.h"

#include <algorithm>
#include <tuple>

#include "src/base/mix_bits.h"

namespace harmonaize {
namespace {

int WeightOf(const std::vector<Lane>& lanes) {
  int weight = 0;
  for (const Lane& lane : lanes) weight += lane.weight;
  return std::max(weight, 1);
}

EdgeLoad Part(const EdgeLoad& load, double share) {
  return {load.blocks * share, load.earliest, load.following};
}

void AddTo(std::vector<EdgeLoad>* edges, int edge, const EdgeLoad& load) {
  if (edge < 0) return;
  (*edges)[static_cast<size_t>(edge)].Add(load.blocks, load.earliest, load.following);
}

}  // namespace

void EdgeLoad::Add(double more, int more_earliest, int more_following) {
  earliest = blocks > 0 ? std::min(earliest, more_earliest) : more_earliest;
  following = blocks > 0 ? std::min(following, more_following) : more_following;
  blocks += more;
}

LoadSpread::LoadSpread(const FabricModel& model, PathUse use, const LaneTable* chosen)
    : model_(model), use_(use), chosen_(chosen) {
  const auto kinds = static_cast<size_t>(model.kinds());
  lanes_of_kinds_.resize(kinds * kinds);
}

const std::vector<Lane>& LoadSpread::LanesOf(const Load& load) {
  if (load.path >= 0 && chosen_ != nullptr) {
    return chosen_->at({load.from_host, load.to_host})[static_cast<size_t>(load.path)];
  }
  const auto kinds = static_cast<size_t>(model_.kinds());
  std::vector<Lane>& lanes =
      lanes_of_kinds_[static_cast<size_t>(model_.KindOf(load.from_host)) * kinds +
                      static_cast<size_t>(model_.KindOf(load.to_host))];
  if (lanes.empty()) lanes = model_.Lanes(load.from_host, load.to_host, use_);
  return lanes;
}

void LoadSpread::AddMiddle(const FabricModel::Way& way, const Lane& lane, const EdgeLoad& load,
                           std::vector<EdgeLoad>* edges) {
  if (way.target < 0 || way.start == way.target) return;
  if (lane.path < 0) {
    injected_[{lane.spread, way.target, way.start}].Add(load.blocks, load.earliest, load.following);
    return;
  }
  for (int node = way.start; node != way.target;) {
    const int edge = model_.ChooseExplicit(model_.NextHops(node, way.target), lane.path);
    AddTo(edges, edge, load);
    node = model_.HeadOf(edge);
  }
}

void LoadSpread::SpreadInjected(std::vector<EdgeLoad>* edges) {
  // Nodes are visited farthest first: when one has its turn, all traffic that reaches it is known.
  std::map<std::tuple<bool, int, int, int>, EdgeLoad> waiting;  // spread, target, -distance, node
  for (const auto& [key, load] : injected_) {
    const auto [spread, target, node] = key;
    waiting[{spread, target, -model_.Distance(node, target), node}] = load;
  }
  while (!waiting.empty()) {
    const auto [spread, target, distance, node] = waiting.begin()->first;
    const EdgeLoad load = waiting.begin()->second;
    waiting.erase(waiting.begin());
    const std::span<const int> hops = model_.NextHops(node, target);
    for (const int edge : hops) {
      const double share = spread ? model_.CarriedBy(edge, target) / model_.CarriedTo(node, target)
                                  : 1 / static_cast<double>(hops.size());
      const EdgeLoad part = Part(load, share);
      AddTo(edges, edge, part);
      const int next = model_.HeadOf(edge);
      if (next == target) continue;
      waiting[{spread, target, distance + 1, next}].Add(part.blocks, part.earliest, part.following);
    }
  }
  injected_.clear();
}

std::vector<EdgeLoad> LoadSpread::Expected(const std::vector<Load>& loads) {
  std::vector<EdgeLoad> edges(static_cast<size_t>(model_.edges()));
  const auto kinds = static_cast<size_t>(model_.kinds());
  struct Together {
    Load first;
    EdgeLoad load;
  };
  std::vector<Together> together(kinds * kinds);
  for (const Load& load : loads) {
    const EdgeLoad whole{static_cast<double>(load.blocks), load.earliest, load.following};
    const std::vector<Lane>& lanes = LanesOf(load);
    const double total = WeightOf(lanes);
    const bool chosen = load.path >= 0 && chosen_ != nullptr;
    for (size_t i = 0; i < lanes.size();) {
      // Lanes of one rail are adjacent.
      const Lane& lane = lanes[i];
      int weight = 0;
      for (;
           i < lanes.size() && lanes[i].from_nic == lane.from_nic && lanes[i].to_nic == lane.to_nic;
           ++i) {
        weight += lanes[i].weight;
      }
      const EdgeLoad part = Part(whole, weight / total);
      const FabricModel::Way way =
          model_.WayBy(load.from_host, load.to_host, lane.from_nic, lane.to_nic);
      AddTo(&edges, way.first, part);
      AddTo(&edges, way.last, part);
    }
    if (chosen) {
      for (const Lane& lane : lanes) {
        AddMiddle(model_.WayBy(load.from_host, load.to_host, lane.from_nic, lane.to_nic), lane,
                  Part(whole, lane.weight / total), &edges);
      }
      continue;
    }
    Together& all = together[static_cast<size_t>(model_.KindOf(load.from_host)) * kinds +
                             static_cast<size_t>(model_.KindOf(load.to_host))];
    all.first = load;
    all.load.Add(whole.blocks, whole.earliest, whole.following);
  }
  for (const Together& all : together) {
    if (all.load.blocks == 0) continue;
    const std::vector<Lane>& lanes = LanesOf(all.first);
    const double total = WeightOf(lanes);
    for (const Lane& lane : lanes) {
      AddMiddle(model_.WayBy(all.first.from_host, all.first.to_host, lane.from_nic, lane.to_nic),
                lane, Part(all.load, lane.weight / total), &edges);
    }
  }
  SpreadInjected(&edges);
  return edges;
}

std::vector<EdgeLoad> LoadSpread::Hashed(const std::vector<Load>& loads, uint64_t draw) {
  std::vector<EdgeLoad> edges(static_cast<size_t>(model_.edges()));
  for (const Load& load : loads) {
    const EdgeLoad whole{static_cast<double>(load.blocks), load.earliest, load.following};
    const std::vector<Lane>& lanes = LanesOf(load);
    const double total = WeightOf(lanes);
    for (const Lane& lane : lanes) {
      const EdgeLoad part = Part(whole, lane.weight / total);
      for (const int edge : HashedRoute(model_, load.from_host, load.to_host, lane, draw)) {
        AddTo(&edges, edge, part);
      }
    }
  }
  return edges;
}

Route HashedRoute(const FabricModel& model, int from, int to, const Lane& lane, uint64_t draw) {
  if (lane.path >= 0) return model.RouteOf(from, to, lane);
  const FabricModel::Way way = model.WayBy(from, to, lane.from_nic, lane.to_nic);
  const uint64_t ends = (static_cast<uint64_t>(from) << 32) | static_cast<uint64_t>(to);
  const auto nics = static_cast<uint64_t>(lane.from_nic) * 64 + static_cast<uint64_t>(lane.to_nic);
  const uint64_t connection = MixBits(MixBits(ends) ^ MixBits(nics ^ MixBits(draw)));
  Route route;
  if (way.first >= 0) route.push_back(way.first);
  for (int node = way.start; way.target >= 0 && node != way.target;) {
    const std::span<const int> hops = model.NextHops(node, way.target);
    const uint64_t hash = MixBits(connection ^ MixBits(static_cast<uint64_t>(node)));
    route.push_back(hops[static_cast<size_t>(hash % hops.size())]);
    node = model.HeadOf(route.back());
  }
  if (way.last >= 0) route.push_back(way.last);
  return route;
}

std::vector<std::pair<Route, double>> SpreadRoutes(const FabricModel& model, int from, int to,
                                                   const Lane& lane, size_t most) {
  const FabricModel::Way way = model.WayBy(from, to, lane.from_nic, lane.to_nic);
  std::vector<std::pair<Route, double>> routes(1, {{}, 1.0});
  if (way.first >= 0) routes[0].first.push_back(way.first);
  // All shortest ways are equally long, so all of them arrive in the same round.
  for (int left = way.target < 0 ? 0 : model.Distance(way.start, way.target); left > 0; --left) {
    std::vector<std::pair<Route, double>> longer;
    for (const auto& [route, share] : routes) {
      const bool began = !route.empty() && route.back() != way.first;
      const int node = began ? model.HeadOf(route.back()) : way.start;
      for (const int edge : model.NextHops(node, way.target)) {
        if (longer.size() == most) break;
        longer.emplace_back(
            route, share * model.CarriedBy(edge, way.target) / model.CarriedTo(node, way.target));
        longer.back().first.push_back(edge);
      }
    }
    routes = std::move(longer);
  }
  double sum = 0;
  for (const auto& [route, share] : routes) sum += share;
  for (auto& [route, share] : routes) {
    share /= sum;
    if (way.last >= 0) route.push_back(way.last);
  }
  return routes;
}

double LoadSpread::MeanLatency(const std::vector<Load>& loads, double unknown_link_seconds) {
  const auto kinds = static_cast<size_t>(model_.kinds());
  std::vector<double> of_kinds(kinds * kinds, -1);
  double sum = 0;
  double blocks = 0;
  for (const Load& load : loads) {
    double& latency = of_kinds[static_cast<size_t>(model_.KindOf(load.from_host)) * kinds +
                               static_cast<size_t>(model_.KindOf(load.to_host))];
    if (latency < 0) {
      latency = model_.LatencyOf(model_.RouteOf(load.from_host, load.to_host, LanesOf(load)[0]),
                                 unknown_link_seconds);
    }
    sum += latency * static_cast<double>(load.blocks);
    blocks += static_cast<double>(load.blocks);
  }
  return blocks > 0 ? sum / blocks : 0;
}

double LoadSpread::SecondsOfByte(const Load& load) {
  const std::vector<Lane>& lanes = LanesOf(load);
  double seconds = 0;
  for (const Lane& lane : lanes) {
    double rate = 0;
    for (const int edge : model_.RouteOf(load.from_host, load.to_host, lane)) {
      const double here = model_.BytesPerSecond(edge);
      rate = rate == 0 ? here : std::min(rate, here);
    }
    if (rate > 0) seconds += lane.weight / rate;
  }
  return seconds / WeightOf(lanes);
}

MessageTimes LoadSpread::TimesOfMessages(const std::vector<Load>& loads) {
  const auto kinds = static_cast<size_t>(model_.kinds());
  std::vector<double> of_kinds(kinds * kinds, -1);
  MessageTimes times;
  double blocks = 0;
  for (const Load& load : loads) {
    double& known = of_kinds[static_cast<size_t>(model_.KindOf(load.from_host)) * kinds +
                             static_cast<size_t>(model_.KindOf(load.to_host))];
    const bool chosen = load.path >= 0 && chosen_ != nullptr;
    const double seconds = chosen || known < 0 ? SecondsOfByte(load) : known;
    if (!chosen) known = seconds;
    times.slowest = std::max(times.slowest, seconds);
    times.mean += seconds * static_cast<double>(load.blocks);
    blocks += static_cast<double>(load.blocks);
  }
  if (blocks > 0) times.mean /= blocks;
  return times;
}

bool LoadSpread::HasChoice(const std::vector<Load>& loads, bool spread) {
  const auto kinds = static_cast<size_t>(model_.kinds());
  std::vector<bool> seen(kinds * kinds, false);
  for (const Load& load : loads) {
    const size_t pair = static_cast<size_t>(model_.KindOf(load.from_host)) * kinds +
                        static_cast<size_t>(model_.KindOf(load.to_host));
    if (seen[pair] && load.path < 0) continue;
    seen[pair] = true;
    for (const Lane& lane : LanesOf(load)) {
      if (lane.path >= 0 || lane.spread != spread) continue;
      const FabricModel::Way way =
          model_.WayBy(load.from_host, load.to_host, lane.from_nic, lane.to_nic);
      for (int node = way.start; way.target >= 0 && node != way.target;) {
        const std::span<const int> hops = model_.NextHops(node, way.target);
        if (hops.size() > 1) return true;
        node = model_.HeadOf(hops[0]);
      }
    }
  }
  return false;
}

bool LoadSpread::Weighs() const {
  return std::any_of(lanes_of_kinds_.begin(), lanes_of_kinds_.end(), [](const auto& lanes) {
    return std::any_of(lanes.begin(), lanes.end(),
                       [&](const Lane& lane) { return lane.weight != lanes[0].weight; });
  });
}

size_t LoadSpread::Connections(const std::vector<Load>& loads) {
  size_t connections = 0;
  for (const Load& load : loads) connections += LanesOf(load).size();
  return connections;
}

}  // namespace harmonaize
