#include "daemon/runtime/log_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace harmonaize::daemon {

LogCounters& CountersOfLog() {
  static LogCounters counters;
  return counters;
}

void LogQueue::AddLost() noexcept {
  ++own_.left_out;
  CountersOfLog().own_left_out.fetch_add(1, std::memory_order_relaxed);
}

void LogQueue::Add(LogLevel level, std::string_view text, const TenantIdentity* tenant,
                   uint64_t now_ns) {
  Source* const source = SourceOf(tenant, now_ns);
  if (source != &own_) {
    source->tokens = TokensAt(*source, now_ns);
    source->tokens_at_ns = now_ns;
  }
  const bool has_token = source == &own_ || source->tokens >= 1;
  // Missing lines of the daemon's own are reported where they are missing, and the report takes
  // room, too.
  const bool tells = source == &own_ && own_.left_out > 0;
  if (!has_token || RoomOf(*source) < (tells ? 2 : 1)) return LeaveOut(source, level, now_ns);
  if (tells) TellOf(source);
  if (source != &own_) source->tokens -= 1;
  Push(source, level, std::string(text.substr(0, kMostLineBytes)));
}

void LogQueue::Tell(uint64_t now_ns, bool all) {
  if (own_.left_out > 0 && (all || RoomOf(own_) > 0)) TellOf(&own_);
  while (!untold_.empty()) {
    Source* const source = untold_.front();
    const bool due = now_ns >= source->left_out_since_ns + kToldAfterNanoseconds;
    if (!all && (!due || RoomOf(*source) == 0)) return;
    TellOf(source);
    untold_.pop_front();
  }
}

std::optional<LogLine> LogQueue::Take() {
  if (lines_.empty()) return std::nullopt;
  std::optional<LogLine> line = std::move(lines_.front().line);
  --lines_.front().source->waiting;
  lines_.pop_front();
  return line;
}

std::optional<uint64_t> LogQueue::TellAt() const {
  if (own_.left_out > 0) return 0;
  if (untold_.empty()) return std::nullopt;
  return untold_.front()->left_out_since_ns + kToldAfterNanoseconds;
}

LogQueue::Source* LogQueue::SourceOf(const TenantIdentity* tenant, uint64_t now_ns) {
  if (tenant == nullptr) return &own_;
  const auto known = tenants_.find(tenant->number);
  if (known != tenants_.end()) return &known->second;
  if (tenants_.size() >= forget_at_) ForgetTheQuiet(now_ns);
  Source source;
  source.name = tenant->name;
  source.tokens = static_cast<double>(config_.tenant_burst);
  source.tokens_at_ns = now_ns;
  return &tenants_.emplace(tenant->number, std::move(source)).first->second;
}

// A tenant with a full bucket and no line in the queue can be forgotten, since a new tenant begins
// in that state. The next search comes when twice as many tenants are known as remain, so that
// searches cost each newcomer little.
void LogQueue::ForgetTheQuiet(uint64_t now_ns) {
  std::erase_if(tenants_, [&](const auto& tenant) {
    const Source& source = tenant.second;
    return source.waiting == 0 && source.left_out == 0 &&
           TokensAt(source, now_ns) >= static_cast<double>(config_.tenant_burst);
  });
  forget_at_ = std::max<size_t>(256, 2 * tenants_.size());
}

double LogQueue::TokensAt(const Source& source, uint64_t now_ns) const {
  const double seconds = static_cast<double>(now_ns - source.tokens_at_ns) * 1e-9;
  return std::min(static_cast<double>(config_.tenant_burst),
                  source.tokens + seconds * config_.tenant_lines_per_second);
}

// A tenant may have no more lines in the queue than it leaves places to the other tenants. So one
// tenant alone gets half of the places, and a newcomer always finds some. Account shares other
// resources in the same way.
size_t LogQueue::RoomOf(const Source& source) const {
  constexpr size_t kHalf = kMostLines / 2;
  if (&source == &own_) return kHalf - std::min(kHalf, own_.waiting);
  const size_t of_tenants = lines_.size() - own_.waiting;
  const size_t left = kHalf - std::min(kHalf, of_tenants);
  return left - std::min(left, source.waiting);
}

void LogQueue::LeaveOut(Source* source, LogLevel level, uint64_t now_ns) {
  if (source != &own_ && source->left_out == 0) {
    untold_.push_back(source);
    source->left_out_since_ns = now_ns;
  }
  ++source->left_out;
  LogCounters& counters = CountersOfLog();
  (source == &own_ ? counters.own_left_out : counters.tenants_left_out)
      .fetch_add(1, std::memory_order_relaxed);
  source->gravest = std::min(source->gravest, level);
}

// Push throws if there is no memory for the report, so the count is reset after it.
void LogQueue::TellOf(Source* source) {
  Push(source, source->gravest,
       source == &own_
           ? fmt::format("{} lines of the daemon's own are missing here", source->left_out)
           : fmt::format("tenant {}: {} lines left out", source->name, source->left_out));
  source->left_out = 0;
  source->gravest = LogLevel::kTrace;
}

void LogQueue::Push(Source* source, LogLevel level, std::string text) {
  lines_.push_back({source, {std::chrono::system_clock::now(), level, std::move(text)}});
  ++source->waiting;
  CountersOfLog().lines[static_cast<size_t>(level)].fetch_add(1, std::memory_order_relaxed);
}

}  // namespace harmonaize::daemon
