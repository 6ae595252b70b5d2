#include "daemon/sources/source_session.h"

#include "daemon/sources/aws_session.h"
#include "daemon/sources/azure_session.h"
#include "daemon/sources/gcp_session.h"
#include "daemon/sources/kubernetes_session.h"

namespace harmonaize::daemon {

std::vector<std::unique_ptr<SourceSession>> MakeSessions(const SourceConfig& source) {
  std::vector<std::unique_ptr<SourceSession>> sessions;
  if (source.kind == "azure") sessions.push_back(std::make_unique<AzureSession>(source.node));
  if (source.kind == "aws") sessions.push_back(std::make_unique<AwsSession>());
  if (source.kind == "gcp") {
    // A wait for the one value must not delay the other.
    sessions.push_back(std::make_unique<GcpSession>(GcpValue::kMaintenanceEvent));
    sessions.push_back(std::make_unique<GcpSession>(GcpValue::kPreempted));
  }
  if (source.kind == "kubernetes") {
    sessions.push_back(std::make_unique<KubernetesSession>(source.node, source.token_file));
  }
  return sessions;
}

Status UnexpectedStatus(const SourceRequest& request, const SourceAnswer& answer) {
  if (answer.status >= 300 && answer.status < 400) {
    return RemoteError("{} was answered with a redirect (status {}), which is not followed",
                       request.target, answer.status);
  }
  return RemoteError("{} was answered with status {}", request.target, answer.status);
}

}  // namespace harmonaize::daemon
