#include "daemon/identity/job_identity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "src/base/hex.h"

namespace harmonaize::daemon {
namespace {

/// Returns the first bytes of the SHA-256 of all that a job's identity comes from. `kind` keeps
/// ids that come from different things apart.
JobIdentity Derive(std::string_view kind, uint32_t tenant, std::span<const std::byte> from) {
  std::vector<uint8_t> text(kind.begin(), kind.end());
  text.push_back(0);
  for (int shift = 0; shift < 32; shift += 8) text.push_back(static_cast<uint8_t>(tenant >> shift));
  for (const std::byte byte : from) text.push_back(static_cast<uint8_t>(byte));
  std::array<uint8_t, SHA256_DIGEST_LENGTH> digest{};
  SHA256(text.data(), text.size(), digest.data());
  JobIdentity id;
  std::copy_n(digest.begin(), id.bytes.size(), id.bytes.begin());
  return id;
}

}  // namespace

std::string JobIdentity::text() const {
  return HexOf(bytes);
}

std::optional<JobIdentity> ParseJob(std::string_view text) {
  JobIdentity id;
  if (text.size() != 2 * id.bytes.size()) return std::nullopt;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (size_t i = 0; i < id.bytes.size(); ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    id.bytes[i] = static_cast<uint8_t>(high * 16 + low);
  }
  if (id.none()) return std::nullopt;
  return id;
}

JobIdentity JobOfName(std::string_view name, uint32_t tenant) {
  return Derive("name", tenant, std::as_bytes(std::span(name)));
}

JobClaim ClaimIn(const HelloRequest& hello, uint32_t tenant) {
  JobClaim claim{.id = {}, .name = CleanFieldText(hello.job_name)};
  const bool known = static_cast<int>(hello.job_kind) < kJobKindCount;
  claim.kind = known ? hello.job_kind : JobKind::kUnknown;
  if (!claim.name.empty()) {
    claim.id = JobOfName(claim.name, tenant);
  } else if (hello.job_group != 0) {
    claim.id = Derive("group", tenant, std::as_bytes(std::span(&hello.job_group, 1)));
  }
  return claim;
}

JobIdentity JobOfUniqueId(const UniqueId& id, uint32_t tenant) {
  return Derive("unique id", tenant, std::as_bytes(std::span(&id, 1)));
}

JobIdentity JobOfNcclCommunicator(uint64_t id, uint32_t tenant) {
  return Derive("nccl communicator", tenant, std::as_bytes(std::span(&id, 1)));
}

std::vector<uint8_t> EncodeJob(const JobIdentity& id) {
  if (id.none()) return {};
  return {id.bytes.begin(), id.bytes.end()};
}

JobIdentity DecodeJob(const std::vector<uint8_t>& bytes) {
  JobIdentity id;
  std::copy(bytes.begin(), bytes.end(), id.bytes.begin());
  return id;
}

}  // namespace harmonaize::daemon
