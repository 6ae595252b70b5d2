#include "src/transport/queue/pace.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "src/base/clock.h"

namespace harmonaize::transport {
namespace {

/// Least bytes that may go at once after a pause: a frame.
constexpr double kLeastBurst = 64 << 10;
/// Nanoseconds whose bytes may go at once after a pause, because the thread may be that late while
/// others are busy.
constexpr double kBurstNs = 2e6;

}  // namespace

Result<std::unique_ptr<Pace>> Pace::Create(Poller* poller, double bytes_per_second) {
  FileDescriptor timer(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer.valid()) return ErrnoError(errno, "cannot make a timer");
  auto pace = std::make_unique<Pace>(poller, std::move(timer));
  HZ_RETURN_IF_ERROR(poller->Add(pace->timer_.get(), EPOLLIN, pace.get()));
  pace->refilled_ns_ = MonotonicNanoseconds();
  pace->SetRate(bytes_per_second);
  return pace;
}

Pace::~Pace() {
  Wake();
  poller_->Remove(timer_.get(), this);
}

void Pace::SetRate(double bytes_per_second) {
  Refill();
  bytes_per_ns_ = std::max(bytes_per_second, kLeastRate) * 1e-9;
}

void Pace::Refill() {
  const uint64_t now_ns = MonotonicNanoseconds();
  const double most = std::max(kLeastBurst, kBurstNs * bytes_per_ns_);
  tokens_ += static_cast<double>(now_ns - refilled_ns_) * bytes_per_ns_;
  tokens_ = std::min(tokens_, most);
  refilled_ns_ = now_ns;
}

bool Pace::Admit(Poller::Handler* writer) {
  Refill();
  if (tokens_ > 0) return true;
  const bool first = waiting_.empty();
  if (std::find(waiting_.begin(), waiting_.end(), writer) == waiting_.end()) {
    waiting_.push_back(writer);
  }
  if (!first) return false;
  const double wait_ns = std::min(1 - tokens_ / bytes_per_ns_, 1e9);
  itimerspec setting{};
  setting.it_value.tv_sec = static_cast<time_t>(wait_ns / 1e9);
  setting.it_value.tv_nsec = static_cast<long>(std::fmod(wait_ns, 1e9));
  timerfd_settime(timer_.get(), 0, &setting, nullptr);
  return false;
}

void Pace::OnReady(uint32_t /*events*/) {
  uint64_t expirations = 0;
  if (read(timer_.get(), &expirations, sizeof expirations) == sizeof expirations) Wake();
}

// Wakes all writers: the first one may use all tokens, and the others then wait again.
void Pace::Wake() {
  for (Poller::Handler* writer : waiting_) poller_->Later(writer);
  waiting_.clear();
}

void Pace::Forget(Poller::Handler* writer) {
  std::erase(waiting_, writer);
}

void TenantPaces::Set(const RailLimits& limits) {
  std::map<uint32_t, std::unique_ptr<Pace>> paces;
  for (const TenantLimit& limit : limits) {
    std::unique_ptr<Pace>& pace = paces[limit.tenant];
    const auto before = paces_.find(limit.tenant);
    if (before != paces_.end()) {
      pace = std::move(before->second);
      pace->SetRate(limit.bytes_per_second);
    } else if (Result<std::unique_ptr<Pace>> made = Pace::Create(poller_, limit.bytes_per_second);
               made.ok()) {
      pace = std::move(*made);
    }
  }
  std::erase_if(paces_, [](const auto& one) { return one.second == nullptr; });
  paces_ = std::move(paces);
}

Pace* TenantPaces::Of(uint32_t tenant) const {
  const auto found = paces_.find(tenant);
  return found == paces_.end() ? nullptr : found->second.get();
}

void TenantPaces::Forget(Poller::Handler* writer) {
  for (const auto& [tenant, pace] : paces_) {
    if (pace != nullptr) pace->Forget(writer);
  }
}

}  // namespace harmonaize::transport
