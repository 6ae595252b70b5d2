#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "daemon/promises/record_store.h"
#include "daemon/runtime/loop_timer.h"
#include "daemon/sources/cloud_notice.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

class Announcements;
class CommunicatorRegistry;
class EventLoop;
class JobEvents;
class Membership;
class PromiseBook;
class RecordKeeper;
class WaitingCount;

/// Longest reason that an operator gives for a drain, in bytes: a line that people read.
inline constexpr size_t kMostReasonBytes = 160;

/// Empties this host of jobs without ending any that ends in time. A daemon that drains refuses
/// communicators to processes that have none, and tells the jobs here. It is drained once no
/// communicator is left, or the deadline has passed; it then restarts if it is to. A drain outlives
/// the daemon, but for one that was to restart it: a daemon that starts has restarted. Thread:
/// engine.
class Drain {
 public:
  /// All of these outlive this object.
  struct Services {
    Announcements* announcements = nullptr;
    Membership* membership = nullptr;
    const CommunicatorRegistry* communicators = nullptr;
    const WaitingCount* waiting = nullptr;
    JobEvents* events = nullptr;
    PromiseBook* book = nullptr;
    RecordKeeper* keeper = nullptr;
    EventLoop* loop = nullptr;
    /// Has the daemon end and start anew. Called once, on the engine's thread.
    std::function<void()> restart = {};
  };

  explicit Drain(Services services) : services_(std::move(services)), next_look_(services_.loop) {}
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

  /// Goes on with what an earlier daemon began, and tells of a restart that has taken place.
  void Restore();

  struct Order {
    std::optional<int64_t> deadline_seconds = {};  ///< Since 1970; none: as long as jobs take.
    std::string reason = {};                       ///< Clean, one line; "": none was given.
    bool restart = false;                          ///< Once drained.
  };
  /// What an operator says of a drain. What is left out stays as it is, or has Order's default.
  struct Change {
    std::optional<int64_t> deadline_seconds = {};
    bool no_deadline = false;  ///< Takes back the deadline.
    std::optional<std::string> reason = {};
    std::optional<bool> restart = {};
  };
  /// Begins to drain, or changes the drain under way. Errors: kInvalidUsage if the daemon restarts
  /// already, or cannot announce any more; kSystemError without a timer.
  Status Begin(const Change& change);
  /// Takes communicators again. Without a drain nothing happens. Errors: kInvalidUsage if the
  /// daemon restarts already.
  Status Cancel();

  enum class State : uint8_t { kServing, kDraining, kDrained, kRestarting };
  State state() const;
  const Order& order() const { return order_; }
  /// The id of what jobs were told; "": it does not drain.
  const std::string& id() const { return id_; }
  double since_seconds() const { return since_seconds_; }  ///< Since 1970; 0: it does not drain.
  /// Number of communicators that the drain before this daemon left, which ended with its restart;
  /// nullopt: this daemon did not start that way.
  std::optional<uint64_t> left_at_restart() const { return left_at_restart_; }

 private:
  /// Time between looks at what a drain waits for. The last communicator's end and the deadline are
  /// noticed within it.
  static constexpr std::chrono::milliseconds kLookEvery{200};

  Status Watch() {
    return next_look_.Start(kLookEvery, [this] { Look(); });
  }
  void Look();
  void Forget();
  bool IsEmpty() const;
  bool IsOverdue() const;
  CloudNotice Notice(CloudNotice::State state) const;
  void Refuse();
  void Keep() const;
  void EndRestart(double stopped_seconds);
  void TellOfRestart(uint64_t promise, double took_seconds);
  void Announce(CloudNotice::State state);

  const Services services_;
  LoopTimer next_look_;
  Order order_;
  std::string id_;  ///< Of the announcement; "": it does not drain.
  double since_seconds_ = 0;
  bool restarting_ = false;
  std::optional<uint64_t> left_at_restart_;
};

/// Returns "serving", "draining", "drained" or "restarting".
const char* NameOf(Drain::State state);

}  // namespace harmonaize::daemon
