#include "daemon/nats/nats_subject.h"

#include <fmt/format.h>

#include <algorithm>

namespace harmonaize::daemon {
namespace {

/// The operators' token. SubjectToken returns it for no name, since "op" is no hexadecimal number.
constexpr std::string_view kOperatorsToken = "_operators";
/// The job's token of events about a host. Ids of jobs are never "host" (IsJobId).
constexpr std::string_view kHostToken = "host";

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::string Joined(std::string_view prefix, std::string_view tenant_token, const Event& event) {
  const std::string job = event.job.empty() ? std::string(kHostToken) : SubjectToken(event.job);
  return fmt::format("{}.events.{}.{}.{}", prefix, tenant_token, job, InfoOf(event.type).name);
}

}  // namespace

bool IsSubjectPrefix(std::string_view text) {
  return !text.empty() && text.size() <= kMostSubjectPrefixBytes &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return IsLetterOrDigit(c) || c == '-' || c == '_'; });
}

std::string SubjectToken(std::string_view name) {
  if (name.empty()) return "_";
  std::string token;
  for (const char c : name) {
    if (IsLetterOrDigit(c) || c == '-') {
      token += c;
    } else {
      token += fmt::format("_{:02x}", static_cast<unsigned char>(c));
    }
  }
  return token;
}

std::string SubjectOf(std::string_view prefix, std::string_view tenant, const Event& event) {
  return Joined(prefix, SubjectToken(tenant), event);
}

std::string SubjectForOperators(std::string_view prefix, const Event& event) {
  return Joined(prefix, kOperatorsToken, event);
}

std::string AllSubjects(std::string_view prefix) {
  return fmt::format("{}.events.>", prefix);
}

std::string StreamName(std::string_view prefix) {
  return fmt::format("{}_events", prefix);
}

}  // namespace harmonaize::daemon
