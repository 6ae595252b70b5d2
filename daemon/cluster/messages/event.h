#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cluster/messages/kinds.h"
#include "daemon/cluster/messages/message_list.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// An event of a job, for the hosts that the job is on. The daemon where it begins sends it to the
/// homes of the job's communicators, and a home passes it on to the hosts of its communicator. It
/// may come several times, by way of several communicators.
struct EventMessage {
  static constexpr MessageKind kKind = MessageKind::kEvent;
  uint64_t about = 0;     ///< Key of the communicator by way of which it comes.
  uint64_t unique = 0;    ///< Tells it from all other events of the job.
  std::string type{};     ///< Name of the type.
  std::string subject{};  ///< Event::subject.
  int64_t time_ns = 0;    ///< Event::time_ns.
  int severity = 0;       ///< Event::severity.
  int64_t expiry_ns = 0;  ///< Event::expiry_ns; 0: none.
  std::string data{};     ///< Event::data. The reader checks it against the type's schema.
};

/// Highest number of a statement. A number is one above the highest that its daemon knew of, so
/// honest daemons stay far below: one statement a nanosecond would get here in 146 years. A daemon
/// that sends a higher one is refused, or the next number of its job would wrap around.
inline constexpr uint64_t kMostStatementNumber = uint64_t{1} << 62;

/// A statement about a job's requirements, without the keys that later ones have replaced
/// (Statements).
struct StatedRequirements {
  uint64_t number = 0;  ///< StatementStamp; up to kMostStatementNumber.
  uint64_t unique = 0;
  std::vector<uint8_t> document{};  ///< TOML. The reader checks it.
};

/// All that has been said of a job's requirements, for the hosts that the job is on. It takes the
/// ways of an EventMessage.
struct RequirementsMessage {
  static constexpr MessageKind kKind = MessageKind::kRequirements;
  uint64_t about = 0;             ///< Key of the communicator by way of which it comes.
  uint64_t forgotten_number = 0;  ///< Statements::forgotten, likewise; 0: nothing was taken back.
  uint64_t forgotten_unique = 0;
  std::vector<StatedRequirements> statements{};
};

/// What has been said of a job's requirements, in a number (Statements::Digest), for the hosts of a
/// communicator that has formed: most know it all from an earlier one.
struct RequirementsDigestMessage {
  static constexpr MessageKind kKind = MessageKind::kRequirementsDigest;
  uint64_t about = 0;  ///< Key of the communicator.
  uint64_t digest = 0;
};

/// To a daemon that has sent a digest of something else than what is known here: it answers with a
/// RequirementsMessage.
struct AskRequirementsMessage {
  static constexpr MessageKind kKind = MessageKind::kAskRequirements;
  uint64_t about = 0;  ///< That of the digest.
};

/// An offer to a job as it is now, from the daemon that has made it, for the hosts that the job is
/// on. It takes the ways of an EventMessage. It may also be the reply to an answer.
struct JobOfferMessage {
  static constexpr MessageKind kKind = MessageKind::kJobOffer;
  uint64_t about = 0;            ///< Key of the communicator by way of which it comes.
  uint64_t unique = 0;           ///< Tells it from all other messages about the job.
  std::vector<uint8_t> offer{};  ///< OfferText. The reader checks it.
  uint64_t answer = 0;  ///< OfferAnswerMessage::unique of the answer that it replies to; 0: none.
  Status status{};      ///< Why that answer does not count, or OK.
};

/// A tenant's answer to an offer, for the daemon that has made it. It takes the same ways, since
/// its daemon need not know which one that is.
struct OfferAnswerMessage {
  static constexpr MessageKind kKind = MessageKind::kOfferAnswer;
  uint64_t about = 0;             ///< Key of the communicator by way of which it comes.
  uint64_t unique = 0;            ///< OfferAnswer::unique.
  uint64_t sending = 0;           ///< Tells it from all other messages about the job.
  std::string id{};               ///< Offer::id.
  std::vector<uint8_t> answer{};  ///< AnswerText. The reader checks it.
};

using JobMessages = MessageList<EventMessage, RequirementsMessage, RequirementsDigestMessage,
                                AskRequirementsMessage, JobOfferMessage, OfferAnswerMessage>;

}  // namespace harmonaize::daemon
