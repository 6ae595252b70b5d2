#include "daemon/job_events/drain.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/communicator/communicator_registry.h"
#include "daemon/formation/membership.h"
#include "daemon/job_events/announcements.h"
#include "daemon/job_events/job_events.h"
#include "daemon/promises/promise_book.h"
#include "daemon/promises/record_fields.h"
#include "daemon/promises/record_keeper.h"
#include "daemon/runtime/waiting_count.h"
#include "src/base/json_text.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/time_text.h"
#include "src/base/wall_clock.h"
#include "src/events/event.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;
using NoticeState = CloudNotice::State;

constexpr char kDrainRecord[] = "drain";
constexpr char kDrainKey[] = "this";

/// What a record of a drain holds.
struct KeptDrain {
  Drain::Order order;
  std::string id;
  double since_seconds = 0;
  double stopped_seconds = 0;  ///< When the daemon ended to restart; 0: it has not.
  uint64_t left = 0;           ///< Communicators that there were then, as far as is known.
};

std::optional<KeptDrain> DrainIn(const Record& record) {
  RecordFields fields(record.text);
  KeptDrain kept;
  kept.id = fields.Text("id", kMostNoticeIdBytes);
  kept.order.reason = fields.Text("reason", kMostReasonBytes);
  kept.order.restart = fields.YesNo("restart");
  const double deadline = fields.Seconds("deadline");
  if (deadline > 0) kept.order.deadline_seconds = static_cast<int64_t>(deadline);
  kept.since_seconds = fields.Seconds("since");
  kept.stopped_seconds = fields.Seconds("stopped");
  if (fields.Has("left")) kept.left = fields.Count("left");
  fields.Expect(kept.id.starts_with(kDrainPrefix));
  return fields.good() ? std::optional(std::move(kept)) : std::nullopt;
}

std::string WholeTimeText(int64_t seconds) {
  return TimeText(seconds * 1'000'000'000);
}

/// Returns whether the tenant is a user and no more: its number is then the same after a restart.
bool IsPlainUser(const TenantIdentity& tenant) {
  return tenant.number == tenant.user && tenant.name == fmt::format("uid {}", tenant.user);
}

}  // namespace

const char* NameOf(Drain::State state) {
  switch (state) {
    case Drain::State::kServing: return "serving";
    case Drain::State::kDraining: return "draining";
    case Drain::State::kDrained: return "drained";
    case Drain::State::kRestarting: return "restarting";
  }
  return "unknown";
}

Drain::State Drain::state() const {
  if (restarting_) return State::kRestarting;
  if (id_.empty()) return State::kServing;
  return IsEmpty() || IsOverdue() ? State::kDrained : State::kDraining;
}

// What waits may be a communicator that forms.
bool Drain::IsEmpty() const {
  return services_.communicators->all().empty() && !services_.waiting->any();
}

bool Drain::IsOverdue() const {
  return order_.deadline_seconds.has_value() &&
         UnixSeconds() >= static_cast<double>(*order_.deadline_seconds);
}

// ---------------------------------------------------------------------------------------------
// Orders

Status Drain::Begin(const Change& change) {
  if (restarting_) return InvalidUsage("the daemon restarts already");
  HZ_RETURN_IF_ERROR(Watch());
  const Order before = order_;
  if (change.deadline_seconds.has_value()) order_.deadline_seconds = change.deadline_seconds;
  if (change.no_deadline) order_.deadline_seconds.reset();
  order_.reason = change.reason.value_or(order_.reason);
  order_.restart = change.restart.value_or(order_.restart);
  const bool is_new = id_.empty();
  if (is_new) {
    id_ = fmt::format("{}{:08x}", kDrainPrefix, static_cast<uint32_t>(RandomNumber()));
    since_seconds_ = UnixSeconds();
  }
  const Status announced = services_.announcements->Take(Notice(NoticeState::kScheduled));
  if (!announced.ok()) {
    order_ = before;
    if (is_new) Forget();
    return announced;
  }
  Refuse();
  Keep();
  return Status::Ok();
}

Status Drain::Cancel() {
  if (restarting_) return InvalidUsage("the daemon restarts already; it serves again in a moment");
  if (id_.empty()) return Status::Ok();
  Announce(NoticeState::kWithdrawn);
  services_.membership->Admit();
  services_.keeper->Remove(kDrainRecord, kDrainKey);
  Forget();
  return Status::Ok();
}

void Drain::Forget() {
  next_look_.Stop();
  id_.clear();
  since_seconds_ = 0;
  order_ = {};
}

