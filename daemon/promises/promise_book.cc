#include "daemon/promises/promise_book.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/jobs/job_table.h"
#include "daemon/tenant/tenant.h"
#include "src/base/json_text.h"
#include "src/base/log.h"
#include "src/base/wall_clock.h"
#include "src/events/event_fields.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;
/// Returns a time that an event's data holds, which has been checked, in seconds since 1970; 0 if
/// there is none. The part of a second counts for nobody.
double SecondsIn(const json& data, const char* field) {
  const auto found = data.find(field);
  if (found == data.end() || !found->is_string()) return 0;
  tm parts{};
  if (strptime(found->get_ref<const std::string&>().c_str(), "%Y-%m-%dT%H:%M:%S", &parts) ==
      nullptr) {
    return 0;
  }
  return std::max<double>(0, static_cast<double>(timegm(&parts)));
}

std::string WordIn(const json& data, const char* field) {
  const auto found = data.find(field);
  return found == data.end() || !found->is_string() ? std::string() : found->get<std::string>();
}

}  // namespace

void PromiseBook::Restore() {
  for (const Record& record : keeper_.found()) {
    if (record.kind == kPromiseRecord) {
      std::optional<Promise> promise = PromiseIn(record);
      if (promise.has_value() && promises_.size() < kMostPromises) {
        last_number_ = std::max(last_number_, promise->number);
        promises_.push_back(std::move(*promise));
        continue;
      }
    } else if (record.kind == kToldRecord) {
      std::optional<ToldNotice> told = ToldNoticeIn(record);
      if (told.has_value() && told_.size() < kMostTold) {
        told_.push_back(std::move(*told));
        continue;
      }
    } else {
      continue;
    }
    Log(LogLevel::kWarning, kLogInit, "a record of promises is not understood, and is removed");
    keeper_.Remove(record.kind, record.key);
  }
  told_.sort(
      [](const ToldNotice& a, const ToldNotice& b) { return a.told_seconds < b.told_seconds; });
}

// ---------------------------------------------------------------------------------------------
// Promises

Promise* PromiseBook::PromiseOf(const std::string& source, const std::string& id) {
  // The newest one: an operator may use an id again.
  const auto found = std::find_if(promises_.rbegin(), promises_.rend(), [&](const Promise& one) {
    return one.source == source && one.id == id;
  });
  if (found == promises_.rend() || found->ended_seconds != 0) return nullptr;
  return &*found;
}

uint64_t PromiseBook::Note(const CloudNotice& notice) {
  if (notice.kind == CloudNotice::Kind::kRiskOfReclaim) return 0;
  const double now = UnixSeconds();
  Promise* promise = PromiseOf(notice.source, notice.id);
  if (promise == nullptr) {
    if (promises_.size() >= kMostPromises) ForgetOldestPromise();
    promises_.push_back({.number = ++last_number_,
                         .source = notice.source,
                         .id = notice.id,
                         .kind = notice.kind,
                         .announced_seconds = now});
    promise = &promises_.back();
  }
  const Promise before = *promise;
  promise->kind = notice.kind;
  const bool is_over = notice.state == CloudNotice::State::kCompleted ||
                       notice.state == CloudNotice::State::kWithdrawn;
  const bool has_time = !IsCondition(notice.kind) && !IsPlainDrain(notice);
  if (notice.state == CloudNotice::State::kScheduled && has_time) {
    promise->announced_for_seconds = static_cast<double>(notice.not_before_seconds.value_or(0));
    promise->promised_from_seconds =
        std::max(promise->promised_from_seconds, promise->announced_for_seconds);
  }
  if (notice.state == CloudNotice::State::kStarted && has_time && promise->began_seconds == 0) {
    promise->began_seconds = now;
  }
  if (is_over) promise->ended_seconds = now;
  promise->withdrawn = notice.state == CloudNotice::State::kWithdrawn;
  if (*promise != before || notice.state == CloudNotice::State::kScheduled)
    keeper_.Put(RecordOf(*promise));
  return promise->number;
}

void PromiseBook::NoteNobodyLeft(const std::string& source, const std::string& id) {
  Promise* const promise = PromiseOf(source, id);
  if (promise == nullptr) return;
  promise->nobody_left = true;
  keeper_.Put(RecordOf(*promise));
}

const Promise* PromiseBook::FindPromise(uint64_t number) const {
  const auto found = std::find_if(promises_.begin(), promises_.end(),
                                  [&](const Promise& one) { return one.number == number; });
  return found == promises_.end() ? nullptr : &*found;
}

// What promised nothing goes first, so that a host whose health comes and goes loses no promise.
void PromiseBook::ForgetOldestPromise() {
  auto oldest = std::find_if(promises_.begin(), promises_.end(), [](const Promise& one) {
    return one.is_empty() && one.ended_seconds != 0;
  });
  if (oldest == promises_.end()) oldest = promises_.begin();
  const uint64_t number = oldest->number;
  for (auto it = told_.begin(); it != told_.end();) {
    const auto one = it++;
    if (one->promise == number) Forget(one);
  }
  const Record record = RecordOf(*oldest);
  keeper_.Remove(record.kind, record.key);
  promises_.erase(oldest);
}

// ---------------------------------------------------------------------------------------------
// What jobs are told

/// Returns whether an event advises a checkpoint for which nobody waits: many come, and would push
/// out what is to be answered.
static bool IsAdviceOfCourse(EventType type, const json& data) {
  if (type != EventType::kCheckpointAdvised) return false;
  const auto why = data.find("why");
  return why != data.end() && (*why == "interval" || *why == "request");
}

