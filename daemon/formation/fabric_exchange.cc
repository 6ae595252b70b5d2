#include "daemon/formation/fabric_exchange.h"

#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/multihost/host_group.h"
#include "daemon/plans/fabrics.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// The longest text that a control message holds, in bytes, less some for the rest of the message.
constexpr size_t kMostFabricText = transport::kMaxControlBytes - 1024;

}  // namespace

void FabricExchange::OnAskFabric(transport::PeerId peer, const AskFabricMessage& question) {
  const KnownFabric* const known = fabrics_.Find(question.fabric);
  FabricMessage answer{question.fabric, ""};  // for one that is not known, or too long to tell
  if (known != nullptr && known->text.size() <= kMostFabricText) answer.text = known->text;
  cluster_->Send(peer, answer);
}

void FabricExchange::OnFabric(transport::PeerId peer, const FabricMessage& fabric) {
  const Result<const KnownFabric*> added = fabrics_.AddText(fabric.fabric, fabric.text);
  if (!added.ok()) Log(LogLevel::kError, kLogTuning, "{}", added.status().message());
  for (const auto& [id, communicator] : communicators_.all()) {
    HostGroup* const group = communicator->host_group();
    // A home is asked for the fabric, and nobody else can say that there is none.
    const bool asked = group != nullptr && group->roster().fabric == fabric.fabric &&
                       (added.ok() || group->roster().home == peer);
    if (asked) group->plans().OnFabric(added.status());
  }
}

}  // namespace harmonaize::daemon
