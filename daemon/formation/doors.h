#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "daemon/cluster/messages/door.h"
#include "daemon/formation/formation_client.h"
#include "daemon/formation/formation_watch.h"
#include "daemon/formation/issued_ids.h"
#include "daemon/formation/pending_formations.h"
#include "daemon/identity/tenant_identity.h"
#include "daemon/quota/holdings.h"
#include "daemon/runtime/lifetime.h"
#include "daemon/tenant/session.h"
#include "src/base/status.h"
#include "src/ipc/unique_id.h"
#include "src/transport/address.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Cluster;
class EventLoop;

/// Doors of processes. Who knows a process's door may knock at it, if it belongs to the same
/// tenant, and gets a communicator of two ranks with that process: the knocker is rank 0, and the
/// process that takes the knock is rank 1. The knocker's daemon is the communicator's home.
///
/// The address of a door leads to its daemon as a unique id does, and holds a secret. Programs can
/// neither read nor make one, so no address leads to anything but a daemon of the cluster. Thread:
/// engine.
class Doors {
 public:
  /// All of these outlive the doors.
  struct Services {
    FormationClient& client;
    FormationWatch& watch;
    PendingFormations& pending;
    IssuedIds& ids;
    EventLoop& loop;
    Cluster* cluster;  ///< nullptr where this host stands alone.
  };

  explicit Doors(const Services& services) : services_(services) {}

  /// Opens the door of a session, or returns the one that it has. Errors: kSystemError;
  /// kInvalidUsage for a tenant over its quota.
  Result<UniqueId> Open(Session& session);
  /// Knocks for a session. Returns the member that will be rank 0. The member fails later if the
  /// other host refuses the knock. Errors: kInvalidArgument for an address that is none, or is of
  /// another cluster; those of a tenant over its quota; for a door of this host also those of a
  /// refused knock, kInvalidUsage and kInvalidArgument.
  Result<uint32_t> Knock(Session& session, const UniqueId& door, const std::string& name);
  /// Takes the first knock at a session's door whose process still waits. Returns the member that
  /// will be rank 1; kNoMember if there is none. Errors: those of a tenant over its quota; the
  /// knock is refused then.
  Result<uint32_t> Take(Session& session);

  void LoseSession(Session& session);

  // What the cluster says.

  void OnKnock(transport::PeerId peer, const KnockMessage& knock);
  void OnRefused(transport::PeerId peer, const KnockRefusedMessage& refused);
  void OnPeerLost(transport::PeerId peer);

  /// Most knocks that wait at one door. Beyond it knocks are refused.
  static constexpr size_t kMostWaiting = 1024;

 private:
  struct Waiting {
    UniqueId id;
    Holding memory;
  };
  struct Door {
    Session* session = nullptr;
    Holding place;
    std::deque<Waiting> knocks;
  };
  /// Processes that have knocked at a door which is gone by now. They are yet to be refused.
  struct Dismissed {
    TenantIdentity owner;
    std::deque<Waiting> knocks;
  };
  using Token = decltype(UniqueId::token);

  Result<std::optional<transport::NetworkAddress>> HomeOf(const UniqueId& id) const;
  Status Admit(const Token& token, uint32_t user, const Tenant* tenant, const UniqueId& id);
  Status SendKnock(Session& session, const UniqueId& door, const UniqueId& id,
                   const std::string& address);
  bool IsGone(const UniqueId& id) const;
  void DismissSome();
  void Refuse(const TenantIdentity& owner, const UniqueId& id, const Status& why);
  void Fail(const UniqueId& id, const Status& why);

  const Services services_;
  std::map<Token, Door> doors_;
  std::map<uint32_t, UniqueId> of_session_;
  std::deque<Dismissed> dismissed_;
  bool dismisses_ = false;                        // a call of DismissSome is posted
  std::map<UniqueId, transport::PeerId> knocks_;  // at other hosts, while their ranks gather
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