void PromiseBook::OnTold(const Job& job, const Event& event, bool began_here) {
  if (event.type == EventType::kNoticeAnswered) return TakeAnswer(job, event);
  if (!CanBeAnswered(event.type)) return;
  const json data = ReadJson(event.data);
  if (!data.is_object()) return;
  if (IsAdviceOfCourse(event.type, data)) return;
  const bool maintenance = event.type == EventType::kMaintenanceScheduled;
  const double deadline = SecondsIn(data, maintenance ? "not_before" : "deadline");
  const double now = UnixSeconds();
  if (deadline != 0 && deadline <= now) return;  // Nothing can be answered any more.
  MakeRoomFor(job.tenant->identity);
  told_.push_back({.job = event.job,
                   .unique = event.unique,
                   .tenant = job.tenant->identity,
                   .type = event.type,
                   .began_here = began_here,
                   .told_seconds = now,
                   .deadline_seconds = deadline});
  Keep(told_.back());
}

void PromiseBook::Assign(const Job& job, uint64_t unique, uint64_t promise,
                         const std::vector<int32_t>& ranks) {
  const std::string job_id = job.id.text();
  ToldNotice* const told = FindTold(job_id, unique);
  if (told == nullptr || promise == 0) return;
  for (ToldNotice& earlier : told_) {
    if (earlier.promise != promise || earlier.job != job_id || earlier.replaced_by != 0 ||
        earlier.tenant.name != told->tenant.name) {
      continue;
    }
    earlier.replaced_by = unique;
    Keep(earlier);
  }
  told->promise = promise;
  const size_t kept = std::min(ranks.size(), kMostKeptRanks);
  told->ranks.assign(ranks.begin(), ranks.begin() + static_cast<ptrdiff_t>(kept));
  told->ranks_unlisted = ranks.size() - kept;
  Keep(*told);
}

ToldNotice* PromiseBook::FindTold(std::string_view job, uint64_t unique) {
  const auto found = std::find_if(told_.begin(), told_.end(), [&](const ToldNotice& one) {
    return one.unique == unique && one.job == job;
  });
  return found == told_.end() ? nullptr : &*found;
}

std::vector<const ToldNotice*> PromiseBook::ToldOf(uint64_t promise) const {
  std::vector<const ToldNotice*> found;
  for (const ToldNotice& one : told_) {
    if (one.promise == promise && one.replaced_by == 0) found.push_back(&one);
  }
  return found;
}

// What began elsewhere can be answered only while the job has communicators here, and these end
// with the daemon.
void PromiseBook::Keep(const ToldNotice& told) {
  if (told.began_here) keeper_.Put(RecordOf(told));
}

void PromiseBook::Forget(std::list<ToldNotice>::iterator told) {
  if (told->began_here) keeper_.Remove(kToldRecord, told->event_id());
  told_.erase(told);
}

void PromiseBook::MakeRoomFor(const TenantIdentity& tenant) {
  const auto is_theirs = [&](const ToldNotice& one) { return one.tenant.name == tenant.name; };
  const auto theirs = std::count_if(told_.begin(), told_.end(), is_theirs);
  if (static_cast<size_t>(theirs) >= kMostToldOfTenant) {
    Forget(std::find_if(told_.begin(), told_.end(), is_theirs));
  } else if (told_.size() >= kMostTold) {
    Forget(told_.begin());
  }
}

// ---------------------------------------------------------------------------------------------
// Answers

const ToldNotice* PromiseBook::Find(const TenantIdentity& tenant, std::string_view event_id) const {
  const std::optional<EventId> id = ParseEventId(event_id);
  if (!id.has_value() || tenant.name.empty()) return nullptr;
  for (const ToldNotice& one : told_) {
    if (one.unique == id->unique && one.job == id->job && one.tenant.name == tenant.name) {
      return &one;
    }
  }
  return nullptr;
}

// The newer one may have been forgotten. An event's place is taken by a later one alone, so the
// steps end; their number is bounded besides, since a record may say anything.
const ToldNotice& PromiseBook::NewestOf(const ToldNotice& told) const {
  const ToldNotice* newest = &told;
  for (size_t steps = 0; newest->replaced_by != 0 && steps < told_.size(); ++steps) {
    const auto next = std::find_if(told_.begin(), told_.end(), [&](const ToldNotice& one) {
      return one.unique == newest->replaced_by && one.job == told.job &&
             one.tenant.name == told.tenant.name;
    });
    if (next == told_.end()) break;
    newest = &*next;
  }
  return *newest;
}

void PromiseBook::Answer(const ToldNotice& told, double asked_until_seconds, double now_seconds) {
  ToldNotice* const found = FindTold(told.job, told.unique);
  if (found == nullptr) return;
  if (asked_until_seconds == 0) {
    found->acknowledged_seconds = now_seconds;
  } else {
    found->asked_seconds = now_seconds;
    found->asked_until_seconds = asked_until_seconds;
  }
  Keep(*found);
  if (listener_) listener_(*found);
}

// The answer may be one that a tenant gave at another daemon. It counts for events of its own job.
void PromiseBook::TakeAnswer(const Job& job, const Event& event) {
  const json data = ReadJson(event.data);
  if (!data.is_object()) return;
  const ToldNotice* const told = Find(job.tenant->identity, WordIn(data, "event"));
  if (told == nullptr || told->job != event.job) return;
  const bool acknowledged = WordIn(data, "answer") == "acknowledged";
  const double until = acknowledged ? 0 : SecondsIn(data, "asked_until");
  if (!acknowledged && until == 0) return;
  Answer(*told, until, UnixSeconds());
}

}  // namespace harmonaize::daemon
