#include "cli/dashboard/dashboard_secrets.h"

#include <openssl/crypto.h>

#include <array>
#include <cstdint>
#include <span>

#include "src/base/hex.h"
#include "src/base/random.h"

namespace harmonaize {
namespace {

Result<std::string> Draw(std::string_view prefix) {
  std::array<uint8_t, 32> bytes{};
  HZ_RETURN_IF_ERROR(FillRandom(std::as_writable_bytes(std::span(bytes))));
  return std::string(prefix) + HexOf(bytes);
}

/// Compares all of two texts, so that the time does not tell where they differ.
bool IsSame(std::string_view secret, std::string_view shown) {
  return !secret.empty() && secret.size() == shown.size() &&
         CRYPTO_memcmp(secret.data(), shown.data(), secret.size()) == 0;
}

}  // namespace

Result<std::string> DashboardSecrets::NewLink() {
  HZ_ASSIGN_OR_RETURN(link_, Draw("hzo_"));
  link_until_ = now_() + kLinkHolds;
  return link_;
}

Result<std::optional<std::string>> DashboardSecrets::Exchange(std::string_view secret) {
  if (!IsSame(link_, secret) || now_() >= link_until_) return std::optional<std::string>();
  HZ_ASSIGN_OR_RETURN(std::string session, Draw("hz_"));
  link_.clear();
  if (sessions_.size() == kMostSessions) sessions_.pop_front();
  sessions_.push_back(session);
  return std::optional<std::string>(std::move(session));
}

bool DashboardSecrets::Holds(std::string_view session) const {
  bool holds = false;
  for (const std::string& one : sessions_) holds = IsSame(one, session) || holds;
  return holds;
}

}  // namespace harmonaize
