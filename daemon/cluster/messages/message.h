#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "daemon/cluster/messages/kinds.h"
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

/// Whether a type is the structure of a kind of message.
template <typename Type>
concept MessageStructure = requires {
  { Type::kKind } -> std::convertible_to<MessageKind>;
};

/// A message of any kind. The header of its subject has its structure. Copies of a message share
/// one structure. Nobody changes it.
class ClusterMessage {
 public:
  template <typename Structure>
  requires MessageStructure<std::remove_cvref_t<Structure>> ClusterMessage(Structure&& structure)
      : kind_(std::remove_cvref_t<Structure>::kKind),
        structure_(std::make_shared<const std::remove_cvref_t<Structure>>(
            std::forward<Structure>(structure))) {}

  MessageKind kind() const { return kind_; }
  /// Returns the structure; nullptr if the message is of another kind.
  template <MessageStructure Structure>
  const Structure* As() const {
    return kind_ == Structure::kKind ? static_cast<const Structure*>(structure_.get()) : nullptr;
  }
  /// Makes the one call that takes the structure. Each call takes the structure of one kind.
  /// Returns false if none takes this one.
  template <typename... Calls>
  bool Dispatch(const Calls&... calls) const {
    return (Try(calls, &Calls::operator()) || ...);
  }

 private:
  template <typename Call, typename Structure>
  bool Try(const Call& call, void (Call::*)(const Structure&) const) const {
    const Structure* const structure = As<Structure>();
    if (structure != nullptr) call(*structure);
    return structure != nullptr;
  }

  MessageKind kind_;
  std::shared_ptr<const void> structure_;  // of the type whose kKind is kind_
};

/// Returns the key of the communicator that a message is about: its field `communicator`; nullopt
/// if it has none. Messages about what only tenants call a communicator have no such field.
std::optional<uint64_t> CommunicatorOf(const ClusterMessage& message);

/// Encodes a message. Texts for people are cut if they are longer than people read.
std::vector<std::byte> EncodeMessage(const ClusterMessage& message);
/// Decodes a message in which every enumeration has one of its values, every number that counts or
/// names something can do so, and lists fit each other. Whether there is such a rank, host or
/// communicator is for the receiver to check. Errors: kInvalidUsage for a kind that this release
/// does not know; kRemoteError for anything else, with the kind and the field that is missing or
/// wrong.
Result<ClusterMessage> DecodeMessage(std::span<const std::byte> bytes);

}  // namespace harmonaize::daemon
