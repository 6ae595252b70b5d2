#pragma once

#include <cstdint>
#include <string>

#include "daemon/config/config.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Longest interval, in seconds: an hour, since no notice is of use that comes later.
inline constexpr int64_t kMostIntervalSeconds = 3600;

/// Returns the interval, in seconds, that stands for 0. Azure asks for one poll a second, as
/// its shortest notice is 30 seconds. AWS advises 5 seconds. GCP holds an answer back until
/// something has changed. A Kubernetes server has many nodes that ask.
int64_t UsualInterval(const std::string& kind);

/// Returns the endpoint of a source, stated or usual.
std::string EndpointOf(const SourceConfig& source);

/// Returns what is wrong with the sources, first by place: kInvalidArgument with the key, as in
/// "sources[1].endpoint", and the way out. Files are not opened. Each kind is allowed once.
Status ValidateSources(const SourcesConfig& config);

}  // namespace harmonaize::daemon
