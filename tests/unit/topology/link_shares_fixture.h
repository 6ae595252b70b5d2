#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "src/topology/estimates/link_shares.h"

namespace harmonaize {

/// Jobs whose flows share one edge as TCP does, each flow alike, but within their limits.
class LinkSharesTest : public ::testing::Test {
 protected:
  static constexpr double kCapacity = 100e6;  // bytes a second
  static constexpr double kInterval = 0.1;    // seconds

  /// A job of this tenant that sends over so many rails of its own, all of them over edge 0; and
  /// what all of them would send together.
  void Add(uint32_t tenant, uint64_t job, double weight, int flows, double wanted = 1e12) {
    for (int i = 0; i < flows; ++i) {
      const FabricRail rail{static_cast<int>(flows_.size()), 1000, 0};
      flows_.push_back({rail, {tenant, job}, weight, edges_, 0});
      flows_.back().terms.owner = job;
      wanted_[rail] = wanted / flows;
    }
  }
  /// Sets the terms of all jobs of a tenant.
  void Grant(uint32_t tenant, const LinkTerms& terms, double weight = 1) {
    for (JobFlow& flow : flows_) {
      if (flow.job.tenant != tenant) continue;
      flow.terms = terms;
      flow.weight = weight;
    }
  }
  void Remove(uint32_t tenant) {
    std::erase_if(flows_, [tenant](const JobFlow& flow) { return flow.job.tenant == tenant; });
  }

  void Run(int intervals) {
    for (int i = 0; i < intervals; ++i) {
      std::map<FabricRail, double> limits;
      for (const ShareLimit& limit : shares_.Limits()) {
        const auto [known, is_new] = limits.try_emplace(limit.rail, limit.bytes_per_second);
        if (!is_new) known->second = std::min(known->second, limit.bytes_per_second);
      }
      std::vector<Claim> claims;
      for (const JobFlow& flow : flows_) {
        const auto limit = limits.find(flow.rail);
        const double most = limit == limits.end() ? 1e12 : limit->second;
        claims.push_back({std::min(wanted_[flow.rail], most), 1});
      }
      const std::vector<double> rates = ShareOut(claims, carries_);
      for (size_t f = 0; f < flows_.size(); ++f) flows_[f].bytes_per_second = rates[f];
      now_ += kInterval;
      shares_.Take(
          flows_, [this](int) { return known_ ? carries_ : kCapacity; }, now_);
    }
  }
  double RateOf(uint32_t tenant, uint64_t job) const {
    double rate = 0;
    for (const JobFlow& flow : flows_) {
      if (flow.job == JobId{tenant, job}) rate += flow.bytes_per_second;
    }
    return rate / kCapacity;
  }
  double MeanOf(uint32_t tenant, int intervals) {
    double mean = 0;
    for (int i = 0; i < intervals; ++i) {
      Run(1);
      for (const JobFlow& flow : flows_) {
        if (flow.job.tenant == tenant) mean += flow.bytes_per_second / kCapacity / intervals;
      }
    }
    return mean;
  }
  /// Of all jobs together, while these intervals pass.
  double MeanOfAll(int intervals) {
    double mean = 0;
    for (int i = 0; i < intervals; ++i) {
      Run(1);
      for (const JobFlow& flow : flows_) mean += flow.bytes_per_second / kCapacity / intervals;
    }
    return mean;
  }
  bool HeldBack(uint32_t tenant) const {
    const std::vector<ShareLimit> limits = shares_.Limits();
    return std::any_of(limits.begin(), limits.end(),
                       [tenant](const ShareLimit& limit) { return limit.tenant == tenant; });
  }

  const std::map<int, double>& AvailableTo(const JobId& job) {
    const int edge = 0;
    return shares_.AvailableTo(job, 1, {.owner = job.job}, std::span(&edge, 1));
  }

  const std::shared_ptr<const std::vector<CrossedEdge>> edges_ =
      std::make_shared<std::vector<CrossedEdge>>(1, CrossedEdge{0, 1});
  LinkShares shares_;
  std::vector<JobFlow> flows_;
  std::map<FabricRail, double> wanted_;
  double carries_ = kCapacity;
  bool known_ = true;  // what the edge carries now
  double now_ = 0;
};

}  // namespace harmonaize
