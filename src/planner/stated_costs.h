#pragma once

#include <cstdint>

#include "src/planner/cost_model.h"

namespace harmonaize {

/// NetworkCosts in the units in which people state them.
struct StatedCosts {
  double message_us = 20;
  double handling_us = 2;
  double wire_gbps = 0;
  double memory_gbps = 100;
  int64_t shared_processors = 0;
  double bucket_ms = 0;

  NetworkCosts ToNetworkCosts() const {
    NetworkCosts costs;
    costs.message_seconds = message_us * 1e-6;
    costs.handling_seconds = handling_us * 1e-6;
    costs.wire_bytes_per_second = wire_gbps * 1e9;
    costs.memory_bytes_per_second = memory_gbps * 1e9;
    costs.shared_processors = static_cast<int>(shared_processors);
    costs.credit_seconds = bucket_ms * 1e-3;
    return costs;
  }
};

}  // namespace harmonaize
