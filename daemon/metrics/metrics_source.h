#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/metrics/engine_facts.h"
#include "daemon/metrics/tenant_series.h"
#include "daemon/reports/report_sources.h"

namespace harmonaize::daemon {

class Background;
class EventBus;

/// What the engine knew a moment ago, and the page of metrics that was made of it.
struct MetricsSnapshot {
  EngineFacts facts;
  std::string page;
};

/// Makes snapshots for many callers. A snapshot serves all of them for a moment, so that they take
/// no more than a bounded part of the engine's time. Thread: any.
class MetricsSource : public std::enable_shared_from_this<MetricsSource> {
 public:
  struct Services {
    /// Runs a call on the engine's thread; returns false if the engine is gone.
    std::function<bool(std::function<void(const ReportSources&)>)> ask;
    EventBus* bus = nullptr;     ///< Outlives this object.
    Background* work = nullptr;  ///< Likewise; the texts are made there.
  };
  /// nullptr if the engine is gone, or too many wait for it.
  using Snapshot = std::shared_ptr<const MetricsSnapshot>;
  using Call = std::function<void(const Snapshot&)>;

  explicit MetricsSource(Services services) : services_(std::move(services)) {}

  /// Calls `call` with a snapshot that is no older than a moment, on the thread of `work`.
  void Get(Call call);

  /// Tenants that metrics name one by one. With some 20 series for each, a daemon has a few
  /// thousand series.
  static constexpr size_t kMostNamedTenants = 100;

 private:
  void Ask();
  void Make(EngineFacts facts);
  void Hand(const Snapshot& snapshot);

  const Services services_;
  std::mutex mutex_;
  Snapshot snapshot_;          // guarded by mutex_
  uint64_t made_ns_ = 0;       // guarded by mutex_
  uint64_t asked_ns_ = 0;      // guarded by mutex_
  std::vector<Call> waiting_;  // guarded by mutex_; those who wait for the engine's answer
  FactGatherer gatherer_;      // the engine's thread
  TenantSeries tenants_{kMostNamedTenants};  // the thread of `work`
};

}  // namespace harmonaize::daemon
