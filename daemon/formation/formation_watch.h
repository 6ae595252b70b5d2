#pragma once

#include <cstdint>
#include <string>

#include "daemon/cluster/messages/formation.h"
#include "daemon/communicator/communicator_observer.h"
#include "daemon/formation/formation.h"
#include "daemon/formation/formation_observer.h"
#include "daemon/formation/issued_ids.h"
#include "daemon/formation/pending_formations.h"
#include "daemon/multihost/host_services.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Cluster;
class JobTable;
class SessionTable;
struct Config;

/// Watches the formations at this daemon: tells ranks whom they wait for, and fails formations that
/// cannot complete any more. Thread: engine.
class FormationWatch final : public RemoteRankObserver, public CommunicatorObserver {
 public:
  /// `cluster` is nullptr where this host stands alone.
  FormationWatch(const Config& config, PendingFormations& pending, IssuedIds& ids,
                 const SessionTable& sessions, JobTable& jobs, Cluster* cluster)
      : config_(config),
        pending_(pending),
        ids_(ids),
        sessions_(sessions),
        jobs_(jobs),
        cluster_(cluster) {}

  /// Has the observer hear of late ranks. Requires: it outlives the last call of this object.
  void SetObserver(FormationObserver* observer) { observer_ = observer; }

  /// Tells a rank that it gets no communicator.
  void Refuse(const Applicant& applicant, const Status& why);
  /// Tells all ranks of a formation. Requires: the formation goes next.
  void RefuseAll(const Formation& formation, const Status& why);
  /// Fails the formation with this key, if there is one.
  void Fail(const FormationKey& key, const Status& why);
  /// Fails the formations that still wait for this rank of the parent.
  void FailWaitingFor(const Communicator& parent, int rank, const Status& why);
  /// Fails the formations that a parent which has ended would refuse further ranks.
  void OnBroken(const Communicator& parent, const Status& why) override;
  /// Takes the member out of its formation at this daemon, if it has one, and fails the formation.
  void Withdraw(Member* member, const WhyWithdrawn& why);
  /// Erases the ids that the session has asked for, unless ranks wait with them.
  void EraseIdsOf(const Session& session);
  /// Notes that a communicator has formed. Its formation is not among the pending ones any more.
  void NoteFormed(const PendingFormation& formed);
  /// Tells ranks that have waited long whom they wait for; fails what has waited too long.
  void Tick(uint64_t now_ns);

  // What the cluster says.

  void OnWithdraw(transport::PeerId peer, const WithdrawMessage& withdraw);
  void OnPeerLost(transport::PeerId peer);
  void OnRankLeft(Communicator& communicator, int rank) override;

 private:
  void Notify(const Formation& formation, const std::string& notice);
  void NoteJob(PendingFormation* pending);
  void TellLate(PendingFormation* pending, uint64_t now_ns);

  const Config& config_;
  PendingFormations& pending_;
  IssuedIds& ids_;
  const SessionTable& sessions_;
  JobTable& jobs_;
  Cluster* const cluster_;
  FormationObserver* observer_ = nullptr;
};

}  // namespace harmonaize::daemon
