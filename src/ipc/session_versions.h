#pragma once

#include <string_view>

#include "src/base/status.h"
#include "src/base/version_range.h"
#include "src/ipc/messages.h"

namespace harmonaize {

// How client and daemon agree on the version of the session protocol. The client writes its first
// request in the oldest version that it speaks, and says the latest (MessageHeader). The daemon
// answers in the latest version that both have, in which both go on. docs/compatibility.md tells
// what may differ between two versions.

/// The versions that this release speaks.
inline constexpr VersionRange kSessionVersions = {kOldestProtocolVersion, kProtocolVersion};

/// Returns the versions that a client speaks: kSessionVersions, unless HARMONAIZE_PROTOCOL names
/// others. Errors: kInvalidArgument if that is no version.
Result<VersionRange> ClientVersions();

/// Returns the version in which a daemon that speaks `ours` answers a client's first request, whose
/// header this is. Errors: kInvalidUsage, with the versions of both and who has to be updated, for
/// a request in a version that the daemon does not speak. `release` is the daemon's.
Result<uint16_t> AnswerVersion(const MessageHeader& request, const VersionRange& ours,
                               std::string_view release);

/// Checks that a daemon's answer is in one of the client's versions. Errors: the failure that it
/// reports, in whichever version; kInternalError for an answer in another version.
Status CheckAnswer(const MessageHeader& answer, std::span<const std::byte> bytes,
                   const VersionRange& ours);

/// Checks that a session in this version has the request. Errors: kInvalidUsage, with what needs
/// which version.
Status CheckServed(MessageType type, uint16_t version);

}  // namespace harmonaize
