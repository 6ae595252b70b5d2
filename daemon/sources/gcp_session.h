#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/sources/source_session.h"

namespace harmonaize::daemon {

/// The values of GCP's metadata server that announce something.
enum class GcpValue : uint8_t { kMaintenanceEvent, kPreempted };

/// Asks GCP's metadata server for a value and then, with the ETag of the answer, to answer when the
/// value has changed, or after kGcpWaitSeconds. What changes between two such requests is not
/// missed, since the ETag is then another. After a failure it asks without waiting.
class GcpSession final : public SourceSession {
 public:
  explicit GcpSession(GcpValue value) : value_(value) {}
  std::string_view name() const override;
  Result<SourceRequest> Begin() override;
  Result<SourceStep> Take(const SourceAnswer& answer) override;

 private:
  const GcpValue value_;
  std::string etag_;  // of the last answer; "": none that can be used
  SourceRequest asked_;
};

/// How long the server may wait for a change, in seconds: short of the times after which firewalls
/// forget connections that are silent.
inline constexpr int64_t kGcpWaitSeconds = 60;

}  // namespace harmonaize::daemon
