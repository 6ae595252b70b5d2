#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace harmonaize::transport {

/// What one rail may send while others need its links, and who gets how much of that. Only TCP
/// rails keep to it.
struct RailLimit {
  /// What a tenant gets of the rail while others want it too, instead of what its messages say.
  struct Weight {
    uint32_t tenant = 0;
    double weight = 1;  ///< Above 0.
    friend bool operator==(const Weight&, const Weight&) = default;
  };

  double bytes_per_second = std::numeric_limits<double>::infinity();
  std::vector<Weight> weights{};

  friend bool operator==(const RailLimit&, const RailLimit&) = default;
};

}  // namespace harmonaize::transport
