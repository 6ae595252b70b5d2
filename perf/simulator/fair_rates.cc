#include "perf/simulator/fair_rates.h"

#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace harmonaize::simulator {

FairRates::FairRates(std::vector<double> capacities)
    : capacities_(std::move(capacities)),
      left_(capacities_.size()),
      crossing_(capacities_.size(), 0),
      users_(capacities_.size()) {}

size_t FairRates::Add(std::vector<int> links) {
  links_.push_back(std::move(links));
  return links_.size() - 1;
}

std::vector<double> FairRates::Of(const std::vector<size_t>& active) {
  std::vector<int> used;
  for (size_t place = 0; place < active.size(); ++place) {
    for (const int link : links_[active[place]]) {
      const auto l = static_cast<size_t>(link);
      if (users_[l].empty()) {
        used.push_back(link);
        left_[l] = capacities_[l];
      }
      users_[l].push_back(place);
      ++crossing_[l];
    }
  }
  using Share = std::pair<double, int>;  // of each connection that has no rate yet; link
  std::priority_queue<Share, std::vector<Share>, std::greater<>> shares;
  const auto share_of = [&](int link) {
    const auto l = static_cast<size_t>(link);
    return left_[l] / crossing_[l];
  };
  for (const int link : used) shares.emplace(share_of(link), link);
  std::vector<double> rates(active.size(), -1);
  while (!shares.empty()) {
    const auto [share, link] = shares.top();
    shares.pop();
    const auto l = static_cast<size_t>(link);
    if (crossing_[l] == 0) continue;
    // Shares only grow while others get their rates, so an old one comes too early, and goes back.
    if (const double now = share_of(link); now > share) {
      shares.emplace(now, link);
      continue;
    }
    for (const size_t place : users_[l]) {
      if (rates[place] >= 0) continue;
      rates[place] = share;
      for (const int other : links_[active[place]]) {
        left_[static_cast<size_t>(other)] -= share;
        --crossing_[static_cast<size_t>(other)];
      }
    }
  }
  for (const int link : used) {
    users_[static_cast<size_t>(link)].clear();
    crossing_[static_cast<size_t>(link)] = 0;
  }
  for (double& rate : rates) {
    if (rate < 0) rate = std::numeric_limits<double>::infinity();
  }
  return rates;
}

}  // namespace harmonaize::simulator
