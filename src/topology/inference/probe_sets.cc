#include "src/topology/inference/probe_sets.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/topology/inference/clustering.h"

namespace harmonaize {
namespace {

// Connections of a lone transfer: enough to find ECMP ways by chance. Fewer than one in a hundred
// sets of eight leaves one of two ways unused.
constexpr int kConnectionsOfTransfer = 8;
// Connections of each transfer in a round.
constexpr int kConnectionsOfRound = 6;
// Connections of each plane's set together: enough to fill all ways of ECMP, also unequal ones.
// With more, TCP takes longer to find its rates: with 60 over 500 Mbit/s, half a second saw 88%,
// with 10 to 24 99%.
constexpr int kConnectionsOfAll = 24;
// Most transfers of a set in which every sender sends to every receiver.
constexpr size_t kMostTransfers = 64;
// Most receivers of each sender in a set that would have more transfers.
constexpr size_t kReceivers = 8;

}  // namespace

int Plane::PlaceOf(int host) const {
  const auto found = std::lower_bound(hosts.begin(), hosts.end(), host);
  return found != hosts.end() && *found == host ? static_cast<int>(found - hosts.begin()) : -1;
}

bool Plane::Has(Endpoint endpoint) const {
  const int place = PlaceOf(endpoint.host);
  if (place < 0) return false;
  const std::vector<int>& own = nics[static_cast<size_t>(place)];
  return std::find(own.begin(), own.end(), endpoint.nic) != own.end();
}

std::vector<Plane> FindPlanes(const Measurements& measurements) {
  std::vector<Endpoint> endpoints;
  for (size_t host = 0; host < measurements.hosts.size(); ++host) {
    for (size_t nic = 0; nic < measurements.hosts[host].nics.size(); ++nic) {
      endpoints.push_back({static_cast<int>(host), static_cast<int>(nic)});
    }
  }
  const auto place = [&](Endpoint end) {
    return static_cast<size_t>(std::find(endpoints.begin(), endpoints.end(), end) -
                               endpoints.begin());
  };
  std::vector<size_t> parent(endpoints.size());
  std::iota(parent.begin(), parent.end(), size_t{0});
  const auto root = [&](size_t one) {
    while (parent[one] != one) one = parent[one] = parent[parent[one]];
    return one;
  };
  for (const RoundTrip& trip : measurements.round_trips) {
    if (!trip.reachable) continue;
    const size_t a = root(place(trip.from));
    const size_t b = root(place(trip.to));
    parent[std::max(a, b)] = std::min(a, b);
  }
  std::map<size_t, Plane> planes;
  for (size_t i = 0; i < endpoints.size(); ++i) {
    Plane& plane = planes[root(i)];
    if (plane.hosts.empty() || plane.hosts.back() != endpoints[i].host) {
      plane.hosts.push_back(endpoints[i].host);
      plane.nics.emplace_back();
    }
    plane.nics.back().push_back(endpoints[i].nic);
  }
  std::vector<Plane> found;
  for (auto& [first, plane] : planes) {
    if (plane.hosts.size() > 1) found.push_back(std::move(plane));
  }
  return found;
}

ProbeSets::ProbeSets(const Measurements& measurements)
    : hosts_(static_cast<int>(measurements.hosts.size())), planes_(FindPlanes(measurements)) {}

std::vector<std::pair<int, int>> ProbeSets::PairsOfRound(int round) const {
  // All but the last stand in a circle that turns; with an odd number the last place is empty.
  const int even = hosts_ + hosts_ % 2;
  const int circle = even - 1;
  std::vector<std::pair<int, int>> pairs;
  for (int i = 0; i < even / 2; ++i) {
    const int a = i == 0 ? even - 1 : (round + i) % circle;
    const int b = (round - i + circle) % circle;
    if (a < hosts_ && b < hosts_) pairs.emplace_back(std::min(a, b), std::max(a, b));
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

void ProbeSets::Add(int from, int to, int connections, TransferSet* set) const {
  for (const Plane& plane : planes_) {
    const int a = plane.PlaceOf(from);
    const int b = plane.PlaceOf(to);
    if (a < 0 || b < 0) continue;
    const std::vector<int>& out = plane.nics[static_cast<size_t>(a)];
    const std::vector<int>& in = plane.nics[static_cast<size_t>(b)];
    for (size_t i = 0; i < std::max(out.size(), in.size()); ++i) {
      set->push_back({{from, out[i % out.size()]}, {to, in[i % in.size()]}, connections});
    }
  }
}

TransferSet ProbeSets::Both(const std::vector<std::pair<int, int>>& pairs) const {
  TransferSet set;
  for (const auto& [a, b] : pairs) {
    Add(a, b, kConnectionsOfRound, &set);
    Add(b, a, kConnectionsOfRound, &set);
  }
  return set;
}

TransferSet ProbeSets::Alone(int from, int to) const {
  TransferSet set;
  Add(from, to, kConnectionsOfTransfer, &set);
  return set;
}

TransferSet ProbeSets::From(const std::vector<int>& senders,
                            const std::vector<int>& receivers) const {
  TransferSet set;
  const bool all = senders.size() * receivers.size() <= kMostTransfers;
  const size_t each = all ? receivers.size() : std::min(receivers.size(), kReceivers);
  for (size_t s = 0; s < senders.size(); ++s) {
    for (size_t i = 0; i < each; ++i) {
      const int to = receivers[(s * each + i) % receivers.size()];
      if (to != senders[s]) Add(senders[s], to, 1, &set);
    }
  }
  if (set.empty()) return set;
  // Each plane is a network of its own, so its transfers count separately.
  const auto transfers = static_cast<int>(set.size() / planes_.size());
  const int connections =
      std::clamp(kConnectionsOfAll / std::max(1, transfers), 1, kConnectionsOfTransfer);
  for (TransferRequest& one : set) one.connections = connections;
  return set;
}

TransferSet ProbeSets::Around(const std::vector<int>& order) const {
  TransferSet set;
  for (size_t i = 0; i < order.size(); ++i) {
    const int host = order[i];
    const int next = order[(i + 1) % order.size()];
    const int before = order[(i + order.size() - 1) % order.size()];
    set.push_back({{host, 0}, {next, 0}, kConnectionsOfRound});
    set.push_back({{host, 1}, {before, 1}, kConnectionsOfRound});
  }
  return set;
}

std::vector<int> ProbeSets::AllBut(const std::vector<int>& some) const {
  std::vector<int> others;
  for (int host = 0; host < hosts_; ++host) {
    if (std::find(some.begin(), some.end(), host) == some.end()) others.push_back(host);
  }
  return others;
}

MeasuredSets::MeasuredSets(const Measurements& measurements) {
  for (ConcurrentTransfers transfers : measurements.concurrent) {
    std::sort(transfers.begin(), transfers.end(),
              [](const auto& a, const auto& b) { return KeyOf(a) < KeyOf(b); });
    TransferSet set;
    std::vector<double> rates;
    for (const MeasuredTransfer& one : transfers) {
      set.push_back({one.from, one.to, one.connections});
      rates.push_back(one.bytes_per_second);
    }
    rates_[KeyOfSet(set)].push_back(std::move(rates));
  }
}

int MeasuredSets::Times(const TransferSet& set) const {
  const auto found = rates_.find(KeyOfSet(set));
  return found == rates_.end() ? 0 : static_cast<int>(found->second.size());
}

std::vector<std::vector<double>> MeasuredSets::EachTime(const TransferSet& set) const {
  const Key key = KeyOfSet(set);
  const auto found = rates_.find(key);
  if (found == rates_.end()) return {};
  std::vector<std::vector<double>> times(found->second.size());
  for (const TransferRequest& one : set) {
    const auto at =
        static_cast<size_t>(std::lower_bound(key.begin(), key.end(), KeyOf(one)) - key.begin());
    for (size_t i = 0; i < times.size(); ++i) times[i].push_back(found->second[i][at]);
  }
  return times;
}

std::vector<double> MeasuredSets::Rates(const TransferSet& set) const {
  const std::vector<std::vector<double>> times = EachTime(set);
  std::vector<double> rates;
  for (size_t i = 0; !times.empty() && i < set.size(); ++i) {
    std::vector<double> samples;
    for (const std::vector<double>& measured : times) samples.push_back(measured[i]);
    rates.push_back(Median(std::move(samples)));
  }
  return rates;
}

std::vector<MeasuredSet> MeasuredSets::All() const {
  std::vector<MeasuredSet> all;
  for (const auto& [key, measured] : rates_) {
    MeasuredSet& set = all.emplace_back();
    set.times = static_cast<int>(measured.size());
    for (size_t i = 0; i < key.size(); ++i) {
      const auto& [from, from_nic, to, to_nic, connections] = key[i];
      std::vector<double> samples;
      for (const std::vector<double>& rates : measured) samples.push_back(rates[i]);
      set.transfers.push_back(
          {{from, from_nic}, {to, to_nic}, connections, Median(std::move(samples))});
    }
  }
  return all;
}

}  // namespace harmonaize