CloudNotice Drain::Notice(NoticeState state) const {
  return {
      .source = kOperatorSource,
      .id = id_,
      .kind = order_.restart ? CloudNotice::Kind::kServiceRestart : CloudNotice::Kind::kMaintenance,
      .state = state,
      .not_before_seconds = order_.deadline_seconds,
      .text = order_.reason.empty() ? "the daemon drains" : order_.reason};
}

void Drain::Announce(NoticeState state) {
  const Status announced = services_.announcements->Take(Notice(state));
  if (!announced.ok()) Log(LogLevel::kWarning, kLogInit, "{}", announced.message());
}

void Drain::Refuse() {
  const std::string until = order_.deadline_seconds.has_value()
                                ? " until " + WholeTimeText(*order_.deadline_seconds)
                                : std::string();
  services_.membership->Refuse(fmt::format(
      "this host drains{}{} and takes no new communicators; start the program on another host, or "
      "again when the operator has ended the drain",
      until, order_.restart ? " to restart its daemon" : ""));
}

void Drain::Keep() const {
  const json object = {{"id", id_},
                       {"reason", order_.reason},
                       {"restart", order_.restart},
                       {"deadline", order_.deadline_seconds.value_or(0)},
                       {"since", since_seconds_},
                       {"stopped", restarting_ ? UnixSeconds() : 0.0},
                       {"left", services_.communicators->all().size()}};
  services_.keeper->Put({kDrainRecord, kDrainKey, JsonText(object)});
}

// ---------------------------------------------------------------------------------------------
// Waiting

void Drain::Look() {
  if (!order_.restart || restarting_ || state() != State::kDrained) return;
  restarting_ = true;
  const size_t left = services_.communicators->all().size();
  Log(LogLevel::kInfo, kLogInit, "the daemon {}, and restarts",
      left == 0 ? std::string("is drained")
                : fmt::format("has waited until the deadline, with {} communicators left", left));
  if (IsEmpty()) services_.book->NoteNobodyLeft(kOperatorSource, id_);
  Announce(NoticeState::kStarted);
  Keep();
  services_.keeper->Flush();
  services_.restart();
}

// ---------------------------------------------------------------------------------------------
// After a restart

void Drain::Restore() {
  for (const Record& record : services_.keeper->found()) {
    if (record.kind != kDrainRecord) continue;
    std::optional<KeptDrain> kept = DrainIn(record);
    if (!kept.has_value()) {
      Log(LogLevel::kWarning, kLogInit, "a kept drain is not understood, and is forgotten");
      services_.keeper->Remove(record.kind, record.key);
      continue;
    }
    order_ = std::move(kept->order);
    id_ = std::move(kept->id);
    since_seconds_ = kept->since_seconds;
    if (order_.restart) {
      if (kept->stopped_seconds > 0) left_at_restart_ = kept->left;
      EndRestart(kept->stopped_seconds);
      continue;
    }
    const Status watched = Watch();
    if (!watched.ok()) Log(LogLevel::kWarning, kLogInit, "{}", watched.message());
    Announce(NoticeState::kScheduled);
    Refuse();
    Log(LogLevel::kInfo, kLogInit,
        "the daemon drains still: `harmonaize drain --cancel` ends that");
  }
}

// A daemon that was killed while it drained has restarted, too, if not as it should.
void Drain::EndRestart(double stopped_seconds) {
  Announce(NoticeState::kStarted);
  uint64_t promise = 0;
  for (const Announcements::Active& active : services_.announcements->All()) {
    if (active.notice.id == id_) promise = active.promise;
  }
  Announce(NoticeState::kCompleted);
  services_.keeper->Remove(kDrainRecord, kDrainKey);
  Forget();
  const double took = stopped_seconds > 0 ? std::max(0.0, UnixSeconds() - stopped_seconds) : 0;
  TellOfRestart(promise, took);
}

void Drain::TellOfRestart(uint64_t promise, double took_seconds) {
  const auto news = [&] {
    EventData data(EventType::kDaemonRestarted,
                   "the service runs again; what was kept of events, promises and announcements is "
                   "as it was, and communicators that were left have ended");
    if (took_seconds > 0) data.Set(fields::kTookSeconds, took_seconds);
    return JobEvents::News{EventType::kDaemonRestarted, "", std::move(data)};
  };
  services_.events->TellOperators(news());
  for (const ToldNotice* told : services_.book->ToldOf(promise)) {
    if (IsPlainUser(told->tenant)) {
      services_.events->TellOfPast(told->tenant, told->job, news());
    }
  }
}

}  // namespace harmonaize::daemon
