#include "daemon/job_events/notice_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <utility>

#include "daemon/job_events/job_events.h"
#include "daemon/jobs/job_table.h"
#include "daemon/promises/promise_book.h"
#include "src/base/clean_text.h"
#include "src/base/time_text.h"
#include "src/base/wall_clock.h"
#include "src/events/event.h"

namespace harmonaize::daemon {
namespace {

/// Answers of one tenant: one for each of many jobs at once, and then as many as people give. Each
/// goes to all hosts of the job and to the disk.
constexpr RateLimit kAnswersOfTenant{.per_second = 1, .burst = 64};

/// Longest part of an id that an error repeats, in bytes.
constexpr size_t kMostShownIdBytes = 160;
/// Most ids that an error lists of those that may be meant: more do not fit a line or two.
constexpr size_t kMostShownIds = 4;
/// Shortest text that is taken for the beginning of an id, or for an announcement's id, in bytes.
constexpr size_t kLeastIdBytes = 2;

std::string DeadlineText(double seconds) {
  return TimeText(static_cast<int64_t>(seconds) * 1'000'000'000);
}

/// `announced`: the id under which that was announced; "" where this daemon does not know it.
JobEvents::News AnswerNews(const ToldNotice& told, const std::string& announced,
                           double asked_until_seconds) {
  const bool ready = asked_until_seconds == 0;
  const std::string what = std::string(InfoOf(told.type).name) +
                           (announced.empty() ? std::string() : " of " + announced);
  EventData data(EventType::kNoticeAnswered,
                 ready ? fmt::format("{} is acknowledged", what)
                       : fmt::format("more time is asked for {}, until {}", what,
                                     DeadlineText(asked_until_seconds)));
  data.Set(fields::kEvent, told.event_id())
      .Set(fields::kAnswer, ready ? "acknowledged" : "more_time");
  if (!ready) {
    data.Set(fields::kAskedUntil, static_cast<int64_t>(asked_until_seconds) * 1'000'000'000);
  }
  return {.type = EventType::kNoticeAnswered, .subject = "", .data = std::move(data)};
}

}  // namespace

NoticeAnswers::NoticeAnswers(const Services& services)
    : services_(services), answers_(kAnswersOfTenant) {}

Result<ToldNotice> NoticeAnswers::Acknowledge(const TenantIdentity& tenant,
                                              const std::string& which) {
  HZ_ASSIGN_OR_RETURN(const ToldNotice told, Find(tenant, which));
  if (told.is_ready() && told.replaced_by == 0) return told;
  HZ_RETURN_IF_ERROR(CheckOpen(told));
  return Give(tenant, told, 0);
}

Result<ToldNotice> NoticeAnswers::AskForMore(const TenantIdentity& tenant, const std::string& which,
                                             const MoreTime& more) {
  HZ_ASSIGN_OR_RETURN(const ToldNotice told, Find(tenant, which));
  if (told.deadline_seconds == 0) {
    return InvalidUsage("event '{}' has no deadline that could be later", told.event_id());
  }
  const double until = std::floor(
      more.until_seconds.value_or(told.deadline_seconds + std::ceil(more.seconds.value_or(0))));
  if (until <= told.deadline_seconds || until > told.deadline_seconds + kMostAskedSeconds) {
    return InvalidArgument("the time asked for is after the deadline, {}, and at most {:.0f} days",
                           DeadlineText(told.deadline_seconds), kMostAskedSeconds / 86400);
  }
  const bool is_asked = told.asked_until_seconds == until && told.asks_for_more();
  if (is_asked && told.replaced_by == 0) return told;
  HZ_RETURN_IF_ERROR(CheckOpen(told));
  return Give(tenant, told, until);
}

Result<ToldNotice> NoticeAnswers::Find(const TenantIdentity& tenant,
                                       const std::string& which) const {
  const ToldNotice* const told = services_.book->Find(tenant, which);
  if (told != nullptr) return *told;
  const std::vector<const ToldNotice*> meant = Meant(tenant, which);
  if (meant.empty()) {
    return Unavailable(
        "you have no event '{}' that can be answered; `harmonaize events --types "
        "maintenance.scheduled --json` and GET /v1/events show ids of events; those of the types "
        "maintenance.scheduled, capacity.reclaim, host.failing, checkpoint.advised and "
        "daemon.restarting can be",
        CleanText(which, kMostShownIdBytes));
  }
  const auto is_open = [this](const ToldNotice* one) { return CheckOpen(*one).ok(); };
  const auto open = std::count_if(meant.begin(), meant.end(), is_open);
  // Where nothing can be answered any more, the last one tells why.
  if (open == 0) return *meant.back();
  if (open == 1) return **std::find_if(meant.begin(), meant.end(), is_open);
  std::string ids;
  for (size_t i = 0, listed = 0; i < meant.size() && listed < kMostShownIds; ++i) {
    if (!is_open(meant[i])) continue;
    ids += (listed++ == 0 ? "" : ", ") + meant[i]->event_id();
  }
  return InvalidUsage("'{}' may be any of {} events; say which: {}{}",
                      CleanText(which, kMostShownIdBytes), open, ids,
                      open > static_cast<ptrdiff_t>(kMostShownIds) ? ", ..." : "");
}

std::vector<const ToldNotice*> NoticeAnswers::Meant(const TenantIdentity& tenant,
                                                    const std::string& which) const {
  std::vector<const ToldNotice*> meant;
  if (which.size() < kLeastIdBytes || tenant.name.empty()) return meant;
  for (const ToldNotice& one : services_.book->told()) {
    if (one.tenant.name != tenant.name) continue;
    const Promise* const promise = services_.book->FindPromise(one.promise);
    if (one.event_id().starts_with(which) || (promise != nullptr && promise->id == which)) {
      meant.push_back(&one);
    }
  }
  return meant;
}

Status NoticeAnswers::CheckOpen(const ToldNotice& told) const {
  if (told.replaced_by != 0) {
    const ToldNotice& newest = services_.book->NewestOf(told);
    const bool is_known = newest.replaced_by == 0;  // Otherwise what took its place was forgotten.
    const Status open = is_known ? CheckOpen(newest) : Status::Ok();
    const uint64_t unique = is_known ? newest.unique : newest.replaced_by;
    const std::string id = Event{.job = told.job, .unique = unique}.id();
    if (open.ok()) {
      return InvalidUsage("the event is out of date; answer '{}', which took its place", id);
    }
    return InvalidUsage("the event is out of date; '{}' took its place, but {}", id,
                        open.message());
  }
  const Promise* const promise = services_.book->FindPromise(told.promise);
  if (promise != nullptr && promise->withdrawn) return InvalidUsage("that was called off");
  if (promise != nullptr && promise->ended_seconds != 0) {
    return InvalidUsage("that is over, so nothing can be answered any more");
  }
  if (promise != nullptr && promise->began_seconds != 0) {
    return InvalidUsage("that has begun already, so nothing can be answered any more");
  }
  if (told.deadline_seconds != 0 && UnixSeconds() >= told.deadline_seconds) {
    return InvalidUsage("the deadline, {}, has passed, so nothing can be answered any more",
                        DeadlineText(told.deadline_seconds));
  }
  return Status::Ok();
}

Result<ToldNotice> NoticeAnswers::Give(const TenantIdentity& tenant, const ToldNotice& told,
                                       double asked_until_seconds) {
  if (const auto wait = answers_.Take(tenant.name, std::chrono::steady_clock::now())) {
    return Status(Code::kInProgress, fmt::format("you answer too often; try again in {:.1f} s",
                                                 std::chrono::duration<double>(*wait).count()));
  }
  const std::optional<JobIdentity> id = ParseJob(told.job);
  Job* const job = id.has_value() ? services_.jobs->FindById(*id, tenant.number) : nullptr;
  if (job != nullptr && job->communicators > 0) {
    const Promise* const promise = services_.book->FindPromise(told.promise);
    services_.events->Tell(
        *job, AnswerNews(told, promise == nullptr ? "" : promise->id, asked_until_seconds));
  } else if (told.began_here) {
    services_.book->Answer(told, asked_until_seconds, UnixSeconds());
  } else {
    return InvalidUsage(
        "the job has no communicator on this host any more, so its answer reaches "
        "nobody; answer at a host where it runs");
  }
  return Find(tenant, told.event_id());
}

}  // namespace harmonaize::daemon
