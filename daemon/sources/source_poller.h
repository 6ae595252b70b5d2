#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/sources/cloud_notice.h"
#include "daemon/sources/poll_pace.h"
#include "daemon/sources/source_lane.h"
#include "daemon/sources/sources_config.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// How one source is.
struct SourceReport {
  std::string name;  ///< What is polled, such as "aws" or "gcp's preempted".
  SourceHealth health = SourceHealth::kNotAsked;
};

/// Polls the configured sources, on one thread, `hz-sources`, and passes on what is new. A source
/// that fails is asked again after pauses that double, up to five minutes. What a source said last
/// holds until it says something else: a source that is silent withdraws nothing.
class SourcePoller {
 public:
  using OnNotice = SourceLane::OnNotice;

  /// Starts the thread; the first polls begin at once. `on_notice` is called on that thread; an
  /// exception of it is logged. Errors: kInvalidArgument of ValidateSources; kSystemError or
  /// kInternalError for what could not be made.
  static Result<std::unique_ptr<SourcePoller>> Start(const SourcesConfig& config,
                                                     OnNotice on_notice, PollPace pace = {});
  /// As Stop.
  ~SourcePoller();
  SourcePoller(const SourcePoller&) = delete;
  SourcePoller& operator=(const SourcePoller&) = delete;

  /// Ends what is under way, whatever the servers do, and waits for the thread. Afterwards nothing
  /// is called any more. Thread: one at a time, but not a callback's.
  void Stop();

  /// Tells Azure that it may begin with the scheduled event `id` at once, instead of at its time.
  /// That is no acknowledgement of one tenant's: the whole machine pauses, reboots or goes, with
  /// all who are on it, and so do other machines that the event names. It is for policy that speaks
  /// for all of them. `done` is called on the poller's thread, or on this one after Stop. Errors:
  /// kInvalidUsage where there is no such event; kRemoteError if Azure does not accept it;
  /// kUnavailable after Stop. Thread: any.
  void Approve(const std::string& id, std::function<void(Status)> done);

  /// Returns how the sources are, in the order of the configuration; GCP has two entries. Thread:
  /// any.
  std::vector<SourceReport> Report() const;

 private:
  struct Loop;

  explicit SourcePoller(std::unique_ptr<Loop> loop);
  void Run() noexcept;
  void Publish();
  Status PostApproval(const std::string& id, const std::function<void(Status)>& done);

  const std::unique_ptr<Loop> loop_;
  mutable std::mutex mutex_;
  bool stopping_ = false;             // guarded by mutex_
  std::vector<SourceReport> report_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace harmonaize::daemon
