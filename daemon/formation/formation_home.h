#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/cluster/messages/formation.h"
#include "daemon/formation/disagreements.h"
#include "daemon/formation/formation.h"
#include "daemon/formation/formation_completer.h"
#include "daemon/formation/formation_request.h"
#include "daemon/formation/formation_watch.h"
#include "daemon/formation/issued_ids.h"
#include "daemon/formation/pending_formations.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Cluster;
class Communicator;
class CommunicatorRegistry;
class TenantTable;
class TicketHome;
class WaitingCount;

/// Takes the applications of ranks for communicators that form at this daemon, their home. Has a
/// formation completed once all of its ranks have come. Thread: engine.
class FormationHome {
 public:
  /// All of these outlive the home.
  struct Services {
    PendingFormations& pending;
    IssuedIds& ids;
    FormationWatch& watch;
    CommunicatorMaker& maker;
    const CommunicatorRegistry& communicators;
    TenantTable& tenants;
    WaitingCount& waiting;
    Fabrics& fabrics;
    TicketHome& tickets;
    Cluster* cluster;         ///< nullptr where this host stands alone.
    uint64_t remembering_ns;  ///< For how long disagreements are remembered.
  };

  explicit FormationHome(const Services& services)
      : services_(services),
        completer_(services.maker, services.fabrics, services.cluster),
        disagreements_(services.remembering_ns) {}

  /// Takes in a rank's application. An error refuses the rank alone. If the formation fails later,
  /// the rank is told then.
  Status Apply(const FormationRequest& request, Applicant applicant);

  /// Returns whether disagreements are remembered. ForgetOld must be called while there are some.
  bool remembers_failures() const { return !disagreements_.empty(); }
  void ForgetOld(uint64_t now_ns) { disagreements_.ForgetOld(now_ns); }

  // What the cluster says.

  void OnApply(transport::PeerId peer, const ApplyMessage& message);
  /// Refuses the rank: an exception interrupted OnApply.
  void GiveUpOn(transport::PeerId peer, const ApplyMessage& message, const Status& exception);
  void OnAskGrowId(transport::PeerId peer, const AskGrowIdMessage& question);

 private:
  Status ApplyToJoin(const FormationRequest& request, Applicant applicant);
  Status ApplyToSplit(const FormationRequest& request, Applicant applicant, Communicator& parent);
  Status ApplyToShrink(const FormationRequest& request, Applicant applicant, Communicator& parent);
  Status ApplyToGrow(const FormationRequest& request, Applicant applicant, Communicator& parent);
  Status ApplyToJoinGrowth(const FormationRequest& request, Applicant applicant);
  template <typename Make>
  Result<PendingFormation*> PendingAt(const FormationKey& key, Make make);
  Status TakePlace(const FormationKey& key, size_t place, Applicant applicant);
  Status CheckShrinksAgree(const FormationRequest& request, const Communicator& parent);
  Status CheckAgreement(const FormationKey& key, const FormationRequest& request,
                        const Applicant& applicant);

  const Services services_;
  FormationCompleter completer_;
  Disagreements disagreements_;
};

}  // namespace harmonaize::daemon
