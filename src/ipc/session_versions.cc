#include "src/ipc/session_versions.h"

#include "src/base/settings.h"

namespace harmonaize {

Result<VersionRange> ClientVersions() {
  const char* const named = Setting("HARMONAIZE_PROTOCOL");
  if (named == nullptr || *named == '\0') return kSessionVersions;
  Result<VersionRange> versions = ParseVersionRange(named);
  if (versions.ok()) return versions;
  return InvalidArgument("HARMONAIZE_PROTOCOL: {}", versions.status().message());
}

Result<uint16_t> AnswerVersion(const MessageHeader& request, const VersionRange& ours,
                               std::string_view release) {
  const VersionRange theirs = VersionsOf(request);
  const std::optional<uint32_t> latest = LatestOfBoth(theirs, ours);
  if (latest.has_value()) return static_cast<uint16_t>(*latest);
  const bool client_is_newer = theirs.oldest > ours.latest;
  return InvalidUsage(
      "the daemon is harmonaized {} and speaks {} of the session protocol, this program's library "
      "{}: {}",
      release, TextOf(ours), TextOf(theirs),
      client_is_newer ? "ask the provider to update the daemon, or take the library of its release"
                      : "take the library of the daemon's release");
}

Status CheckAnswer(const MessageHeader& answer, std::span<const std::byte> bytes,
                   const VersionRange& ours) {
  HZ_RETURN_IF_ERROR(DecodeFailure(answer, bytes));
  if (ours.Has(answer.version)) return Status::Ok();
  return InternalError("the daemon answers in version {} of the session protocol, not in {}",
                       answer.version, TextOf(ours));
}

Status CheckServed(MessageType type, uint16_t version) {
  const uint16_t first = FirstVersionOf(type);
  if (version >= first) return Status::Ok();
  return InvalidUsage(
      "{} needs version {} of the session protocol, and this session has version {}: library and "
      "daemon both have to be of a release that speaks it",
      RequestName(type), first, version);
}

}  // namespace harmonaize
