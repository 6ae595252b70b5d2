#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/cluster/messages/message.h"
#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/config/config.h"
#include "daemon/formation/communicator_maker.h"
#include "daemon/formation/departures.h"
#include "daemon/formation/disagreements.h"
#include "daemon/formation/fabric_exchange.h"
#include "daemon/formation/formation.h"
#include "daemon/formation/formation_completer.h"
#include "daemon/formation/formation_watch.h"
#include "daemon/formation/issued_ids.h"
#include "daemon/formation/late_rounds.h"
#include "daemon/formation/membership_services.h"
#include "daemon/formation/pending_formations.h"
#include "daemon/formation/stray_messages.h"
#include "daemon/tenant/session.h"
#include "src/base/status.h"
#include "src/ipc/unique_id.h"
#include "src/transport/address.h"

namespace harmonaize::daemon {

/// Who belongs to which communicator: ranks join, split, shrink, grow, leave and die here. What
/// forms has a *home*, the daemon that made the unique id, or that the parent was formed at; ranks
/// of other hosts apply there by way of their own daemon. Engine thread only.
class Membership {
 public:
  explicit Membership(const MembershipServices& services);
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  /// An id that only ranks of the session's tenant may use.
  Result<UniqueId> CreateId(Session& session);

  // Each gives the member that stands for the caller in what forms; kNoMember for a rank that takes
  // part and gets nothing. What another daemon finds wrong reaches the member later.
  Result<uint32_t> Join(Session& session, const UniqueId& id, int ranks, int rank,
                        const std::string& name);
  Result<uint32_t> Split(Session& session, uint32_t member, std::optional<int> color, int key,
                         const std::string& name);
  Result<uint32_t> Shrink(Session& session, uint32_t member, std::vector<int32_t> excluded,
                          bool abort_parent, const std::string& name);
  Result<uint32_t> GrowFrom(Session& session, uint32_t member, int ranks, const std::string& name);
  Result<uint32_t> JoinGrowth(Session& session, const UniqueId& id, int ranks, int rank,
                              const std::string& name);
  /// `done` gets the id, at once or later.
  void CreateGrowId(Session& session, uint32_t member,
                    std::function<void(const Result<UniqueId>&)> done);

  /// The rank takes the communicator down, and stays a member until it leaves.
  Status Abort(Session& session, uint32_t member);
  /// The rank leaves. `done` is called once no operation touches its buffers any more.
  Status Leave(Session& session, uint32_t member, std::function<void()> done);
  Status Revoke(Session& session, uint32_t member);

  /// The session's process is gone: its ranks are lost.
  void LoseSession(Session& session, const std::string& why);

  /// Clears away what has ended: departures that are complete, communicators without ranks.
  void Sweep();
  /// Late notices, formations that waited too long, failures that are remembered long enough.
  void Tick(uint64_t now_ns);
  /// Whether Tick has something to forget, although nobody waits.
  bool remembers_failures() const { return !disagreements_.empty(); }

  /// The communicator of a ready member of this session.
  Result<Communicator*> Find(Session& session, uint32_t member);

  // The cluster.

  /// What another daemon says; `peer` 0: this one, as a home, to itself.
  void OnMessage(transport::PeerId peer, const ClusterMessage& message);
  /// An exception ended what the message was to do.
  void GiveUpOn(transport::PeerId peer, const ClusterMessage& message, const Status& exception);
  void OnPeerLost(transport::PeerId peer);

 private:
  /// An application at another daemon.
  struct Ticket {
    Member* member = nullptr;
    std::optional<transport::PeerId> peer = {};  ///< None while it is being reached.
    ApplyMessage request;
  };
  /// The daemon at which something forms.
  struct FormationHome {
    bool here = true;
    std::optional<transport::PeerId> peer = {};  ///< None: to be reached by its address.
    std::string address = {};
  };

  // Applying.
  Result<Member*> NewMember(Session& session);
  Result<uint32_t> ApplyFor(Session& session, ApplyMessage request, Communicator* parent);
  Result<FormationHome> HomeFor(const ApplyMessage& request, const Communicator* parent) const;
  Result<FormationHome> HomeOfParent(const ApplyMessage& request, const Communicator& parent) const;
  Status ApplyAtHome(ApplyMessage request, Member* member, Communicator* parent);
  void ApplyElsewhere(ApplyMessage request, Member* member, const FormationHome& home);
  void ApplyAnew(uint64_t ticket);
  Status Apply(const ApplyMessage& request, Applicant applicant, Communicator* parent);
  Status ApplyToJoin(const ApplyMessage& request, Applicant applicant);
  Status ApplyToSplit(const ApplyMessage& request, Applicant applicant, Communicator& parent);
  Status ApplyToShrink(const ApplyMessage& request, Applicant applicant, Communicator& parent);
  Status ApplyToGrow(const ApplyMessage& request, Applicant applicant, Communicator& parent);
  Status ApplyToJoinGrowth(const ApplyMessage& request, Applicant applicant);
  template <typename Make>
  Result<PendingFormation*> PendingAt(const FormationKey& key, Make make);
  Status TakePlace(const FormationKey& key, size_t place, Applicant applicant);
  Result<PendingFormation*> GrowthOf(Communicator& parent, const ApplyMessage& request,
                                     const Applicant& applicant);
  Status CheckAgreement(const FormationKey& key, const ApplyMessage& request,
                        const Applicant& applicant);

  Status CheckTickets(transport::PeerId peer, const FormedMessage& formed) const;

  void Withdraw(Member* member, const WhyWithdrawn& why);
  bool MayEndLater(Communicator& communicator);

  // The cluster.
  void OnNobodyLeft(transport::PeerId peer, const FormedMessage& formed);
  void OnApply(transport::PeerId peer, const ApplyMessage& request);
  void OnFormed(transport::PeerId peer, const FormedMessage& formed);
  /// By the daemon that was asked; none: it could not be reached.
  void OnRefused(std::optional<transport::PeerId> peer, const RefusedMessage& refused);
  void OnFormingNotice(transport::PeerId peer, const FormingNoticeMessage& notice);
  void OnAskGrowId(transport::PeerId peer, const AskGrowIdMessage& question);
  void OnGrowId(transport::PeerId peer, const GrowIdMessage& answer);
  void OnCommunicatorMessage(transport::PeerId peer, uint64_t key, const ClusterMessage& message);

  const Config& config_;
  Cluster* const cluster_;  // nullptr where this host stands alone
  CommunicatorRegistry& communicators_;
  IssuedIds issued_;
  PendingFormations pending_;
  FormationWatch watch_;
  const MembershipServices services_;
  CommunicatorMaker maker_;
  StrayMessages stray_;
  FabricExchange fabric_exchange_;
  FormationCompleter completer_;
  Disagreements disagreements_;
  Departures departures_;
  LateRounds late_rounds_;

  uint64_t next_ticket_ = 1;
  std::map<uint64_t, Ticket> tickets_;
  struct GrowIdCall {
    transport::PeerId peer;
    std::function<void(const Result<UniqueId>&)> done;
  };
  std::map<uint64_t, GrowIdCall> grow_id_calls_;  // by ticket
};

}  // namespace harmonaize::daemon
