#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/sources/cloud_notice.h"
#include "daemon/sources/published_notices.h"

namespace harmonaize::daemon {

/// The notices of one source that are not over, and thereby what is new in what it publishes. A
/// ledger holds no more than kMostNoticesOfASource. Thread: one at a time.
class NoticeLedger {
 public:
  /// Takes what the source publishes now and returns what is new: notices that appeared, changed or
  /// ended. A change of the text alone is no news, nor is a step back from kStarted to kScheduled.
  ///
  /// A notice that is published no more has ended as the source says, if it does. Otherwise it is
  /// completed if it had started, was approved, or its time has come, and what
  /// PublishedNotices::missing says if it has no time; else it is withdrawn.
  std::vector<CloudNotice> Update(const PublishedNotices& published, int64_t now_seconds);

  /// Returns the notice of this id that is not over, or nullptr.
  const CloudNotice* Find(const std::string& id) const;
  /// Notes that the cloud was told to begin with this notice: if it is missing next, it has
  /// happened.
  void SetApproved(const std::string& id);
  size_t size() const { return known_.size(); }
  /// Number of notices that the last Update did not take: there are too many, or another notice has
  /// the id.
  size_t left_out() const { return left_out_; }

 private:
  struct Known {
    CloudNotice notice;
    bool approved = false;
  };

  void TakePublished(const PublishedNotices& published, int64_t now_seconds,
                     std::vector<CloudNotice>* news);
  void EndMissing(const PublishedNotices& published, int64_t now_seconds,
                  std::vector<CloudNotice>* news);

  std::map<std::string, Known> known_;  // by the id that the source publishes
  size_t left_out_ = 0;
};

}  // namespace harmonaize::daemon
