#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/metrics/engine_facts.h"
#include "daemon/metrics/tenant_series.h"

namespace harmonaize::daemon {

/// What other threads than the engine's count. All counters are since the daemon started.
struct CountedElsewhere {
  std::vector<uint64_t> events_published;  ///< By EventType.
  uint64_t events_repeated = 0;
  uint64_t events_dropped = 0;
  uint64_t events_unshared = 0;
  uint64_t events_waiting = 0;
  uint64_t event_subscribers = 0;
  uint64_t http_connections = 0;
  uint64_t http_open = 0;
  std::vector<uint64_t> http_answers;  ///< By status.
  std::vector<uint64_t> log_lines;     ///< By LogLevel.
  uint64_t log_left_out_own = 0;
  uint64_t log_left_out_tenants = 0;
};

/// Returns the metrics of a daemon in Prometheus' text format, version 0.0.4
/// (docs/operations/README.md lists them). The number of series is bounded by the configuration,
/// whatever tenants do. Thread: any.
std::string MetricsPage(const EngineFacts& facts, const std::vector<NamedTenant>& tenants,
                        const CountedElsewhere& elsewhere);

/// The media type of that text.
inline constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace harmonaize::daemon
