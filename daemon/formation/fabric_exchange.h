#pragma once

#include "daemon/cluster/messages/message.h"
#include "daemon/cluster/messages/planning.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Cluster;
class CommunicatorRegistry;
class Fabrics;

/// Tells other daemons the fabrics' texts that they ask for, and hands those that come to the
/// communicators that wait for them. Thread: engine.
class FabricExchange {
 public:
  /// `cluster` is nullptr where this host stands alone, and no message comes.
  FabricExchange(Fabrics& fabrics, const CommunicatorRegistry& communicators, Cluster* cluster)
      : fabrics_(fabrics), communicators_(communicators), cluster_(cluster) {}

  void OnAskFabric(transport::PeerId peer, const AskFabricMessage& question);
  void OnFabric(transport::PeerId peer, const FabricMessage& fabric);

 private:
  Fabrics& fabrics_;
  const CommunicatorRegistry& communicators_;
  Cluster* const cluster_;
};

}  // namespace harmonaize::daemon
