#pragma once

#include <string>
#include <string_view>

#include "daemon/sources/source_session.h"

namespace harmonaize::daemon {

/// Asks a Kubernetes API server for the object of this host's node, with the token of a service
/// account that may `get` it. The token is read anew for each poll, since Kubernetes replaces it.
class KubernetesSession final : public SourceSession {
 public:
  KubernetesSession(std::string node, std::string token_file)
      : node_(std::move(node)), token_file_(std::move(token_file)) {}
  std::string_view name() const override { return "kubernetes"; }
  Result<SourceRequest> Begin() override;
  Result<SourceStep> Take(const SourceAnswer& answer) override;

 private:
  const std::string node_;
  const std::string token_file_;
  SourceRequest asked_;
};

}  // namespace harmonaize::daemon
