#include "daemon/api/job_snapshots.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/reports/job_report.h"
#include "daemon/runtime/guarded.h"
#include "src/base/clock.h"

namespace harmonaize::daemon {
namespace {

/// Age, in nanoseconds, from which on a snapshot's memory is given back.
constexpr uint64_t kKeptNanoseconds = 2'000'000'000;

/// Stands for operators among the tenants.
constexpr uint32_t kOperators = UINT32_MAX;

}  // namespace

JobSnapshots::JobSnapshots(std::shared_ptr<EngineGate> gate, Report report, uint64_t fresh_ns)
    : gate_(std::move(gate)),
      report_(report),
      fresh_ns_(fresh_ns),
      thread_(std::make_unique<Background>()) {}

JobSnapshots::~JobSnapshots() {
  thread_.reset();
}

void JobSnapshots::Get(const HttpCaller& caller, Call call) {
  const uint32_t key = caller.is_operator() ? kOperators : caller.tenant.number;
  Snapshot fresh;
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    const uint64_t now = MonotonicNanoseconds();
    ForgetOld(now);
    Entry& entry = entries_[key];
    if (entry.snapshot != nullptr && now - entry.made_ns <= fresh_ns_) {
      fresh = entry.snapshot;
    } else {
      first = entry.waiting.empty();
      entry.waiting.push_back(call);
    }
  }
  if (fresh != nullptr) {
    return thread_->Post([call = std::move(call), fresh] { call(fresh); }, key);
  }
  if (first) Ask(key, caller);
}

// The engine only makes the list. Whoever asked works on it on this object's thread.
void JobSnapshots::Ask(uint32_t key, const HttpCaller& caller) {
  const Reader reader{.tenant = caller.tenant.number, .is_operator = caller.is_operator()};
  const bool asked = gate_->Post([this, key, reader](EngineRooms& rooms) {
    Snapshot list;
    // Without a list the callers are told to ask again; they must not wait for ever.
    GuardedAndLogged("a list of jobs", [&] {
      list = std::make_shared<const nlohmann::json>(report_(rooms.report_sources(), reader));
    });
    thread_->Post([this, key, list = std::move(list)] { Take(key, list); }, key);
  });
  if (!asked) thread_->Post([this, key] { Take(key, nullptr); }, key);
}

void JobSnapshots::Take(uint32_t key, Snapshot snapshot) {
  std::vector<Call> waiting;
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[key];
    entry.snapshot = snapshot;
    entry.made_ns = MonotonicNanoseconds();
    waiting.swap(entry.waiting);
  }
  for (const Call& call : waiting) call(snapshot);
}

void JobSnapshots::ForgetOld(uint64_t now_ns) {
  std::erase_if(entries_, [now_ns](const auto& entry) {
    return entry.second.waiting.empty() && now_ns - entry.second.made_ns > kKeptNanoseconds;
  });
}

}  // namespace harmonaize::daemon
