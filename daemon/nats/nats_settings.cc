#include "daemon/nats/nats_settings.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "daemon/nats/nats_subject.h"
#include "src/base/clean_text.h"
#include "src/base/small_file.h"

namespace harmonaize::daemon {
namespace {

constexpr uint16_t kUsualPort = 4222;
/// Longest name in DNS, in bytes.
constexpr size_t kMostServerNameBytes = 253;
/// As much of a value as an error quotes, in bytes.
constexpr size_t kMostQuotedServerBytes = 128;
/// Largest file of credentials, in bytes. A .creds file has about one KiB.
constexpr size_t kMostCredentialsBytes = 64 << 10;

bool IsServerAddress(int family, const std::string& host) {
  in6_addr address;
  return inet_pton(family, host.c_str(), &address) == 1;
}

bool IsServerName(const std::string& host) {
  return !host.empty() && host.size() <= kMostServerNameBytes && host.front() != '.' &&
         host.front() != '-' && std::all_of(host.begin(), host.end(), [](char one) {
           return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') ||
                  (one >= '0' && one <= '9') || one == '-' || one == '.';
         });
}

bool IsLoopback(const std::string& host) {
  in_addr four;
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six;
  if (inet_pton(AF_INET6, host.c_str(), &six) == 1) return IN6_IS_ADDR_LOOPBACK(&six);
  return host == "localhost";
}

Status WrongServer(std::string_view text) {
  return InvalidArgument(
      "has '{}'; write it as \"nats://HOST[:PORT]\" or \"tls://HOST[:PORT]\", with an IPv6 address "
      "in brackets, without a user (nats_credentials names the file with it) and without a path",
      CleanText(text, kMostQuotedServerBytes));
}

/// Returns the port that is written behind a host as ":PORT", or the usual one for "".
std::optional<uint16_t> PortBehind(std::string_view text) {
  if (text.empty()) return kUsualPort;
  if (!text.starts_with(':')) return std::nullopt;
  text.remove_prefix(1);
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool is_port = error == std::errc() && end == text.data() + text.size() && port > 0;
  return is_port ? std::optional(port) : std::nullopt;
}

/// Reads a regular file that not everyone may read.
Result<std::string> ReadSecretFile(const std::string& path) {
  HZ_ASSIGN_OR_RETURN(const FileDescriptor file, OpenRegularFile(path));
  struct stat about {};
  if (fstat(file.get(), &about) != 0) return ErrnoError(errno, "cannot look at " + path);
  if ((about.st_mode & S_IRWXO) != 0) {
    return InvalidArgument(
        "every user of this host may open {}; `chmod o= {}`, and have new "
        "credentials made if somebody may have read it",
        path, path);
  }
  return ReadToEnd(file, path, kMostCredentialsBytes);
}

}  // namespace

std::string NatsServer::url() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", tls ? "tls" : "nats", is_ipv6 ? "[" : "", host,
                     is_ipv6 ? "]" : "", port);
}

Result<NatsServer> ParseNatsServer(std::string_view text) {
  NatsServer server;
  std::string_view rest = text;
  if (rest.starts_with("tls://")) {
    server.tls = true;
    rest.remove_prefix(6);
  } else if (rest.starts_with("nats://")) {
    rest.remove_prefix(7);
  } else {
    return WrongServer(text);
  }
  const bool has_brackets = rest.starts_with('[');
  const size_t end = std::min(rest.find(has_brackets ? ']' : ':'), rest.size());
  if (has_brackets && end == rest.size()) return WrongServer(text);
  server.host = has_brackets ? rest.substr(1, end - 1) : rest.substr(0, end);
  const std::optional<uint16_t> port = PortBehind(rest.substr(has_brackets ? end + 1 : end));
  const bool is_host =
      has_brackets ? IsServerAddress(AF_INET6, server.host) : IsServerName(server.host);
  if (!is_host || !port.has_value()) return WrongServer(text);
  server.port = *port;
  server.loopback = IsLoopback(server.host);
  server.tls = server.tls || !server.loopback;
  return server;
}

Result<NatsSettings> CheckNatsConfig(const NatsConfig& config) {
  NatsSettings settings{.servers = {},
                        .credentials_file = config.credentials_file,
                        .ca_file = config.ca_file,
                        .prefix = config.subject_prefix,
                        .keep_bytes = config.keep_bytes,
                        .keep_seconds = static_cast<int64_t>(config.keep_seconds)};
  if (config.servers.size() > kMostNatsServers) {
    return InvalidArgument("events.nats names {} servers, more than {}", config.servers.size(),
                           kMostNatsServers);
  }
  for (const std::string& text : config.servers) {
    Result<NatsServer> server = ParseNatsServer(text);
    if (!server.ok()) return InvalidArgument("events.nats {}", server.status().message());
    if (!server->loopback && config.credentials_file.empty()) {
      return InvalidArgument(
          "events.nats has {}, which is not on this host, so events.nats_credentials must name a "
          "file with credentials",
          server->url());
    }
    settings.servers.push_back(std::move(*server));
  }
  if (!IsSubjectPrefix(config.subject_prefix)) {
    return InvalidArgument(
        "events.nats_subject_prefix is '{}'; it has 1 to {} letters, digits, '-' and '_'",
        CleanText(config.subject_prefix, kMostQuotedServerBytes), kMostSubjectPrefixBytes);
  }
  return settings;
}

Result<NatsCredentials> ReadNatsCredentials(const std::string& path) {
  HZ_ASSIGN_OR_RETURN(std::string text, ReadSecretFile(path));
  NatsCredentials credentials;
  if (text.find("-----BEGIN NATS USER JWT-----") != std::string::npos) {
    // The library's decoders know ASCII alone.
    if (std::any_of(text.begin(), text.end(), [](char c) { return c <= 0; })) {
      return InvalidArgument("{} is no .creds file: it has bytes that are not ASCII", path);
    }
    credentials.is_creds_file = true;
    return credentials;
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  const size_t colon = text.find(':');
  const bool is_line = colon != std::string::npos && colon > 0 && colon + 1 < text.size() &&
                       text.find_first_of(std::string_view("\n\r\0", 3)) == std::string::npos;
  if (!is_line) {
    return InvalidArgument(
        "{} holds no credentials for NATS; it is a .creds file, or has one line USER:PASSWORD",
        path);
  }
  credentials.user = text.substr(0, colon);
  credentials.password = text.substr(colon + 1);
  return credentials;
}

}  // namespace harmonaize::daemon
