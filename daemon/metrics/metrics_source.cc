#include "daemon/metrics/metrics_source.h"

#include <utility>

#include "daemon/events/event_bus.h"
#include "daemon/http/http_counters.h"
#include "daemon/metrics/metrics_page.h"
#include "daemon/metrics/usage_ledger.h"
#include "daemon/runtime/background.h"
#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_queue.h"
#include "src/base/clock.h"

namespace harmonaize::daemon {
namespace {

/// Age, in nanoseconds, up to which a snapshot serves. Monitoring systems ask every few seconds, so
/// several of them at once cost the engine little more than one.
constexpr uint64_t kServesNanoseconds = 500'000'000;

/// Time, in nanoseconds, after which the engine is asked again although it has not answered: there
/// may have been no memory for the answer. It is far longer than an answer takes.
constexpr uint64_t kAnsweredNanoseconds = 10'000'000'000;
/// Most callers that wait for the engine. Callers that have hung up are among them, so it bounds
/// the memory while the engine stands still.
constexpr size_t kMostWaiting = 1024;

CountedElsewhere CountElsewhere(EventBus* bus) {
  CountedElsewhere counted;
  if (bus != nullptr) {
    EventBus::Counters events = bus->counters();
    counted.events_published = std::move(events.published);
    counted.events_repeated = events.repeated;
    counted.events_dropped = events.dropped;
    counted.events_unshared = events.unshared;
    counted.events_waiting = events.waiting;
    counted.event_subscribers = events.subscribers;
  }
  const HttpCounters& http = CountersOfHttp();
  counted.http_connections = http.connections();
  counted.http_open = http.open();
  for (size_t status = 0; status < HttpCounters::kStatuses; ++status) {
    counted.http_answers.push_back(http.answers(status));
  }
  const LogCounters& log = CountersOfLog();
  for (const auto& lines : log.lines) {
    counted.log_lines.push_back(lines.load(std::memory_order_relaxed));
  }
  counted.log_left_out_own = log.own_left_out.load(std::memory_order_relaxed);
  counted.log_left_out_tenants = log.tenants_left_out.load(std::memory_order_relaxed);
  return counted;
}

}  // namespace

void MetricsSource::Get(Call call) {
  Snapshot fresh;
  bool is_refused = false;
  bool asks = false;
  {
    const std::lock_guard lock(mutex_);
    const uint64_t now_ns = MonotonicNanoseconds();
    if (snapshot_ != nullptr && now_ns - made_ns_ <= kServesNanoseconds) {
      fresh = snapshot_;
    } else if (waiting_.size() >= kMostWaiting) {
      is_refused = true;
    } else {
      asks = waiting_.empty() || now_ns - asked_ns_ > kAnsweredNanoseconds;
      if (asks) asked_ns_ = now_ns;
      waiting_.push_back(call);
    }
  }
  if (fresh != nullptr || is_refused) {
    return services_.work->Post([call = std::move(call), fresh] { call(fresh); });
  }
  if (asks) Ask();
}

// Whatever fails, those who wait hear of it.
void MetricsSource::Ask() {
  const auto fail = [self = shared_from_this()] {
    self->services_.work->Post([self] { self->Hand(nullptr); });
  };
  const bool asked = services_.ask([self = shared_from_this(), fail](const ReportSources& sources) {
    Guarded(
        [&] {
          auto facts = std::make_shared<EngineFacts>(self->gatherer_.Gather(sources));
          sources.usage->KeepIfDue(MonotonicNanoseconds());
          self->services_.work->Post([self, facts] { self->Make(std::move(*facts)); });
        },
        [&](const Status& exception) {
          LogException("a look for metrics", exception);
          fail();
        });
  });
  if (!asked) fail();
}

void MetricsSource::Make(EngineFacts facts) {
  Snapshot made;
  GuardedAndLogged("a page of metrics", [&] {
    auto snapshot = std::make_shared<MetricsSnapshot>();
    snapshot->page =
        MetricsPage(facts, tenants_.Name(facts.tenants), CountElsewhere(services_.bus));
    snapshot->facts = std::move(facts);
    made = std::move(snapshot);
  });
  Hand(made);
}

void MetricsSource::Hand(const Snapshot& snapshot) {
  std::vector<Call> waiting;
  {
    const std::lock_guard lock(mutex_);
    snapshot_ = snapshot;
    made_ns_ = MonotonicNanoseconds();
    waiting.swap(waiting_);
  }
  for (const Call& call : waiting) {
    GuardedAndLogged("an answer about metrics", [&] { call(snapshot); });
  }
}

}  // namespace harmonaize::daemon
