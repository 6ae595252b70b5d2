#include "daemon/sources/endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "src/base/clean_text.h"

namespace harmonaize::daemon {
namespace {

constexpr uint16_t kHttpPort = 80;
constexpr uint16_t kHttpsPort = 443;
/// Longest name in DNS, in bytes.
constexpr size_t kMostHostBytes = 253;
/// As much of a value as an error quotes, in bytes.
constexpr size_t kMostQuotedEndpointBytes = 128;

bool IsAddressOf(int family, const std::string& host) {
  in6_addr address;
  return inet_pton(family, host.c_str(), &address) == 1;
}

bool IsDnsName(const std::string& host) {
  return !host.empty() && host.size() <= kMostHostBytes && host.front() != '.' &&
         host.front() != '-' && std::all_of(host.begin(), host.end(), [](char one) {
           return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') ||
                  (one >= '0' && one <= '9') || one == '-' || one == '.';
         });
}

std::optional<uint16_t> PortFrom(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool is_port = error == std::errc() && end == text.data() + text.size() && port > 0;
  return is_port ? std::optional(port) : std::nullopt;
}

Status WrongEndpoint(std::string_view text) {
  return InvalidArgument(
      "is '{}'; write it as \"http://ADDRESS[:PORT]\" or \"https://HOST[:PORT]\", with an IPv6 "
      "address in brackets and without a path",
      CleanText(text, kMostQuotedEndpointBytes));
}

/// Cuts the brackets of an IPv6 address off. Returns false if they are wrong.
bool SplitHost(std::string_view rest, std::string* host, std::string_view* port) {
  const bool has_brackets = rest.starts_with('[');
  const size_t end = has_brackets ? rest.find(']') : rest.find(':');
  if (has_brackets && end == std::string_view::npos) return false;
  *host = has_brackets ? rest.substr(1, end - 1) : rest.substr(0, end);
  const size_t after = has_brackets ? end + 1 : std::min(end, rest.size());
  *port = rest.substr(after);
  return !has_brackets || IsAddressOf(AF_INET6, *host);
}

}  // namespace

std::string Endpoint::HostHeader() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port == (tls ? kHttpsPort : kHttpPort) ? name : fmt::format("{}:{}", name, port);
}

Result<Endpoint> ParseEndpoint(std::string_view text) {
  Endpoint endpoint;
  std::string_view rest = text;
  if (rest.starts_with("https://")) {
    endpoint.tls = true;
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else {
    return WrongEndpoint(text);
  }
  std::string_view port;
  if (!SplitHost(rest, &endpoint.host, &port)) return WrongEndpoint(text);
  endpoint.is_address = IsAddressOf(AF_INET, endpoint.host) || IsAddressOf(AF_INET6, endpoint.host);
  if (!endpoint.is_address && !IsDnsName(endpoint.host)) return WrongEndpoint(text);
  endpoint.port = endpoint.tls ? kHttpsPort : kHttpPort;
  if (port.empty()) return endpoint;
  const std::optional<uint16_t> stated =
      port.starts_with(':') ? PortFrom(port.substr(1)) : std::nullopt;
  if (!stated.has_value()) return WrongEndpoint(text);
  endpoint.port = *stated;
  return endpoint;
}

}  // namespace harmonaize::daemon
