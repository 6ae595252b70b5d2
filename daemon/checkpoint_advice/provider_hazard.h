#pragma once

#include <cstddef>

#include "daemon/checkpoint_advice/hazard.h"
#include "daemon/promises/record_store.h"

namespace harmonaize::daemon {

class PromiseBook;

/// What this daemon has seen fail of what is the provider's: hosts, links, and its own host's
/// notices. Nothing that a tenant does counts. Thread: engine.
class ProviderHazard {
 public:
  /// Notes how many other hosts were in sight until now. Times are of the monotonic clock, in
  /// seconds.
  void Watch(size_t hosts, double now_seconds);
  void NoteHostLost() { hosts_.events += 1; }
  /// Notes that a link is cut. One that slows many communicators down is noted once.
  void NoteLinkCut(double now_seconds);

  /// Returns what was seen. `book` knows how promises were kept.
  SeenByCause Seen(const PromiseBook& book) const;

  /// Returns it as a record; and takes one in. Returns whether RecordOf has made it.
  Record Kept() const;
  bool TakeKept(const Record& record);

  static constexpr char kRecord[] = "hazard";

 private:
  SeenFailures hosts_;
  SeenFailures links_;
  double own_seconds_ = 0;  // for which this host was watched
  double watched_seconds_ = -1;
  double cut_seconds_ = -1;
};

}  // namespace harmonaize::daemon
