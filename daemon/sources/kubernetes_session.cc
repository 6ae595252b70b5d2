#include "daemon/sources/kubernetes_session.h"

#include <algorithm>

#include "daemon/sources/kubernetes_node.h"
#include "src/base/small_file.h"

namespace harmonaize::daemon {
namespace {

/// Longest token, in bytes. Those of service accounts have about 1,000.
constexpr size_t kMostKubernetesTokenBytes = 16 << 10;

/// Returns the token in the file, without white space around it. It becomes a header.
Result<std::string> ReadToken(const std::string& path) {
  HZ_ASSIGN_OR_RETURN(std::string token, ReadSmallFile(path, kMostKubernetesTokenBytes));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  const bool is_token = !token.empty() && std::all_of(token.begin(), token.end(), [](char one) {
    return one > ' ' && one < '\x7f';
  });
  if (!is_token) return InvalidUsage("{} holds no token", path);
  return token;
}

}  // namespace

Result<SourceRequest> KubernetesSession::Begin() {
  HZ_ASSIGN_OR_RETURN(const std::string token, ReadToken(token_file_));
  asked_ = SourceRequest{};
  asked_.target = "/api/v1/nodes/" + node_;
  asked_.headers = {{"Accept", "application/json"}, {"Authorization", "Bearer " + token}};
  asked_.most_body_bytes = kMostNodeBytes;
  return asked_;
}

Result<SourceStep> KubernetesSession::Take(const SourceAnswer& answer) {
  if (answer.status == 401 || answer.status == 403) {
    return RemoteError(
        "the server refuses the token in {} (status {}); its service account needs the verb get on "
        "nodes",
        token_file_, answer.status);
  }
  if (answer.status == 404) {
    return RemoteError(
        "the cluster has no node {}; 'node' is to name this host as `kubectl get "
        "nodes` does",
        node_);
  }
  if (answer.status != 200) return UnexpectedStatus(asked_, answer);
  SourceStep step;
  HZ_ASSIGN_OR_RETURN(step.published, ReadKubernetesNode(answer.body, node_));
  return step;
}

}  // namespace harmonaize::daemon
