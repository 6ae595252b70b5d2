#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "daemon/cluster/messages/formation.h"
#include "daemon/formation/formation.h"
#include "daemon/formation/formation_request.h"
#include "daemon/formation/home_address.h"
#include "src/base/status.h"
#include "src/ipc/unique_id.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Cluster;
class CommunicatorMaker;
class CommunicatorRegistry;
class FormationHome;
class Session;
class StrayMessages;
struct Member;

/// Applies for this host's ranks at the homes of the communicators that they want, and takes in the
/// answers of other homes. A *ticket* stands for a rank that has applied elsewhere. Thread: engine.
class FormationClient {
 public:
  /// All of these outlive the client.
  struct Services {
    FormationHome& home;  ///< This daemon as a home.
    CommunicatorMaker& maker;
    StrayMessages& stray;
    const CommunicatorRegistry& communicators;
    Cluster* cluster;  ///< nullptr where this host stands alone.
  };
  using GrowIdDone = std::function<void(const Result<UniqueId>&)>;

  explicit FormationClient(const Services& services) : services_(services) {}

  /// Applies for a rank of the session. Returns the number of the member that stands for the rank;
  /// kNoMember for a rank that gets no communicator.
  Result<uint32_t> Apply(Session& session, FormationRequest request);
  /// Takes back the member's application, if it has applied elsewhere.
  void Withdraw(Member* member, const WhyWithdrawn& why);
  /// Asks the home of a communicator for an id by which it grows. `done` gets the id later.
  void AskGrowId(transport::PeerId home, uint64_t communicator, uint32_t user, GrowIdDone done);

  // What the cluster says.

  void OnFormed(transport::PeerId peer, const FormedMessage& formed);
  /// An exception has ended OnFormed before there was a communicator: its ranks here learn of it,
  /// and leave.
  void GiveUpOn(transport::PeerId peer, const FormedMessage& formed, const Status& exception);
  /// Fails the ranks with these tickets. `peer` is the daemon that was asked; none if it could not
  /// be reached.
  void OnRefused(std::optional<transport::PeerId> peer, const RefusedMessage& refused);
  void OnFormingNotice(transport::PeerId peer, const FormingNoticeMessage& notice);
  void OnGrowId(transport::PeerId peer, const GrowIdMessage& answer);

  // A daemon is lost. Membership calls these in this order, with other work in between.

  /// Refuses the ranks that have applied at the daemon. Returns the tickets of those that can apply
  /// at another.
  std::vector<uint64_t> RefuseApplicantsAt(transport::PeerId lost);
  /// Fails the calls that have asked the daemon for an id.
  void FailGrowIdCallsTo(transport::PeerId lost);
  /// Applies again for ranks that had applied at a daemon that is lost.
  void ApplyAnew(const std::vector<uint64_t>& tickets);

 private:
  struct Ticket {
    Member* member = nullptr;
    std::optional<transport::PeerId> peer = {};  ///< None while it is being reached.
    FormationRequest request;
  };
  struct GrowIdCall {
    transport::PeerId peer;
    GrowIdDone done;
  };

  Status ApplyAtHome(FormationRequest request, Member* member);
  void ApplyElsewhere(FormationRequest request, Member* member, const HomeAddress& home);
  void OnReached(uint64_t ticket, const ApplyMessage& message,
                 const Result<transport::PeerId>& peer);
  Status CheckTickets(transport::PeerId peer, const FormedMessage& formed) const;
  void OnNobodyLeft(transport::PeerId peer, const FormedMessage& formed);

  const Services services_;
  uint64_t next_ticket_ = 1;
  std::map<uint64_t, Ticket> tickets_;
  std::map<uint64_t, GrowIdCall> grow_id_calls_;  ///< By ticket.
};

}  // namespace harmonaize::daemon
