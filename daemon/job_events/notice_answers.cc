#include "daemon/job_events/notice_answers.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "daemon/job_events/job_events.h"
#include "daemon/jobs/job_table.h"
#include "daemon/promises/promise_book.h"
#include "src/base/clean_text.h"
#include "src/base/wall_clock.h"
#include "src/events/event.h"

namespace harmonaize::daemon {
namespace {

/// Answers of one tenant: one for each of many jobs at once, and then as many as people give. Each
/// goes to all hosts of the job and to the disk.
constexpr RateLimit kAnswersOfTenant{.per_second = 1, .burst = 64};

/// Longest part of an id that an error repeats, in bytes.
constexpr size_t kMostShownIdBytes = 160;

std::string DeadlineText(double seconds) {
  return TimeText(static_cast<int64_t>(seconds) * 1'000'000'000);
}

JobEvents::News AnswerNews(const ToldNotice& told, double asked_until_seconds) {
  const bool ready = asked_until_seconds == 0;
  EventData data(EventType::kNoticeAnswered,
                 ready ? fmt::format("{} is acknowledged", InfoOf(told.type).name)
                       : fmt::format("more time is asked for {}, until {}", InfoOf(told.type).name,
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
                                              const std::string& event_id) {
  HZ_ASSIGN_OR_RETURN(const ToldNotice told, Find(tenant, event_id));
  if (told.acknowledged_seconds != 0) return told;
  HZ_RETURN_IF_ERROR(CheckOpen(told));
  return Give(tenant, told, 0);
}

Result<ToldNotice> NoticeAnswers::AskForMore(const TenantIdentity& tenant,
                                             const std::string& event_id, const MoreTime& more) {
  HZ_ASSIGN_OR_RETURN(const ToldNotice told, Find(tenant, event_id));
  if (told.deadline_seconds == 0) {
    return InvalidUsage("event '{}' has no deadline that could be later", event_id);
  }
  const double until = std::floor(
      more.until_seconds.value_or(told.deadline_seconds + std::ceil(more.seconds.value_or(0))));
  if (until <= told.deadline_seconds || until > told.deadline_seconds + kMostAskedSeconds) {
    return InvalidArgument("the time asked for is after the deadline, {}, and at most {:.0f} days",
                           DeadlineText(told.deadline_seconds), kMostAskedSeconds / 86400);
  }
  if (told.asked_until_seconds == until) return told;
  HZ_RETURN_IF_ERROR(CheckOpen(told));
  return Give(tenant, told, until);
}

Result<ToldNotice> NoticeAnswers::Find(const TenantIdentity& tenant,
                                       const std::string& event_id) const {
  const ToldNotice* const told = services_.book->Find(tenant, event_id);
  if (told != nullptr) return *told;
  return Unavailable(
      "you have no event '{}' that can be answered; GET /v1/events lists your events, and those of "
      "the types maintenance.scheduled, capacity.reclaim, host.failing, checkpoint.advised and "
      "daemon.restarting can be",
      CleanText(event_id, kMostShownIdBytes));
}

Status NoticeAnswers::CheckOpen(const ToldNotice& told) const {
  if (told.replaced_by != 0) {
    const std::string newer = Event{.job = told.job, .unique = told.replaced_by}.id();
    return InvalidUsage("the event is out of date; answer '{}', which took its place", newer);
  }
  const Promise* const promise = services_.book->FindPromise(told.promise);
  if (promise != nullptr && promise->withdrawn) return InvalidUsage("that was called off");
  if (promise != nullptr && (promise->began_seconds != 0 || promise->ended_seconds != 0)) {
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
    services_.events->Tell(*job, AnswerNews(told, asked_until_seconds));
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
