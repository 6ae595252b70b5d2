#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/identity/tenant_identity.h"
#include "daemon/promises/record_store.h"
#include "daemon/sources/cloud_notice.h"
#include "src/events/event_type.h"

namespace harmonaize::daemon {

/// The source of what operators announce.
inline constexpr char kOperatorSource[] = "operator";
/// Begins the ids of what a drain announces; no other announcement has such an id.
inline constexpr char kDrainPrefix[] = "drain-";

/// Returns whether a notice is of a drain after which nothing happens to jobs: the daemon waits for
/// them, and does not restart.
bool IsPlainDrain(const CloudNotice& notice);

/// Returns whether a notice says that something holds, rather than that it begins at a time: it is
/// told and may be answered, but promises nothing.
bool IsCondition(CloudNotice::Kind kind);

/// A promise of time before something happens to this host, and what became of it. What jobs may
/// answer without anything being promised has one, too.
struct Promise {
  uint64_t number = 0;  ///< Grows from one promise to the next.
  std::string source;
  std::string id;
  CloudNotice::Kind kind = CloudNotice::Kind::kMaintenance;
  double announced_seconds = 0;  ///< Since 1970.
  /// The latest time before which it was promised not to begin; 0: none was said. An earlier time
  /// that is said afterwards does not take the promise back.
  double promised_from_seconds = 0;
  /// The time that was said last; 0: nobody knows it.
  double announced_for_seconds = 0;
  double began_seconds = 0;  ///< When it began; 0: it has not, or nobody knows.
  double ended_seconds = 0;  ///< When it was over or called off; 0: not yet.
  bool withdrawn = false;
  /// It began when no job was left that it could have harmed, which may be early.
  bool nobody_left = false;

  /// Returns whether the promise was kept; nullopt where none was made, or it has not begun. One
  /// that is announced for an earlier time now than was promised is broken for as long as it is.
  std::optional<bool> kept() const;

  /// Returns whether nothing was ever promised by it.
  bool is_empty() const;

  bool operator==(const Promise&) const = default;
};

/// An event with a deadline that a job was told, and the tenant's answer.
struct ToldNotice {
  std::string job;      ///< The job's id.
  uint64_t unique = 0;  ///< Event::unique.
  TenantIdentity tenant;
  EventType type = EventType::kMaintenanceScheduled;
  uint64_t promise = 0;             ///< Promise::number; 0: none of this host's.
  bool began_here = true;           ///< Otherwise another daemon made the event.
  std::vector<int32_t> ranks = {};  ///< Up to kMostKeptRanks of those that it concerns.
  uint64_t ranks_unlisted = 0;      ///< How many it concerns besides.
  double told_seconds = 0;          ///< Since 1970, as all of these.
  double deadline_seconds = 0;      ///< 0: nobody knows.
  double acknowledged_seconds = 0;  ///< 0: it was not.
  double asked_seconds = 0;         ///< When more time was asked for; 0: it was not.
  double asked_until_seconds = 0;
  uint64_t replaced_by = 0;  ///< Event::unique of the event that took its place; 0: none did.

  /// Returns the event's id, as CloudEvents has it.
  std::string event_id() const;
  /// Returns whether the last answer says that the job is ready.
  bool is_ready() const {
    return acknowledged_seconds != 0 && acknowledged_seconds >= asked_seconds;
  }
  /// Returns whether the last answer asks for more time.
  bool asks_for_more() const { return asked_seconds != 0 && !is_ready(); }
};

/// Most ranks that are kept of a notice. They bound a record; the event has them all.
inline constexpr size_t kMostKeptRanks = 256;

/// The kinds of the records.
inline constexpr char kPromiseRecord[] = "promise";
inline constexpr char kToldRecord[] = "told";

Record RecordOf(const Promise& promise);
Record RecordOf(const ToldNotice& told);
/// These return nullopt for a record that no RecordOf has made.
std::optional<Promise> PromiseIn(const Record& record);
std::optional<ToldNotice> ToldNoticeIn(const Record& record);

/// Returns the notice as a record, and the notice of a record.
Record RecordOf(const CloudNotice& notice);
std::optional<CloudNotice> NoticeIn(const Record& record);
inline constexpr char kNoticeRecord[] = "notice";

}  // namespace harmonaize::daemon
