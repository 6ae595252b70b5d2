#pragma once

#include <string>
#include <string_view>

#include "src/events/event.h"

namespace harmonaize::daemon {

/// Longest prefix of subjects, in bytes. With it and the longest names of a tenant and a job a
/// subject fits in the 4096 bytes that a NATS server takes as one line of its protocol.
inline constexpr size_t kMostSubjectPrefixBytes = 64;

/// Returns whether a text can be the prefix of all subjects: one token of 1 to
/// kMostSubjectPrefixBytes letters, digits, '-' and '_'.
bool IsSubjectPrefix(std::string_view text);

/// Returns a name as one token of a subject. Letters, digits and '-' stand for themselves, and each
/// other byte is '_' with two hexadecimal digits: "uid 1000" is "uid_201000". So no byte of a name
/// has a meaning to NATS, and two names never have the same token. "" is "_".
std::string SubjectToken(std::string_view name);

/// Returns the subject of an event: PREFIX.events.TENANT.JOB.TYPE, where the type has two tokens.
/// The job of an event about this host is "host".
std::string SubjectOf(std::string_view prefix, std::string_view tenant, const Event& event);
/// Returns the subject of an event for operators alone: PREFIX.events._operators.host.TYPE, which
/// is no tenant's.
std::string SubjectForOperators(std::string_view prefix, const Event& event);

/// Returns the pattern of all subjects: PREFIX.events.>
std::string AllSubjects(std::string_view prefix);
/// Returns the name of the stream that keeps them: PREFIX_events.
std::string StreamName(std::string_view prefix);

}  // namespace harmonaize::daemon
