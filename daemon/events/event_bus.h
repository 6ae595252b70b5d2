#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/events/event_channel.h"
#include "daemon/identity/tenant_identity.h"
#include "daemon/quota/rate_table.h"
#include "daemon/runtime/background.h"
#include "src/base/status.h"
#include "src/events/event.h"

namespace harmonaize::daemon {

class EventPublisher;

/// Where an event has begun. It is published outside of the hosts by that daemon alone.
enum class EventOrigin { kHere, kAnotherDaemon };

/// Whose events a reader may hear: one tenant's, or all.
struct EventReader {
  TenantIdentity tenant;
  bool is_operator = false;
};

/// Keeps events and tells them to subscribers, on a thread of its own. Tenants take turns there, so
/// one that has much to say does not keep the others waiting. Each tenant has a log of its own, and
/// so have the operators, who hear everything, but for what a tenant causes beyond its share of
/// their log. Thread: any.
class EventBus {
 public:
  struct Options {
    std::string folder = {};  ///< For the logs; "": they are kept in memory.
    EventRetention retention = {};
    std::function<int64_t()> now_seconds;  ///< The time since 1970, which tests inject.
    /// Gets the events that begin at this daemon; outlives the bus. nullptr: nobody gets them.
    EventPublisher* publisher = nullptr;
  };

  /// Makes the folder, which only the daemon's user can read. Errors: kSystemError if the folder
  /// cannot be used.
  static Result<std::unique_ptr<EventBus>> Create(Options options);
  /// Drops what waits.
  ~EventBus();

  /// Keeps an event of a tenant's job, and tells it to the tenant's and the operators' subscribers.
  /// An event that the tenant has heard of before is dropped. Of a tenant that has too many waiting
  /// the event is dropped, too, and the log says so.
  void Publish(const TenantIdentity& tenant, Event event, EventOrigin origin = EventOrigin::kHere);
  /// Does so with an event of this daemon that is for operators alone.
  void PublishToOperators(Event event);

  /// Waits until what was posted is done, for no longer than this.
  void Flush(std::chrono::milliseconds within);

  /// What becomes of an order.
  struct Subscribing {
    /// Called if the order holds; returns where the events go. Thread: the bus's.
    std::function<EventSink()> open;
    /// Called otherwise, with kInvalidArgument. Thread: the bus's.
    std::function<void(const Status&)> refuse;
  };
  /// Returns the number for a new subscription.
  uint64_t NextSubscription() { return next_subscription_.fetch_add(1, std::memory_order_relaxed); }
  /// Begins the subscription of this number.
  void Subscribe(const EventReader& reader, uint64_t subscription, EventOrder order,
                 Subscribing calls);
  /// Goes on with a subscriber whose sink could take no more.
  void Resume(const EventReader& reader, uint64_t subscription);
  void Unsubscribe(const EventReader& reader, uint64_t subscription);

  /// What has become of events and subscribers since the bus was made.
  struct Counters {
    std::vector<uint64_t> published;  ///< By EventType: events that tenants or operators heard of.
    uint64_t repeated = 0;            ///< Dropped, since the tenant had heard of them before.
    uint64_t dropped = 0;             ///< Dropped, since too many of the tenant waited.
    uint64_t unshared = 0;            ///< Told to the tenant alone, which had used up its share.
    uint64_t waiting = 0;             ///< Events that wait to be kept now.
    uint64_t subscribers = 0;         ///< Subscriptions that are open now.
  };
  Counters counters();

  /// Reads a page of up to `most` events, and calls `done` with it on the bus's thread.
  void Read(const EventReader& reader, EventOrder order, size_t most,
            std::function<void(const Result<EventChannel::Page>&)> done);

 private:
  /// A channel, and when it was last used.
  struct Opened {
    std::unique_ptr<EventChannel> channel;
    uint64_t used = 0;
    std::chrono::steady_clock::time_point used_at = {};
    bool in_file = false;
  };

  explicit EventBus(Options options);

  Status Open();
  void Post(const TenantIdentity& tenant, std::function<void(EventChannel&)> call);
  bool CountedAdd(EventChannel& channel, const Event& event);
  void Keep(const TenantIdentity& tenant, const Event& event, EventOrigin origin);
  bool MayFillMore(const TenantIdentity& tenant, const Event& event);
  void PostFor(const EventReader& reader, std::function<void(EventChannel&)> call);
  EventChannel& ChannelOf(const TenantIdentity& tenant);
  void OpenChannel(const TenantIdentity& tenant, Opened* opened);
  void CloseLeastUsed();
  void CloseIdle();
  void RunJanitor();
  void CountSubscribers(EventChannel& channel, size_t before);

  const Options options_;
  std::string tag_;         ///< Of the folder.
  std::string memory_tag_;  ///< Of the logs in memory, whose places end with the daemon.
  std::atomic<uint64_t> next_subscription_{1};
  std::mutex mutex_;
  std::map<uint32_t, size_t> waiting_;  // guarded by mutex_; events by tenant
  bool any_open_ = false;               // guarded by mutex_; a log in a file is open
  bool ending_ = false;                 // guarded by mutex_
  std::condition_variable janitor_woken_;
  std::vector<std::atomic<uint64_t>> published_ =
      std::vector<std::atomic<uint64_t>>(EventTypes().size());  // by EventType
  std::atomic<uint64_t> repeated_{0};
  std::atomic<uint64_t> dropped_{0};
  std::atomic<uint64_t> unshared_{0};
  std::atomic<uint64_t> subscribers_{0};
  // Used on the bus's thread alone.
  std::map<uint32_t, Opened> channels_;  // by TenantIdentity::number
  uint64_t uses_ = 0;
  RateTable shares_;         ///< Of the operators' log, in bytes.
  RateTable share_notices_;  ///< How often the log says that a share is used up.
  // Declared last: their calls use all of these.
  std::unique_ptr<Background> thread_;
  std::thread janitor_;  ///< Has logs closed that nobody uses; it sleeps while none is open.
};

}  // namespace harmonaize::daemon
