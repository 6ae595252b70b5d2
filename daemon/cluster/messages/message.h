#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/cluster/messages/agent.h"
#include "daemon/cluster/messages/checkpoint.h"
#include "daemon/cluster/messages/diagnosis.h"
#include "daemon/cluster/messages/door.h"
#include "daemon/cluster/messages/event.h"
#include "daemon/cluster/messages/formation.h"
#include "daemon/cluster/messages/kinds.h"
#include "daemon/cluster/messages/link.h"
#include "daemon/cluster/messages/outcome.h"
#include "daemon/cluster/messages/pair.h"
#include "daemon/cluster/messages/planning.h"
#include "daemon/cluster/messages/probe.h"
#include "daemon/cluster/messages/sizing.h"
#include "daemon/cluster/messages/ticket.h"
#include "daemon/cluster/messages/tuning.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

// The messages of daemons of different hosts to each other, beside the data: CBOR (RFC 8949) over
// the control link of the transport, which has proved the cluster key. A daemon believes what
// another says about its own ranks, and no message of any shape makes it crash.
//
// A communicator that spans hosts has a *home*, the daemon at which it was formed. Everything that
// concerns all of its hosts goes through the home: which ranks take part, how operations are
// carried out, whether the ranks agree, which ranks are late, and how it ends. `communicator` is
// its key, drawn by its home and the same at all hosts; hosts are numbered by the roster that
// FormedMessage brings.

/// Whether a message is an alternative of a variant of messages.
template <typename Message, typename Variant>
inline constexpr bool kIsAlternativeOf = false;
template <typename Message, typename... Alternatives>
inline constexpr bool kIsAlternativeOf<Message, std::variant<Alternatives...>> =
    (std::is_same_v<Message, Alternatives> || ...);

/// `type` is the one of several variants that a message is an alternative of.
template <typename Message, typename Subjects>
struct SubjectAmong;
template <typename Message, typename... Subjects>
struct SubjectAmong<Message, std::variant<Subjects...>> {
  template <typename Subject>
  struct Holds : std::bool_constant<kIsAlternativeOf<Message, Subject>> {
    using type = Subject;
  };
  using type = typename std::disjunction<Holds<Subjects>...>::type;
};

/// A message of any subject.
class ClusterMessage {
 public:
  using Subjects =
      std::variant<FormationMessage, OutcomeMessage, PlanningMessage, PairMessage, LinkMessage,
                   ProbeMessage, JobMessage, DiagnosisMessage, TicketMessage, AgentsMessage,
                   SizingMessage, CheckpointMessage, DoorMessage, TuningMessage>;

  ClusterMessage(Subjects subjects) : subjects_(std::move(subjects)) {}
  /// Makes a message of a structure of one of the subjects.
  template <typename Message>
  requires(requires { std::remove_cvref_t<Message>::kKind; }) ClusterMessage(Message&& message)
      : subjects_(std::in_place_type<SubjectOf<std::remove_cvref_t<Message>>>,
                  std::forward<Message>(message)) {}

  const Subjects& subjects() const { return subjects_; }
  /// Calls the visitor with the structure.
  template <typename Visitor>
  decltype(auto) Visit(Visitor&& visitor) const {
    return std::visit(
        [&](const auto& subject) -> decltype(auto) { return std::visit(visitor, subject); },
        subjects_);
  }
  template <typename Visitor>
  decltype(auto) Visit(Visitor&& visitor) {
    return std::visit([&](auto& subject) -> decltype(auto) { return std::visit(visitor, subject); },
                      subjects_);
  }
  MessageKind kind() const {
    return Visit([](const auto& message) { return std::remove_cvref_t<decltype(message)>::kKind; });
  }
  /// Returns the structure; nullptr if the message is of another kind.
  template <typename Message>
  const Message* As() const {
    const auto* const subject = std::get_if<SubjectOf<Message>>(&subjects_);
    return subject == nullptr ? nullptr : std::get_if<Message>(subject);
  }

 private:
  template <typename Message>
  using SubjectOf = typename SubjectAmong<Message, Subjects>::type;

  Subjects subjects_;
};

/// Encodes a message. Texts for people are cut if they are longer than people read.
std::vector<std::byte> EncodeMessage(const ClusterMessage& message);
/// Decodes a message in which every enumeration has one of its values, every number that counts or
/// names something can do so, and lists fit each other. Whether there is such a rank, host or
/// communicator is for the receiver to check. Errors: kInvalidUsage for a kind that this release
/// does not know; kRemoteError for anything else, with the kind and the field that is missing or
/// wrong.
Result<ClusterMessage> DecodeMessage(std::span<const std::byte> bytes);

}  // namespace harmonaize::daemon
