#pragma once

#include "daemon/identity/tenant_identity.h"
#include "src/events/event.h"

namespace harmonaize::daemon {

/// Takes the events that begin at this daemon to where subscribers outside of its hosts hear them.
/// Thread: any. Neither call waits for anybody.
class EventPublisher {
 public:
  virtual ~EventPublisher() = default;

  /// Publishes an event of a tenant's job.
  virtual void Publish(const TenantIdentity& tenant, const Event& event) = 0;
  /// Publishes an event that is for operators alone.
  virtual void PublishToOperators(const Event& event) = 0;
};

}  // namespace harmonaize::daemon
