#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/sources/cloud_notice.h"

namespace harmonaize::daemon {

/// Most notices of one source that are looked at. A cloud has a handful for a host at a time.
inline constexpr size_t kMostNoticesOfASource = 64;

/// A notice that a source publishes.
struct PublishedNotice {
  CloudNotice notice;
  /// Whether a later notice will have the same id, because the source gives no id and no time. The
  /// ledger then adds the time at which it first saw this one.
  bool id_recurs = false;

  bool operator==(const PublishedNotice&) const = default;
};

/// All that a source publishes at one time.
struct PublishedNotices {
  /// No more than kMostNoticesOfASource, each id once; the states are kScheduled or kStarted.
  std::vector<PublishedNotice> notices = {};
  /// How notices have ended of which the source itself says so: kCompleted or kWithdrawn, by id.
  std::map<std::string, CloudNotice::State> ended = {};
  /// What has become of a scheduled notice without a time that is published no more, where the
  /// source does not say.
  CloudNotice::State missing = CloudNotice::State::kWithdrawn;
  /// The first thing that was not understood, clean, for the log; "": all was. While there is a
  /// doubt, a notice that is missing does not count as gone.
  std::string doubt = {};

  /// Keeps the first doubt, made clean.
  void Doubt(std::string_view what);
  /// Adds a notice, with its text made clean and cut. A doubt is left instead for an id that is
  /// unclean, too long or there already, and for a notice above kMostNoticesOfASource.
  void Add(PublishedNotice published);
};

}  // namespace harmonaize::daemon
