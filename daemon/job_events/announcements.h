#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/communicator/communicator_observer.h"
#include "daemon/job_events/job_events.h"
#include "daemon/promises/promise.h"
#include "daemon/runtime/lifetime.h"
#include "daemon/sources/cloud_notice.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

class EventLoop;
class JobCommunicators;
class PromiseBook;
class RecordKeeper;

/// What an operator says of an announcement. What is left out stays as it was, or has its default.
struct NoticeUpdate {
  std::string id = {};      ///< Of an announcement that exists; "": a new one.
  std::string new_id = {};  ///< The id that a new one gets; "": it is drawn.
  std::optional<CloudNotice::Kind> kind = {};
  std::optional<CloudNotice::State> state = {};
  std::optional<int64_t> not_before_seconds = {};  ///< Since 1970.
  bool time_is_unknown = false;                    ///< Takes back not_before_seconds.
  std::optional<int64_t> duration_seconds = {};
  std::optional<bool> survives = {};
  std::optional<std::string> text = {};
  /// Whether it may begin, or be announced to begin, before the time that jobs were promised.
  bool early = false;
};

/// Returns whether a text can be the id that an operator chooses: lower case letters, digits and
/// "-", at most kMostNoticeIdBytes of them, and not the beginning of a drain's.
bool IsChosenId(std::string_view id);

/// Returns whether the time of something that operators announced has passed without anybody saying
/// that it began. Clouds say themselves what has become of theirs. A condition is never overdue.
bool IsOverdue(const CloudNotice& notice);

/// What is announced for this host, by clouds or by its operators, and which jobs have been told.
/// All jobs that have ranks here hear of it, at all of their hosts, some at a time, so that the
/// engine serves others in between. A job that comes later hears of it when it comes, unless it is
/// overdue. What operators announce outlives the daemon; what clouds announce they say again to the
/// next one. Thread: engine.
class Announcements final : public CommunicatorObserver {
 public:
  /// All of these outlive this object.
  struct Services {
    JobEvents* events = nullptr;
    const JobCommunicators* by_job = nullptr;
    PromiseBook* book = nullptr;
    RecordKeeper* keeper = nullptr;
    EventLoop* loop = nullptr;
  };

  explicit Announcements(const Services& services);

  /// Takes in what operators announced to earlier daemons.
  void Restore();

  /// Takes in what is new of a notice, and tells the jobs, the first of them at once. Errors:
  /// kInvalidUsage if there are kMostNotices, or for news that end what has not begun.
  Status Take(const CloudNotice& notice);
  /// Does so with what an operator says, and returns the whole notice. Errors: those of Take;
  /// kInvalidUsage for an id that does not exist, or exists already, for the notice of a drain, for
  /// what begins, or is to begin, before its promised time and is not said to, and for what ends
  /// and never began; kInvalidArgument for a time that has passed.
  Result<CloudNotice> Update(const NoticeUpdate& update);

  /// Sets who hears what jobs are told: the notice, and the job's ranks here.
  using Listener =
      std::function<void(Job& job, const CloudNotice& notice, const std::vector<int32_t>& ranks)>;
  void SetListener(Listener listener) { listener_ = std::move(listener); }

  /// Something that holds now or is to come.
  struct Active {
    CloudNotice notice;
    uint64_t promise = 0;  ///< Promise::number; 0: it promises nothing.
  };
  std::vector<Active> All() const;

  /// Most notices at a time: a host has a handful.
  static constexpr size_t kMostNotices = 64;

  void OnFormed(const Communicator& communicator, int hosts) override;
  void OnEnded(const Communicator& communicator) override;

 private:
  struct Entry {
    CloudNotice notice;
    uint64_t promise = 0;
    std::set<const Job*> told = {};   ///< Jobs on this host that know its present state.
    std::set<const Job*> heard = {};  ///< Jobs on this host that know some state of it.
  };
  using Key = std::pair<std::string, std::string>;  ///< Source and id.
  /// A job that is to hear of a notice. Either may have ended meanwhile.
  struct Telling {
    std::shared_ptr<Entry> entry;
    Job* job = nullptr;
  };

  Result<CloudNotice> NoticeFor(const NoticeUpdate& update) const;
  Status CheckChange(const CloudNotice& before, const CloudNotice& after,
                     const NoticeUpdate& update) const;
  double PromisedFrom(const CloudNotice& notice) const;
  Status CheckPromise(const CloudNotice& before, const CloudNotice& after) const;
  void Keep(const CloudNotice& notice);
  // Jobs that came when the notice was overdue stay without news of it until it begins.
  void TellJobs(const std::shared_ptr<Entry>& entry, bool is_new);
  void TellSome();
  // A job that a tenant begins counts as one of the events that a tenant can cause.
  void TellOnce(Entry& entry, Job& job, bool caused_by_tenant = false);

  const Services services_;
  // Shared, since the jobs that are to hear of the end of something may still wait for it.
  std::map<Key, std::shared_ptr<Entry>> notices_;
  std::deque<Telling> to_tell_;
  Listener listener_;
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
