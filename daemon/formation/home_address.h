#pragma once

#include <optional>
#include <string>

#include "daemon/formation/formation_request.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Cluster;
class Communicator;
class CommunicatorRegistry;

/// The daemon at which a communicator forms.
struct HomeAddress {
  bool here = true;
  std::optional<transport::PeerId> peer = {};  ///< None: it is to be reached by its address.
  std::string address = {};
};

/// Finds the home of a communicator. `cluster` is nullptr where this host stands alone. Errors:
/// kRemoteError where it is lost. Thread: engine.
Result<HomeAddress> HomeOf(const Communicator& communicator, const Cluster* cluster);

/// Finds the home for a request of a rank of this host. Errors and `cluster` are those of HomeOf.
Result<HomeAddress> HomeFor(const FormationRequest& request,
                            const CommunicatorRegistry& communicators, const Cluster* cluster);

}  // namespace harmonaize::daemon
