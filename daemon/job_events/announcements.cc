#include "daemon/job_events/announcements.h"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/communicator/communicator.h"
#include "daemon/job_events/job_communicators.h"
#include "daemon/job_events/notice_events.h"
#include "daemon/jobs/job_table.h"
#include "daemon/promises/promise_book.h"
#include "daemon/promises/record_keeper.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/guarded.h"
#include "daemon/tenant/tenant.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

bool HasEnded(CloudNotice::State state) {
  return state == CloudNotice::State::kCompleted || state == CloudNotice::State::kWithdrawn;
}

/// Returns whether jobs would be told the same of both.
bool LookAlike(const CloudNotice& a, const CloudNotice& b) {
  // A condition holds from when it is announced.
  const bool both_hold = IsCondition(a.kind) && !HasEnded(a.state) && !HasEnded(b.state);
  return a.kind == b.kind && (a.state == b.state || both_hold) &&
         a.not_before_seconds == b.not_before_seconds && a.duration_seconds == b.duration_seconds &&
         a.survives == b.survives;
}

/// Returns what a line of the log says of a notice's state, between its source and its id.
const char* VerbOf(CloudNotice::State state, bool is_new) {
  switch (state) {
    case CloudNotice::State::kScheduled: return is_new ? "announces" : "changes";
    case CloudNotice::State::kStarted: return "begins with";
    case CloudNotice::State::kCompleted: return "is done with";
    case CloudNotice::State::kWithdrawn: return "calls off";
  }
  return "announces";
}

/// Time, in seconds, by which an announced time may have passed: the clock of the operator's
/// machine may be behind this host's, and "now" takes a moment to arrive.
constexpr double kClocksDifferSeconds = 60;

/// Most jobs that are told before the engine serves others. Each takes up to half a millisecond.
constexpr size_t kToldAtOnce = 8;

}  // namespace

bool IsChosenId(std::string_view id) {
  return !id.empty() && id.size() <= kMostNoticeIdBytes && !id.starts_with(kDrainPrefix) &&
         id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos;
}

bool IsOverdue(const CloudNotice& notice) {
  return notice.source == kOperatorSource && notice.state == CloudNotice::State::kScheduled &&
         !IsCondition(notice.kind) && notice.not_before_seconds.has_value() &&
         static_cast<double>(*notice.not_before_seconds) < UnixSeconds();
}

Announcements::Announcements(const Services& services) : services_(services) {}

// ---------------------------------------------------------------------------------------------
// Announcing

void Announcements::Restore() {
  for (const Record& record : services_.keeper->found()) {
    if (record.kind != kNoticeRecord) continue;
    const std::optional<CloudNotice> notice = NoticeIn(record);
    if (!notice.has_value() || notice->source != kOperatorSource ||
        notices_.size() >= kMostNotices) {
      Log(LogLevel::kWarning, kLogInit, "a kept announcement is not understood, and is removed");
      services_.keeper->Remove(record.kind, record.key);
      continue;
    }
    const uint64_t promise = services_.book->Note(*notice);
    notices_.emplace(Key{notice->source, notice->id},
                     std::make_shared<Entry>(Entry{*notice, promise}));
  }
}

Status Announcements::Take(const CloudNotice& notice) {
  const Key key{notice.source, notice.id};
  auto found = notices_.find(key);
  const bool is_new = found == notices_.end();
  if (is_new) {
    if (HasEnded(notice.state)) {
      return InvalidUsage("nothing is announced under the id '{}', so it cannot end", notice.id);
    }
    if (notices_.size() >= kMostNotices) {
      return InvalidUsage("{} things are announced for this host, which is as many as may be",
                          kMostNotices);
    }
    found = notices_.emplace(key, std::make_shared<Entry>(Entry{notice})).first;
  } else if (!LookAlike(found->second->notice, notice)) {
    found->second->told.clear();
  }
  found->second->notice = notice;
  found->second->promise = services_.book->Note(notice);
  Keep(notice);
  Log(LogLevel::kInfo, kLogInit, "{} {} {} for this host: {}", notice.source,
      VerbOf(notice.state, is_new), notice.id, notice.text);
  TellJobs(found->second, is_new);
  if (HasEnded(notice.state)) notices_.erase(found);
  return Status::Ok();
}

