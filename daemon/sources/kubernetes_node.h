#pragma once

#include <string>
#include <string_view>

#include "daemon/sources/published_notices.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Translates the object of a Kubernetes node: its conditions, its taints, whether it is cordoned,
/// and whether it is being deleted. What is in neither of the tables in kubernetes_node.cc is left
/// out, since only who invented a condition or taint knows what it means. Errors: kRemoteError for
/// a text that is not the object of the node `name`.
Result<PublishedNotices> ReadKubernetesNode(std::string_view document, const std::string& name);

}  // namespace harmonaize::daemon
