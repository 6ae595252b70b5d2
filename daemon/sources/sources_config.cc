#include "daemon/sources/sources_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "daemon/sources/endpoint.h"
#include "src/base/clean_text.h"
#include "src/base/names.h"

namespace harmonaize::daemon {
namespace {

struct SourceKind {
  std::string_view name;
  std::string_view endpoint;
  int64_t interval_seconds;
  bool is_kubernetes;
};

constexpr std::array<SourceKind, 4> kSourceKinds = {{{"azure", "http://169.254.169.254", 1, false},
                                                     {"aws", "http://169.254.169.254", 5, false},
                                                     {"gcp", "http://169.254.169.254", 1, false},
                                                     {"kubernetes", "", 10, true}}};

/// As much of a value as an error quotes, in bytes.
constexpr size_t kMostQuotedNameBytes = 128;

const SourceKind* KindNamed(std::string_view name) {
  const auto kind = std::find_if(kSourceKinds.begin(), kSourceKinds.end(),
                                 [&](const SourceKind& one) { return one.name == name; });
  return kind == kSourceKinds.end() ? nullptr : &*kind;
}

std::string QuotedName(const std::string& value) {
  return "'" + CleanText(value, kMostQuotedNameBytes) + "'";
}

/// Returns whether this may stand in a path of a URL as it is, as names of nodes and machines do.
bool IsPlainName(const std::string& name) {
  constexpr size_t kMostBytes = 253;  // of a name in DNS
  return name.size() <= kMostBytes && std::all_of(name.begin(), name.end(), [](char one) {
           return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') ||
                  (one >= '0' && one <= '9') || one == '-' || one == '.' || one == '_';
         });
}

Status ValidateKind(const SourceConfig& source, const std::string& key) {
  if (KindNamed(source.kind) != nullptr) return Status::Ok();
  std::array<std::string_view, kSourceKinds.size()> names;
  std::transform(kSourceKinds.begin(), kSourceKinds.end(), names.begin(),
                 [](const SourceKind& kind) { return kind.name; });
  return InvalidArgument("{}.kind is {}{}; there are azure, aws, gcp and kubernetes", key,
                         QuotedName(source.kind), DidYouMean(source.kind, names));
}

Status ValidateEndpoint(const SourceConfig& source, const SourceKind& kind,
                        const std::string& key) {
  if (EndpointOf(source).empty()) {
    return InvalidArgument("{}.endpoint is missing; name the API server as \"https://HOST:PORT\"",
                           key);
  }
  const Result<Endpoint> endpoint = ParseEndpoint(EndpointOf(source));
  if (!endpoint.ok()) return InvalidArgument("{}.endpoint {}", key, endpoint.status().message());
  if (kind.is_kubernetes && !endpoint->tls) {
    return InvalidArgument(
        "{}.endpoint must begin with https://, since the token of the service account goes there",
        key);
  }
  if (!kind.is_kubernetes && (endpoint->tls || !endpoint->is_address)) {
    return InvalidArgument(
        "{}.endpoint must be http:// and an IP address: a name could lead to another host; leave "
        "it out for {}",
        key, kind.endpoint);
  }
  return Status::Ok();
}

// A file that a source does not read is a mistake that nobody would notice.
Status ValidateFiles(const SourceConfig& source, const SourceKind& kind, const std::string& key) {
  if (!kind.is_kubernetes) {
    if (source.token_file.empty() && source.ca_file.empty()) return Status::Ok();
    return InvalidArgument("{}.{} is for kubernetes alone; leave it out", key,
                           source.token_file.empty() ? "ca_file" : "token_file");
  }
  if (source.token_file.empty()) {
    return InvalidArgument(
        "{}.token_file is missing; name the file with the token of a service account that may read "
        "nodes",
        key);
  }
  if (source.ca_file.empty()) {
    return InvalidArgument(
        "{}.ca_file is missing; name the file with the cluster's certificate authority", key);
  }
  return Status::Ok();
}

Status ValidateNode(const SourceConfig& source, const SourceKind& kind, const std::string& key) {
  if (!IsPlainName(source.node)) {
    return InvalidArgument("{}.node is {}, which is no name of a node", key,
                           QuotedName(source.node));
  }
  if (kind.is_kubernetes && (source.node.empty() || source.node.starts_with('.'))) {
    return InvalidArgument("{}.node is missing; name this host as `kubectl get nodes` does", key);
  }
  if (source.approve_when_all_agree && kind.name != "azure") {
    return InvalidArgument("{}.approve_when_all_agree is for azure alone; leave it out", key);
  }
  if (!source.node.empty() && !kind.is_kubernetes && kind.name != "azure") {
    return InvalidArgument("{}.node is for kubernetes and azure alone; leave it out", key);
  }
  return Status::Ok();
}

Status ValidateSource(const SourceConfig& source, const std::string& key) {
  HZ_RETURN_IF_ERROR(ValidateKind(source, key));
  const SourceKind& kind = *KindNamed(source.kind);
  HZ_RETURN_IF_ERROR(ValidateEndpoint(source, kind, key));
  if (source.interval_seconds < 0 || source.interval_seconds > kMostIntervalSeconds) {
    return InvalidArgument("{}.interval_seconds is {}, possible are 0 (the usual interval) to {}",
                           key, source.interval_seconds, kMostIntervalSeconds);
  }
  HZ_RETURN_IF_ERROR(ValidateFiles(source, kind, key));
  return ValidateNode(source, kind, key);
}

}  // namespace

int64_t UsualInterval(const std::string& kind) {
  const SourceKind* const known = KindNamed(kind);
  return known == nullptr ? kMostIntervalSeconds : known->interval_seconds;
}

std::string EndpointOf(const SourceConfig& source) {
  if (!source.endpoint.empty()) return source.endpoint;
  const SourceKind* const known = KindNamed(source.kind);
  return known == nullptr ? "" : std::string(known->endpoint);
}

Status ValidateSources(const SourcesConfig& config) {
  std::set<std::string> kinds;
  for (size_t place = 0; place < config.sources.size(); ++place) {
    const std::string key = fmt::format("sources[{}]", place);
    HZ_RETURN_IF_ERROR(ValidateSource(config.sources[place], key));
    if (kinds.insert(config.sources[place].kind).second) continue;
    return InvalidArgument("{}.kind is {} a second time; remove one of the two", key,
                           QuotedName(config.sources[place].kind));
  }
  return Status::Ok();
}

}  // namespace harmonaize::daemon