void Announcements::Keep(const CloudNotice& notice) {
  if (notice.source != kOperatorSource) return;
  const Record record = RecordOf(notice);
  if (HasEnded(notice.state)) return services_.keeper->Remove(record.kind, record.key);
  services_.keeper->Put(record);
}

Result<CloudNotice> Announcements::Update(const NoticeUpdate& update) {
  HZ_ASSIGN_OR_RETURN(const CloudNotice before, NoticeFor(update));
  CloudNotice notice = before;
  notice.kind = update.kind.value_or(notice.kind);
  notice.state = update.state.value_or(notice.state);
  if (update.not_before_seconds.has_value()) notice.not_before_seconds = update.not_before_seconds;
  if (update.time_is_unknown) notice.not_before_seconds.reset();
  if (update.duration_seconds.has_value()) notice.duration_seconds = update.duration_seconds;
  notice.survives = update.survives.value_or(notice.survives);
  notice.text = update.text.value_or(notice.text);
  HZ_RETURN_IF_ERROR(CheckChange(before, notice, update));
  HZ_RETURN_IF_ERROR(Take(notice));
  return notice;
}

Result<CloudNotice> Announcements::NoticeFor(const NoticeUpdate& update) const {
  if (update.id.starts_with(kDrainPrefix)) {
    return InvalidUsage("'{}' is a drain: `harmonaize drain` changes it", update.id);
  }
  const auto found = notices_.find(Key{kOperatorSource, update.id});
  if (found != notices_.end()) return found->second->notice;
  if (!update.id.empty()) {
    return InvalidUsage(
        "nothing is announced under the id '{}'; `harmonaize maintenance list` shows what is, and "
        "a "
        "new announcement's id is chosen by --new-id",
        update.id);
  }
  CloudNotice notice;
  notice.source = kOperatorSource;
  notice.id = update.new_id;
  if (notice.id.empty()) {
    notice.id = fmt::format("operator-{:08x}", static_cast<uint32_t>(RandomNumber()));
  }
  if (notices_.contains(Key{kOperatorSource, notice.id})) {
    return InvalidUsage("'{}' is announced already; --id changes it", notice.id);
  }
  return notice;
}

Status Announcements::CheckChange(const CloudNotice& before, const CloudNotice& after,
                                  const NoticeUpdate& update) const {
  if (before.state == CloudNotice::State::kStarted &&
      after.state == CloudNotice::State::kScheduled) {
    return InvalidUsage("'{}' has begun, and cannot be scheduled again", after.id);
  }
  if (before.state == CloudNotice::State::kScheduled &&
      after.state == CloudNotice::State::kCompleted && !IsCondition(after.kind)) {
    return InvalidUsage(
        "'{}' has never begun, so it cannot be over: `harmonaize maintenance cancel {}` calls it "
        "off; if it did take place, start it first",
        after.id, after.id);
  }
  const bool says_when = update.not_before_seconds.has_value();
  if (says_when && after.state == CloudNotice::State::kScheduled &&
      static_cast<double>(*after.not_before_seconds) + kClocksDifferSeconds < UnixSeconds()) {
    return InvalidArgument("{} has passed, so nothing can be announced for then",
                           MomentText(*after.not_before_seconds));
  }
  const bool is_promised = before.state == CloudNotice::State::kScheduled;
  return is_promised && !update.early ? CheckPromise(before, after) : Status::Ok();
}

double Announcements::PromisedFrom(const CloudNotice& notice) const {
  const auto found = notices_.find(Key{notice.source, notice.id});
  if (found == notices_.end()) return 0;
  const Promise* const promise = services_.book->FindPromise(found->second->promise);
  return promise == nullptr ? 0 : promise->promised_from_seconds;
}

