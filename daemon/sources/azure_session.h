#pragma once

#include <string>
#include <string_view>

#include "daemon/sources/source_session.h"

namespace harmonaize::daemon {

/// Asks Azure's metadata service for the scheduled events, after it has asked once for this
/// machine's name, unless that is configured. The first request ever enables the events for the
/// machine, and Azure may take two minutes to answer; until then requests run out of time.
class AzureSession final : public SourceSession {
 public:
  explicit AzureSession(std::string host) : host_(std::move(host)) {}
  std::string_view name() const override { return "azure"; }
  Result<SourceRequest> Begin() override;
  Result<SourceStep> Take(const SourceAnswer& answer) override;

 private:
  std::string host_;  // this machine as events name it; "": not known yet
  SourceRequest asked_;
};

}  // namespace harmonaize::daemon
