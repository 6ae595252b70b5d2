#include "daemon/job_events/job_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "daemon/communicator/communicator.h"
#include "daemon/events/event_bus.h"
#include "daemon/jobs/job_table.h"
#include "daemon/promises/promise_book.h"
#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"
#include "daemon/tenant/mismatch.h"
#include "daemon/tenant/operation_text.h"
#include "src/base/clean_text.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/wall_clock.h"
#include "src/planner/planner.h"

namespace harmonaize::daemon {
namespace {

int64_t NowNanoseconds() {
  return static_cast<int64_t>(UnixSeconds() * 1e9);
}

/// Events of the kinds that a tenant can cause as often as it likes: one for each rank of a large
/// job that ends badly at once, and then as many as people and programs read. Each goes to all
/// hosts of the job and to the disk.
constexpr RateLimit kCausedByTenant{.per_second = 32, .burst = 2048};

/// Returns what rank.lost says of a rank in its field `why`.
std::string_view NameOfEnd(RankEnd end) {
  switch (end) {
    case RankEnd::kKilled: return "killed";
    case RankEnd::kExited: return "exited";
    case RankEnd::kAborted: return "aborted";
    case RankEnd::kUnknown: break;
  }
  return "unknown";
}

std::string SubjectOf(const Communicator& communicator) {
  return "communicators/" + communicator.label();
}

/// Returns a unit of an event's fields as people write it.
std::string InWords(std::string_view unit) {
  std::string words(unit);
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

/// Returns the event that a message tells of; nullopt if it is none that this daemon knows, or its
/// data does not fit its type. Fields that it does not know are left out.
std::optional<Event> EventOf(const EventMessage& message, const JobIdentity& job) {
  const std::optional<EventType> type = EventTypeNamed(message.type);
  if (!type.has_value()) return std::nullopt;
  Result<std::string> data = KnownEventData(*type, message.data);
  if (!data.ok()) return std::nullopt;
  Event event{.job = job.text(),
              .unique = message.unique,
              .type = *type,
              .subject = CleanText(message.subject, kMostSubjectBytes),
              .time_ns = message.time_ns,
              .data = std::move(*data)};
  for (const Severity known :
       {Severity::kInfo, Severity::kWarning, Severity::kError, Severity::kFatal}) {
    if (message.severity == static_cast<int>(known)) event.severity = known;
  }
  if (message.expiry_ns > 0) event.expiry_ns = message.expiry_ns;
  return event;
}

EventMessage MessageOf(const Event& event) {
  return {.about = 0,
          .unique = event.unique,
          .type = std::string(InfoOf(event.type).name),
          .subject = event.subject,
          .time_ns = event.time_ns,
          .severity = static_cast<int>(event.severity),
          .expiry_ns = event.expiry_ns.value_or(0),
          .data = event.data};
}

/// Gathers what each rank asked for by what it is.
std::vector<AskedParty> PartiesOf(const Mismatch& mismatch) {
  std::map<std::string, std::vector<int32_t>> by_request;
  for (const RankAsked& one : mismatch.asked) {
    by_request[RequestOf(one.descriptor)].push_back(one.rank);
  }
  std::vector<AskedParty> parties;
  for (auto& [asked, ranks] : by_request) parties.push_back({std::move(ranks), asked});
  return parties;
}

}  // namespace

// ---------------------------------------------------------------------------------------------
// Telling

JobEvents::JobEvents(const Services& services)
    : services_(services), caused_by_tenants_(kCausedByTenant) {}

bool JobEvents::MayTellMore(const Communicator& communicator) {
  return MayTellMore(communicator.tenant().identity);
}

bool JobEvents::MayTellMore(const TenantIdentity& tenant) {
  const auto now = std::chrono::steady_clock::now();
  if (!caused_by_tenants_.Take(std::to_string(tenant.number), now).has_value()) return true;
  const LogFor log_for(tenant);
  Log(LogLevel::kWarning, kLogInit, "an event of {} is left out: there are too many", tenant.name);
  return false;
}

Result<std::string> JobEvents::DataOf(const News& news) {
  const auto* const made = std::get_if<EventData>(&news.data);
  return made == nullptr ? std::get<std::string>(news.data) : made->Finish();
}

uint64_t JobEvents::Tell(Job& job, News news) {
  const std::optional<Event> event = Publish(job, std::move(news));
  if (!event.has_value()) return 0;
  Spread(job, MessageOf(*event), {});
  return event->unique;
}

void JobEvents::TellHere(Job& job, News news) {
  static_cast<void>(Publish(job, std::move(news)));
}

// Tells the subscribers here. Returns the event; nullopt if its data does not fit its type.
std::optional<Event> JobEvents::Publish(Job& job, News news) {
  const LogFor log_for(job.tenant->identity);
  const Result<std::string> data = DataOf(news);
  if (!data.ok()) {
    Log(LogLevel::kError, kLogInit, "an event cannot be told: {}", data.status().message());
    return std::nullopt;
  }
  const Event event{.job = job.id.text(),
                    .unique = RandomNumber(),
                    .type = news.type,
                    .subject = std::move(news.subject),
                    .time_ns = NowNanoseconds(),
                    .severity = news.severity.value_or(InfoOf(news.type).severity),
                    .data = *data};
  job.heard.Add(event.unique);
  services_.bus->Publish(job.tenant->identity, event);
  if (services_.book != nullptr) services_.book->OnTold(job, event, true);
  TellListener(job, event, true);
  return event;
}

void JobEvents::TellListener(Job& job, const Event& event, bool began_here) const {
  if (!listener_) return;
  GuardedAndLogged("an event that is heard of", [&] { listener_(job, event, began_here); });
}

void JobEvents::TellOfPast(const TenantIdentity& tenant, const std::string& job, News news) {
  const Result<std::string> data = DataOf(news);
  if (!data.ok()) return;
  services_.bus->Publish(tenant, {.job = job,
                                  .unique = RandomNumber(),
                                  .type = news.type,
                                  .subject = std::move(news.subject),
                                  .time_ns = NowNanoseconds(),
                                  .severity = InfoOf(news.type).severity,
                                  .data = *data});
}

void JobEvents::TellOfEnd(Job& job) {
  EventData data(EventType::kDaemonRestarting,
                 "the service stops here now: the communicators that have ranks here end");
  data.Set(fields::kDeadline, NowNanoseconds())
      .Set(fields::kNoticeSeconds, 0.0)
      .Set(fields::kRecommendedAction, "restart");
  Tell(job, {EventType::kDaemonRestarting, "", std::move(data)});
}

void JobEvents::TellOperators(News news) {
  const Result<std::string> data = DataOf(news);
  if (!data.ok()) return;
  services_.bus->PublishToOperators({.unique = RandomNumber(),
                                     .type = news.type,
                                     .subject = std::move(news.subject),
                                     .time_ns = NowNanoseconds(),
                                     .severity = InfoOf(news.type).severity,
                                     .data = *data});
}

// An event that a daemon does not take, since too much of the tenant's waits for it, is not worth
// the end of the communicator.
void JobEvents::Spread(const Job& job, const EventMessage& message,
                       const JobRelay::CameBy& came_by) {
  static_cast<void>(services_.relay->Spread(job, message, came_by));
}

void JobEvents::OnMessage(transport::PeerId peer, const ClusterMessage& message) {
  if (const auto* const event = message.As<EventMessage>()) OnEvent(peer, *event);
}

void JobEvents::OnEvent(transport::PeerId peer, const EventMessage& message) {
  const std::optional<JobWay> way = services_.relay->ToldOf(message.about, peer);
  if (!way.has_value()) return;
  Job& job = *way->job;
  if (!job.heard.Add(message.unique)) return;
  const std::optional<Event> event = EventOf(message, job.id);
  if (!event.has_value()) return;  // of a newer daemon
  services_.bus->Publish(job.tenant->identity, *event, EventOrigin::kAnotherDaemon);
  if (services_.book != nullptr) services_.book->OnTold(job, *event, false);
  TellListener(job, *event, false);
  Spread(job, message, {way, peer});
}

// ---------------------------------------------------------------------------------------------
// What becomes of communicators

// A rank that ends since its communicator has failed is news, and no trouble of its own. Why that
// has failed was told before; its text may name processes, which other hosts must not hear of.
void JobEvents::OnRankLost(const Communicator& communicator, int rank, const RankLoss& loss) {
  if (!MayTellMore(communicator)) return;
  const bool follows = !loss.failed_before.ok();
  EventData data(EventType::kRankLost,
                 fmt::format("rank {} of communicator '{}' {}{}", rank, communicator.label(),
                             loss.why, follows ? ", after the communicator had failed" : ""));
  const int32_t ranks[] = {rank};
  data.Set(fields::kRanks, ranks)
      .Set(fields::kCommunicator, communicator.label())
      .Set(fields::kWhy, NameOfEnd(loss.end))
      .Set(fields::kFollows, follows);
  News news{EventType::kRankLost, fmt::format("ranks/{}", rank), std::move(data)};
  if (follows) news.severity = Severity::kInfo;
  Tell(*communicator.job(), std::move(news));
}

void JobEvents::OnMismatch(const Communicator& communicator, const Mismatch& mismatch) {
  if (!MayTellMore(communicator)) return;
  EventData data(EventType::kMismatchDetected, mismatch.AsError().message());
  data.Set(fields::kCommunicator, communicator.label())
      .Set(fields::kOperation, fmt::format("#{}", mismatch.sequence))
      .Set(fields::kAsked, PartiesOf(mismatch));
  Tell(*communicator.job(),
       {EventType::kMismatchDetected, SubjectOf(communicator), std::move(data)});
}

void JobEvents::OnPlanChanged(const Communicator& communicator, const PlanTransition& change) {
  // The home makes plans anew when requirements change. Such a plan may be the same as before.
  if (!change.committed || CarriesOutAlike(change.before, change.after)) return;
  const CollectivePlan& after = change.after;
  const std::string_view collective = CollectiveName(after.key.collective);
  const uint64_t bytes = SizeClasses()[static_cast<size_t>(after.key.size_class)];
  EventData data(EventType::kPlanChanged,
                 fmt::format("{} of {} bytes in communicator '{}' is predicted to take {:.3g} s, "
                             "where it would have taken {:.3g} s",
                             collective, bytes, communicator.label(), after.predicted_seconds,
                             change.before.predicted_seconds));
  data.Set(fields::kCommunicator, communicator.label())
      .Set(fields::kCollective, collective)
      .Set(fields::kBytes, bytes)
      .Set(fields::kPredictedSecondsBefore, change.before.predicted_seconds)
      .Set(fields::kPredictedSecondsAfter, after.predicted_seconds);
  Tell(*communicator.job(), {EventType::kPlanChanged, SubjectOf(communicator), std::move(data)});
}

void JobEvents::OnCongestionChanged(const Communicator& communicator, CongestionLevel level,
                                    double times) {
  CongestionLevel& known = congestion_[communicator.id()];
  const CongestionLevel before = std::exchange(known, level);
  EventData data(
      EventType::kCongestionChanged,
      fmt::format("congestion of communicator '{}' is {} now: its operations take {:.2f} "
                  "times as long as on an empty network",
                  communicator.label(), CongestionName(level), times));
  data.Set(fields::kCommunicator, communicator.label())
      .Set(fields::kFromLevel, CongestionName(before))
      .Set(fields::kToLevel, CongestionName(level))
      .Set(fields::kSlowdown, times);
  Tell(*communicator.job(),
       {EventType::kCongestionChanged, SubjectOf(communicator), std::move(data)});
}

void JobEvents::OnLinksChanged(const Communicator& communicator, bool degraded, double times) {
  const uint64_t now_ns = MonotonicNanoseconds();
  const std::string names[] = {communicator.label()};
  if (degraded) {
    degraded_[communicator.id()] = now_ns;
    EventData data(EventType::kLinkDegraded,
                   fmt::format("a connection that communicator '{}' uses carries nothing: its "
                               "operations take {:.2f} times as long on other ways",
                               communicator.label(), times));
    data.Set(fields::kCommunicators, names).Set(fields::kSlowdown, times);
    Tell(*communicator.job(), {EventType::kLinkDegraded, SubjectOf(communicator), std::move(data)});
    return;
  }
  const auto since = degraded_.extract(communicator.id());
  EventData data(EventType::kLinkRestored,
                 fmt::format("the connections that communicator '{}' uses carry data again",
                             communicator.label()));
  data.Set(fields::kCommunicators, names);
  if (!since.empty()) {
    data.Set(fields::kForSeconds, static_cast<double>(now_ns - since.mapped()) * 1e-9);
  }
  Tell(*communicator.job(), {EventType::kLinkRestored, SubjectOf(communicator), std::move(data)});
}

void JobEvents::OnRequirementChanged(const Communicator& communicator,
                                     const RequirementChange& change) {
  const uint64_t now_ns = MonotonicNanoseconds();
  const std::pair<uint64_t, std::string> name{communicator.id(), change.requirement};
  double for_seconds = -1;
  if (!change.met) {
    unmet_[name] = now_ns;
  } else if (const auto since = unmet_.extract(name); !since.empty()) {
    for_seconds = static_cast<double>(now_ns - since.mapped()) * 1e-9;
  }
  if (!MayTellMore(communicator)) return;
  const EventType type = change.met ? EventType::kRequirementMet : EventType::kRequirementUnmet;
  const std::string label = communicator.label();
  EventData data(
      type, change.met ? fmt::format("{} of communicator '{}' is kept again", name.second, label)
                       : fmt::format("{} of communicator '{}' is missed: {:.4g} instead of "
                                     "{:.4g} {}",
                                     name.second, label, change.measured, change.granted,
                                     InWords(change.unit)));
  data.Set(fields::kRequirement, change.requirement)
      .Set(fields::kGranted, change.granted)
      .Set(fields::kMeasured, change.measured)
      .Set(fields::kUnit, change.unit)
      .Set(fields::kCommunicator, label);
  if (for_seconds >= 0) data.Set(fields::kForSeconds, for_seconds);
  Tell(*communicator.job(), {type, SubjectOf(communicator), std::move(data)});
}

void JobEvents::OnEnded(const Communicator& communicator) {
  std::erase_if(unmet_, [&](const auto& one) { return one.first.first == communicator.id(); });
  degraded_.erase(communicator.id());
  congestion_.erase(communicator.id());
}

}  // namespace harmonaize::daemon
