#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "daemon/cluster/messages/event.h"
#include "daemon/identity/job_identity.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Background;

/// Messages of other daemons with statements, which are read apart from the engine's thread. At
/// most one message of each daemon about each job waits to be read: a newer one takes its place,
/// since a message holds all that was said. Thread: engine.
class StatementInbox {
 public:
  struct Sender {
    transport::PeerId peer = 0;
    uint32_t tenant = 0;  ///< TenantIdentity::number, whose turn the reading takes.
    JobIdentity job;
    auto operator<=>(const Sender&) const = default;
  };
  struct Received {
    RequirementsMessage message;
    /// RequirementsMessage::about of this message and of those that it has replaced, the newest
    /// last and kMostAbouts at most: some of these communicators may end before it is read.
    std::deque<uint64_t> abouts;
  };
  /// Most communicators that are remembered for a message that waits. A tenant can form any number
  /// of them meanwhile. If all that are remembered end before the message is read, it is lost, and
  /// asked for by way of the next communicator.
  static constexpr size_t kMostAbouts = 64;
  /// Reads a message. Thread: the background's.
  using Read = std::function<void(const Received&)>;

  /// `background` outlives this object.
  explicit StatementInbox(Background* background) : background_(background) {}

  /// Has a message read, or replaces the sender's message that waits, whose `read` is called then.
  void Put(const Sender& sender, const RequirementsMessage& message, Read read);
  /// Frees what was kept for a sender whose message has been read.
  void Tidy(const Sender& sender);
  /// Returns the number of senders for which anything is kept.
  size_t size() const { return waiting_.size(); }

 private:
  class Waiting;

  Background* const background_;
  /// The background owns what waits, and frees it with the call that reads it.
  std::map<Sender, std::weak_ptr<Waiting>> waiting_;
};

}  // namespace harmonaize::daemon
