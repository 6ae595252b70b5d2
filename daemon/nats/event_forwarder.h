#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/events/event_publisher.h"
#include "daemon/nats/event_outbox.h"
#include "daemon/nats/nats_link.h"
#include "daemon/nats/outbox_file.h"

namespace harmonaize::daemon {

/// Publishes events to NATS, on a thread of its own. While no server takes them they wait in an
/// EventOutbox, and are sent later in the same order; the log says when that begins and ends, and
/// how many had to be given up. An event of which it is unknown whether it was taken is sent again,
/// with the same id. Thread: any.
class EventForwarder final : public EventPublisher {
 public:
  struct Options {
    std::string prefix = "harmonaize";  ///< Of all subjects (IsSubjectPrefix).
    EventOutbox::Limits limits = {};
    /// Where a daemon that ends leaves what waits, closed to other users; "": it is dropped.
    std::string folder = {};
    /// The first pause after a failure, in milliseconds. It doubles with each failure up to
    /// `longest_pause_ms`; a host waits up to a quarter less, so that hosts do not come together.
    int64_t first_pause_ms = 100;
    int64_t longest_pause_ms = 15'000;
  };

  /// Publishes first what an earlier forwarder has left in the folder.
  EventForwarder(std::unique_ptr<NatsLink> link, Options options);
  /// Sends what waits for two seconds more if a server takes it, and leaves the rest to the next
  /// forwarder. Waits some seconds at most for the thread, which is left to itself if it is still
  /// within a library then.
  ~EventForwarder() override;
  EventForwarder(const EventForwarder&) = delete;
  EventForwarder& operator=(const EventForwarder&) = delete;

  void Publish(const TenantIdentity& tenant, const Event& event) override;
  void PublishToOperators(const Event& event) override;

  struct Counts {
    uint64_t sent = 0;
    uint64_t given_up = 0;  ///< Too many waited, or no server takes such an event.
    uint64_t waiting = 0;   ///< Including the one that is being sent.
  };
  Counts counts() const;

 private:
  class Worker;

  void Leave(const std::vector<EventOutbox::Entry>& entries) const;

  const Options options_;
  const OutboxFile file_;
  const std::shared_ptr<Worker> worker_;
  std::thread thread_;
};

/// Returns the event as a subscriber outside of this host gets it: a CloudEvent without `sequence`,
/// since each host numbers the events of a job by itself.
std::string PublishedText(const Event& event);

}  // namespace harmonaize::daemon
