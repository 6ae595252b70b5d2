#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/communicator/communicator_observer.h"
#include "daemon/identity/job_identity.h"
#include "daemon/job_events/job_events.h"
#include "daemon/sources/cloud_notice.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

class CommunicatorRegistry;

/// What is announced for this host, by clouds or by its operators, and which jobs have been told.
/// All jobs that have ranks here hear of it, at all of their hosts; a job that comes later hears of
/// it when it comes. Thread: engine.
class Announcements final : public CommunicatorObserver {
 public:
  /// All of these outlive this object.
  struct Services {
    JobEvents* events = nullptr;
    const CommunicatorRegistry* communicators = nullptr;
  };

  explicit Announcements(const Services& services) : services_(services) {}

  /// Takes in what is new of a notice, and tells the jobs. Errors: kInvalidUsage if there are
  /// kMostNotices, or for news that end what has not begun.
  Status Take(const CloudNotice& notice);

  /// A promise of time before something happens, and what became of it.
  struct Promise {
    std::string source;
    std::string id;
    CloudNotice::Kind kind = CloudNotice::Kind::kMaintenance;
    double announced_seconds = 0;      ///< Since 1970.
    double promised_from_seconds = 0;  ///< When it was to begin at the earliest; 0: was not said.
    double began_seconds = 0;          ///< When it began; 0: it has not, or nobody knows.
    bool withdrawn = false;
  };
  /// The last promises, the newest last.
  const std::vector<Promise>& promises() const { return promises_; }
  /// What holds now or is to come.
  std::vector<CloudNotice> Active() const;

  /// Most notices at a time: a host has a handful.
  static constexpr size_t kMostNotices = 64;
  /// Most promises that are remembered.
  static constexpr size_t kMostPromises = 256;

  void OnFormed(const Communicator& communicator, int hosts) override;
  void OnEnded(const Communicator& communicator) override;

 private:
  struct Entry {
    CloudNotice notice;
    std::set<const Job*> told;  ///< Jobs on this host that know its present state.
  };
  using Key = std::pair<std::string, std::string>;  ///< Source and id.

  void TellJobOf(const Communicator& communicator);
  void Tell(const CloudNotice& notice, Job& job);
  void NotePromise(const CloudNotice& notice);
  std::vector<int32_t> RanksHereOf(const Job& job) const;

  const Services services_;
  std::map<Key, Entry> notices_;
  std::vector<Promise> promises_;
};

}  // namespace harmonaize::daemon
