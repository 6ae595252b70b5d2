#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "daemon/job_events/announcements.h"
#include "daemon/runtime/loop_timer.h"
#include "daemon/sources/cloud_notice.h"

namespace harmonaize::daemon {

class EventLoop;
class JobCommunicators;
class PromiseBook;
class SessionTable;
struct Job;

/// Finds out whether all that run on this host agree to a notice. Jobs agree by acknowledging it. A
/// program without communicators belongs to no job that could be asked, so there is no agreement
/// while one is connected whose tenant has no agreeing job, or while ranks wait for others to form
/// a communicator. Thread: engine.
class NoticeAgreement {
 public:
  /// All of these outlive this object.
  struct Services {
    const Announcements* announcements = nullptr;
    const JobCommunicators* by_job = nullptr;
    const SessionTable* sessions = nullptr;
    const PromiseBook* book = nullptr;
    EventLoop* loop = nullptr;
  };
  /// Whose agreement is looked for, and who hears of it.
  struct Policy {
    std::string source;  ///< CloudNotice::source; "": nobody's.
    /// How long all have to agree before it counts: programs go from one communicator to the next,
    /// or connect, meanwhile.
    std::chrono::seconds lasts{30};
    /// Called once for each notice that is still to come and concerns this host alone.
    std::function<void(const CloudNotice&)> on_agreement = {};
  };

  explicit NoticeAgreement(const Services& services)
      : services_(services), next_look_(services.loop) {}
  NoticeAgreement(const NoticeAgreement&) = delete;
  NoticeAgreement& operator=(const NoticeAgreement&) = delete;

  void SetPolicy(Policy policy) { policy_ = std::move(policy); }
  /// Looks at what a tenant has answered, and from then on every second for as long as a notice of
  /// the source has been acknowledged by some and not been agreed to.
  void OnAnswer();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct State {
    CloudNotice notice;
    Time since{};  ///< When all began to agree.
    bool agreed = false;
    bool told = false;  ///< on_agreement has been called.
  };

  // Returns whether there is something to look at again.
  bool Look();
  bool IsCandidate(const CloudNotice& notice) const;
  bool AnyAgrees(const Announcements::Active& active) const;
  bool AllAgree(const Announcements::Active& active) const;

  const Services services_;
  Policy policy_;
  std::map<std::string, State> states_;  ///< By the notice's id.
  LoopTimer next_look_;
};

}  // namespace harmonaize::daemon
