#include "src/transport/queue/pace.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "src/base/clock.h"

namespace harmonaize::transport {

Result<std::unique_ptr<WriterWaits>> WriterWaits::Create(Poller* poller) {
  FileDescriptor timer(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer.valid()) return ErrnoError(errno, "cannot make a timer");
  auto waits = std::make_unique<WriterWaits>(poller, std::move(timer));
  HZ_RETURN_IF_ERROR(poller->Add(waits->timer_.get(), EPOLLIN, waits.get()));
  return waits;
}

WriterWaits::~WriterWaits() {
  Wake();
  poller_->Remove(timer_.get(), this);
}

void WriterWaits::Add(Poller::Handler* writer, double wait_ns, uint64_t now_ns) {
  const bool first = waiting_.empty();
  if (std::find(waiting_.begin(), waiting_.end(), writer) == waiting_.end()) {
    waiting_.push_back(writer);
  }
  const auto wait = static_cast<uint64_t>(std::clamp(wait_ns, 1.0, kLongestWaitNs));
  if (!first && due_ns_ <= now_ns + wait) return;
  due_ns_ = now_ns + wait;
  itimerspec setting{};
  setting.it_value.tv_sec = static_cast<time_t>(wait / 1'000'000'000);
  setting.it_value.tv_nsec = static_cast<long>(wait % 1'000'000'000);
  timerfd_settime(timer_.get(), 0, &setting, nullptr);
}

void WriterWaits::Forget(Poller::Handler* writer) {
  std::erase(waiting_, writer);
}

void WriterWaits::OnReady(uint32_t /*events*/) {
  uint64_t expirations = 0;
  if (read(timer_.get(), &expirations, sizeof expirations) == sizeof expirations) Wake();
}

// Wakes all writers: the first ones use what may go, and the others then wait again. The one that
// has waited first goes last the next time, or a writer that always has data would shut the others
// out.
void WriterWaits::Wake() {
  if (!waiting_.empty()) std::rotate(waiting_.begin(), waiting_.begin() + 1, waiting_.end());
  for (Poller::Handler* writer : waiting_) poller_->Later(writer);
  waiting_.clear();
}

Result<std::unique_ptr<Pace>> Pace::Create(Poller* poller, double bytes_per_second) {
  HZ_ASSIGN_OR_RETURN(std::unique_ptr<WriterWaits> waits, WriterWaits::Create(poller));
  return std::make_unique<Pace>(std::move(waits), bytes_per_second);
}

Pace::Pace(std::unique_ptr<WriterWaits> waits, double bytes_per_second)
    : waits_(std::move(waits)),
      tokens_(std::max(bytes_per_second, kLeastRate), MonotonicNanoseconds()) {}

void Pace::SetRate(double bytes_per_second) {
  tokens_.SetRate(std::max(bytes_per_second, kLeastRate), MonotonicNanoseconds());
}

void RailPaces::Set(const RailLimits& limits) {
  std::map<Owner, std::unique_ptr<Pace>> paces;
  for (const OwnerLimit& limit : limits) {
    const Owner owner{limit.tenant, limit.owner};
    std::unique_ptr<Pace>& pace = paces[owner];
    const auto before = paces_.find(owner);
    if (pace == nullptr && before != paces_.end()) pace = std::move(before->second);
    if (pace != nullptr) {
      pace->SetRate(limit.bytes_per_second);
    } else if (Result<std::unique_ptr<Pace>> made = Pace::Create(poller_, limit.bytes_per_second);
               made.ok()) {
      pace = std::move(*made);
    }
  }
  std::erase_if(paces, [](const auto& one) { return one.second == nullptr; });
  paces_ = std::move(paces);
}

Pace* RailPaces::Of(uint32_t tenant, uint64_t owner) const {
  const auto found = paces_.find({tenant, owner});
  return found == paces_.end() ? nullptr : found->second.get();
}

void RailPaces::Forget(Poller::Handler* writer) {
  for (const auto& [owner, pace] : paces_) pace->Forget(writer);
}

}  // namespace harmonaize::transport
