#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// One place that publishes what is planned for this host: [[sources]] of the configuration.
struct SourceConfig {
  /// Who publishes: "azure", "aws", "gcp" or "kubernetes".
  std::string kind;
  /// Where to ask, as "http://ADDRESS[:PORT]" with an IP address or, for Kubernetes,
  /// "https://HOST[:PORT]". "": the link-local address that the cloud has for it; Kubernetes has
  /// none.
  std::string endpoint = {};
  /// Pause between two polls, in seconds; 0: as the source needs it (UsualInterval).
  int64_t interval_seconds = 0;
  /// For Kubernetes: the file with the service account's token, read anew for each poll.
  std::string token_file = {};
  /// For Kubernetes: the certificates, in PEM form, by one of which the server's must be signed.
  std::string ca_file = {};
  /// For Kubernetes: the node's name. For Azure: the machine's name as events name it; "": it is
  /// asked for. Other sources have none.
  std::string node = {};
};

/// The sources that are polled; none by default.
struct SourcesConfig {
  std::vector<SourceConfig> sources = {};
};

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
