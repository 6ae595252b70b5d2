#include "daemon/job_events/announcements.h"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/job_events/notice_events.h"
#include "daemon/jobs/job_table.h"
#include "daemon/promises/promise_book.h"
#include "daemon/promises/record_keeper.h"
#include "daemon/tenant/tenant.h"
#include "src/base/log.h"
#include "src/base/random.h"

namespace harmonaize::daemon {
namespace {

bool HasEnded(CloudNotice::State state) {
  return state == CloudNotice::State::kCompleted || state == CloudNotice::State::kWithdrawn;
}

/// Returns whether jobs would be told the same of both.
bool LookAlike(const CloudNotice& a, const CloudNotice& b) {
  return a.kind == b.kind && a.state == b.state && a.not_before_seconds == b.not_before_seconds &&
         a.duration_seconds == b.duration_seconds && a.survives == b.survives;
}

}  // namespace

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
    notices_.emplace(Key{notice->source, notice->id}, Entry{*notice, promise});
  }
}

Status Announcements::Take(const CloudNotice& notice) {
  const Key key{notice.source, notice.id};
  auto found = notices_.find(key);
  if (found == notices_.end()) {
    if (HasEnded(notice.state)) {
      return InvalidUsage("nothing is announced under the id '{}', so it cannot end", notice.id);
    }
    if (notices_.size() >= kMostNotices) {
      return InvalidUsage("{} things are announced for this host, which is as many as may be",
                          kMostNotices);
    }
    found = notices_.emplace(key, Entry{notice}).first;
  } else if (!LookAlike(found->second.notice, notice)) {
    found->second.told.clear();
  }
  found->second.notice = notice;
  found->second.promise = services_.book->Note(notice);
  Keep(notice);
  Log(LogLevel::kInfo, kLogInit, "{} announces {} for this host: {}", notice.source, notice.id,
      notice.text);
  for (const auto& [id, communicator] : services_.communicators->all()) TellJobOf(*communicator);
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
  if (update.id.starts_with(kDrainPrefix)) {
    return InvalidUsage("'{}' is a drain: `harmonaize drain` changes it", update.id);
  }
  CloudNotice notice;
  const auto found = notices_.find(Key{kOperatorSource, update.id});
  if (found != notices_.end()) {
    notice = found->second.notice;
  } else {
    notice.source = kOperatorSource;
    notice.id = update.id;
    if (notice.id.empty()) {
      notice.id = fmt::format("operator-{:08x}", static_cast<uint32_t>(RandomNumber()));
    }
  }
  notice.kind = update.kind.value_or(notice.kind);
  const CloudNotice::State before = notice.state;
  notice.state = update.state.value_or(notice.state);
  if (before == CloudNotice::State::kStarted && notice.state == CloudNotice::State::kScheduled) {
    return InvalidUsage("'{}' has begun, and cannot be scheduled again", notice.id);
  }
  if (update.not_before_seconds.has_value()) notice.not_before_seconds = update.not_before_seconds;
  if (update.duration_seconds.has_value()) notice.duration_seconds = update.duration_seconds;
  notice.survives = update.survives.value_or(notice.survives);
  notice.text = update.text.value_or(notice.text);
  HZ_RETURN_IF_ERROR(Take(notice));
  return notice;
}

std::vector<Announcements::Active> Announcements::All() const {
  std::vector<Active> active;
  for (const auto& [key, entry] : notices_) active.push_back({entry.notice, entry.promise});
  return active;
}

// ---------------------------------------------------------------------------------------------
// Telling

void Announcements::OnFormed(const Communicator& communicator, int /*hosts*/) {
  TellJobOf(communicator);
}

// A job that has no communicators any more may be forgotten. If it comes again it is told again.
void Announcements::OnEnded(const Communicator& communicator) {
  if (communicator.job()->communicators > 1) return;
  for (auto& [key, entry] : notices_) entry.told.erase(communicator.job());
}

void Announcements::TellJobOf(const Communicator& communicator) {
  if (!communicator.has_ranks_here()) return;
  for (auto& [key, entry] : notices_) {
    if (entry.told.insert(communicator.job()).second) Tell(entry, *communicator.job());
  }
}

void Announcements::Tell(const Entry& entry, Job& job) {
  const std::vector<int32_t> ranks = RanksHereOf(job);
  std::optional<JobEvents::News> news = NewsOf(entry.notice, ranks);
  if (!news.has_value()) return;
  const uint64_t event = services_.events->Tell(job, std::move(*news));
  services_.book->Assign(job, event, entry.promise, ranks);
}

// The ranks are those of the job's largest communicator here, which is that of all ranks in most
// programs.
std::vector<int32_t> Announcements::RanksHereOf(const Job& job) const {
  const Communicator* largest = nullptr;
  for (const auto& [id, communicator] : services_.communicators->all()) {
    if (communicator->job() != &job || !communicator->has_ranks_here()) continue;
    if (largest == nullptr || communicator->ranks() > largest->ranks()) {
      largest = communicator.get();
    }
  }
  std::vector<int32_t> ranks;
  for (int rank = 0; largest != nullptr && rank < largest->ranks(); ++rank) {
    if (!largest->IsRemote(rank) && !largest->HasLeft(rank)) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace harmonaize::daemon
