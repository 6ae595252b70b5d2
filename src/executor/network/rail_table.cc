#include "src/executor/network/rail_table.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace harmonaize {
namespace {

using transport::RailChoice;
using WeightedRail = std::pair<RailChoice, int>;

/// Returns each rail as often as its weight says, spread as evenly as can be: the next rail is
/// always the one that lags most behind its share.
std::vector<RailChoice> Interleave(const std::vector<WeightedRail>& weighted) {
  int sum = 0;
  for (const WeightedRail& one : weighted) sum += one.second;
  std::vector<RailChoice> row;
  std::vector<int> credit(weighted.size(), 0);
  for (int turn = 0; turn < sum; ++turn) {
    for (size_t i = 0; i < weighted.size(); ++i) credit[i] += weighted[i].second;
    const auto most = std::max_element(credit.begin(), credit.end());
    *most -= sum;
    row.push_back(weighted[static_cast<size_t>(most - credit.begin())].first);
  }
  return row;
}

}  // namespace

RailTable::RailTable(const FabricRails& rails, int host)
    : host_(host), deals_(static_cast<size_t>(rails.hosts())) {
  std::vector<WeightedRail> plain;
  for (size_t rail = 0; rail < rails.plain_rails(); ++rail) {
    plain.emplace_back(RailChoice{rail}, 1);
  }
  for (int to = 0; to < rails.hosts(); ++to) SetRow(to, -1, plain);
}

bool RailTable::SetLanes(const FabricRails& rails, int to_host, int path,
                         std::span<const Lane> lanes) {
  std::vector<WeightedRail> weighted;
  int common = 0;
  for (const Lane& lane : lanes) {
    const int rail = rails.RailFor(host_, to_host, lane.from_nic, lane.to_nic, lane.path);
    if (rail < 0 || lane.weight <= 0) continue;
    const bool one_connection = lane.path < 0 && !lane.spread;
    weighted.emplace_back(RailChoice{static_cast<size_t>(rail), one_connection}, lane.weight);
    common = std::gcd(common, lane.weight);
  }
  if (weighted.empty()) return false;
  for (WeightedRail& one : weighted) one.second /= common;
  SetRow(to_host, path, weighted);
  return true;
}

void RailTable::SetRow(int to_host, int path, const std::vector<WeightedRail>& weighted) {
  const std::vector<RailChoice> row = Interleave(weighted);
  std::vector<Deal>& deals = deals_[static_cast<size_t>(to_host)];
  const auto place = static_cast<size_t>(path + 1);
  if (deals.size() <= place) deals.resize(place + 1);
  const auto length = static_cast<uint32_t>(row.size());
  // Messages to different hosts, or by different paths, begin at different rails.
  const uint32_t begin = static_cast<uint32_t>(to_host + path + 1) % length;
  deals[place] = {static_cast<uint32_t>(pool_.size()), length, begin};
  pool_.insert(pool_.end(), row.begin(), row.end());
}

RailChoice RailTable::Next(const MessageName& name, size_t bytes) {
  std::vector<Deal>& deals = deals_[static_cast<size_t>(name.host)];
  const auto place = static_cast<size_t>(name.path + 1);
  const bool known = place < deals.size() && deals[place].length > 0;
  Deal& deal = known ? deals[place] : deals[0];
  if (bytes <= kShortBytes) return pool_[deal.first + name.operation % deal.length];
  const RailChoice rail = pool_[deal.first + deal.next];
  if (++deal.next == deal.length) deal.next = 0;
  return rail;
}

std::optional<RailChoice> RailTable::NextAmong(int host, const Admits& admits) {
  Deal& deal = deals_[static_cast<size_t>(host)][0];
  for (uint32_t i = 0; i < deal.length; ++i) {
    const RailChoice rail = pool_[deal.first + deal.next];
    if (++deal.next == deal.length) deal.next = 0;
    if (admits(rail.rail)) return rail;
  }
  return std::nullopt;
}

}  // namespace harmonaize
