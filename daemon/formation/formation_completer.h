#pragma once

#include <string>
#include <vector>

#include "daemon/cluster/roster.h"
#include "daemon/formation/formation.h"
#include "daemon/formation/pending_formations.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

class Cluster;
class CommunicatorMaker;
class Fabrics;

/// Makes the communicators of formations that are complete: this host's side here, and the others'
/// by telling their daemons. Thread: engine.
class FormationCompleter {
 public:
  /// `cluster` is nullptr where this host stands alone.
  FormationCompleter(CommunicatorMaker& maker, Fabrics& fabrics, Cluster* cluster)
      : maker_(maker), fabrics_(fabrics), cluster_(cluster) {}

  /// Makes one communicator of all ranks that get one.
  Status Complete(Formation& formation);
  /// Makes a communicator for each color. `calls` is by the rank in the parent.
  Status CompleteSplit(Formation& formation, const std::vector<SplitCall>& calls);

 private:
  Status MakeCommunicator(Formation& formation, const std::vector<Applicant>& ranks);
  void TellFormed(const Roster& roster, const std::vector<Applicant>& ranks,
                  const Formation& formation);

  CommunicatorMaker& maker_;
  Fabrics& fabrics_;
  Cluster* const cluster_;
};

}  // namespace harmonaize::daemon