Status Announcements::CheckPromise(const CloudNotice& before, const CloudNotice& after) const {
  double promised = PromisedFrom(before);
  if (after.state == CloudNotice::State::kScheduled) {
    const bool is_moved = after.not_before_seconds != before.not_before_seconds;
    if (!is_moved || !after.not_before_seconds.has_value() ||
        static_cast<double>(*after.not_before_seconds) >= promised) {
      return Status::Ok();
    }
    return InvalidUsage(
        "it was promised that '{}' does not begin before {}, so it cannot be announced for {}; "
        "--early breaks the promise",
        after.id, MomentText(static_cast<int64_t>(promised)),
        MomentText(*after.not_before_seconds));
  }
  if (after.state != CloudNotice::State::kStarted) return Status::Ok();
  // Where the promise has been broken already, the time that jobs were told instead holds.
  if (before.not_before_seconds.has_value()) {
    promised = std::min(promised, static_cast<double>(*before.not_before_seconds));
  }
  if (promised <= UnixSeconds() + 1) return Status::Ok();
  return InvalidUsage(
      "it was promised that '{}' does not begin before {}; wait for that, or break the promise "
      "with --early",
      after.id, MomentText(static_cast<int64_t>(promised)));
}

std::vector<Announcements::Active> Announcements::All() const {
  std::vector<Active> active;
  for (const auto& [key, entry] : notices_) active.push_back({entry->notice, entry->promise});
  return active;
}

// ---------------------------------------------------------------------------------------------
// Telling

void Announcements::OnFormed(const Communicator& communicator, int /*hosts*/) {
  if (!communicator.has_ranks_here()) return;
  for (auto& [key, entry] : notices_) {
    if (!IsOverdue(entry->notice)) TellOnce(*entry, *communicator.job(), true);
  }
}

// A job that has no communicators any more may be forgotten. If it comes again it is told again.
void Announcements::OnEnded(const Communicator& communicator) {
  if (communicator.job()->communicators > 1) return;
  for (auto& [key, entry] : notices_) {
    entry->told.erase(communicator.job());
    entry->heard.erase(communicator.job());
  }
}

void Announcements::TellJobs(const std::shared_ptr<Entry>& entry, bool is_new) {
  const bool to_all = is_new || !IsOverdue(entry->notice);
  const bool at_rest = to_tell_.empty();
  for (Job* const job : services_.by_job->WithRanksHere()) {
    if (to_all || entry->heard.contains(job)) to_tell_.push_back({entry, job});
  }
  if (at_rest) TellSome();
}

void Announcements::TellSome() {
  for (size_t told = 0; told < kToldAtOnce && !to_tell_.empty(); ++told) {
    const Telling next = std::move(to_tell_.front());
    to_tell_.pop_front();
    // A job may have ended since. If a new one has its address, TellOnce tells that one once.
    if (!services_.by_job->HasRanksHere(next.job)) continue;
    GuardedAndLogged("news of an announcement", [&] { TellOnce(*next.entry, *next.job); });
  }
  if (!to_tell_.empty()) services_.loop->Post(lifetime_.Guard([this] { TellSome(); }));
}

// A job that has never heard of something does not hear that it has ended either.
void Announcements::TellOnce(Entry& entry, Job& job, bool caused_by_tenant) {
  if (HasEnded(entry.notice.state) && !entry.heard.contains(&job)) return;
  if (entry.told.contains(&job)) return;
  if (caused_by_tenant && !services_.events->MayTellMore(job.tenant->identity)) return;
  entry.told.insert(&job);
  const std::vector<int32_t> ranks = services_.by_job->RanksHere(job);
  std::optional<JobEvents::News> news = NewsOf(entry.notice, ranks, entry.heard.contains(&job));
  if (!news.has_value()) return;
  entry.heard.insert(&job);
  const uint64_t event = services_.events->Tell(job, std::move(*news));
  services_.book->Assign(job, event, entry.promise, ranks);
  if (listener_) listener_(job, entry.notice, ranks);
}

}  // namespace harmonaize::daemon
