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

CountedElsewhere CountElsewhere(EventBus* bus) {
  CountedElsewhere counted;
  if (bus != nullptr) {
    EventBus::Counters events = bus->counters();
    counted.events_published = std::move(events.published);
    counted.events_repeated = events.repeated;
    counted.events_dropped = events.dropped;
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
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    if (snapshot_ != nullptr && MonotonicNanoseconds() - made_ns_ <= kServesNanoseconds) {
      fresh = snapshot_;
    } else {
      first = waiting_.empty();
      waiting_.push_back(call);
    }
  }
  if (fresh != nullptr)
    return services_.work->Post([call = std::move(call), fresh] { call(fresh); });
  if (first) Ask();
}

// Whatever fails, those who wait hear of it: nobody would ask the engine again otherwise.
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
