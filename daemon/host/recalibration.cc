#include "daemon/host/recalibration.h"

#include <algorithm>
#include <utility>

#include "daemon/runtime/guarded.h"
#include "src/base/log.h"

namespace harmonaize::daemon {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Recalibration::Recalibration(Means means) : Recalibration(std::move(means), Times()) {}

Recalibration::Recalibration(Means means, const Times& times)
    : means_(std::move(means)), times_(times), interval_(times.first) {}

Recalibration::~Recalibration() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Recalibration::Begin() {
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
    if (std::exchange(wanted_, true)) return;
    next_ = NextTry();
  }
  changed_.notify_all();
}

Recalibration::State Recalibration::state() const {
  const std::lock_guard lock(mutex_);
  const std::chrono::duration<double> left = next_ - steady_clock::now();
  return {wanted_, tries_, wanted_ ? std::max(0.0, left.count()) : 0};
}

void Recalibration::Run() {
  while (AwaitTry()) {
    Try outcome = Try::kBusy;
    GuardedAndLogged("measuring this host again", [&] { outcome = TryOnce(); });
    Settle(outcome);
  }
}

bool Recalibration::AwaitTry() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!wanted_) {
      changed_.wait(lock);
    } else if (steady_clock::now() < next_) {
      changed_.wait_until(lock, next_);
    } else {
      return true;
    }
  }
  return false;
}

Recalibration::Try Recalibration::TryOnce() {
  const std::optional<Activity> before = Ask();
  if (!before || before->busy || !Pause(times_.rest) || !AtRestSince(*before)) return Try::kBusy;
  Result<Calibration> measured =
      MeasureNow(means_.host, means_.measure,
                 [&](const HostLoad& so_far) { return !so_far.heavy() && AtRestSince(*before); });
  if (!measured.ok()) {
    if (measured.status().code() != Code::kInProgress) {
      Log(LogLevel::kInfo, kLogTuning, "this host could not be measured again: {}",
          measured.status().message());
    }
    return Try::kBusy;
  }
  // A calibration that is unsure again is used too: it is newer, and was made at rest.
  const bool sure = measured->sure();
  KeepCalibration(means_.folder, *measured);
  means_.use(std::move(*measured));
  return sure ? Try::kSure : Try::kUnsure;
}

std::optional<Activity> Recalibration::Ask() {
  {
    const std::lock_guard lock(mutex_);
    answer_.reset();
  }
  means_.ask([this](const Activity& activity) {
    const std::lock_guard lock(mutex_);
    answer_ = activity;
    changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopping_ || answer_.has_value(); });
  return stopping_ ? std::nullopt : answer_;
}

bool Recalibration::AtRestSince(const Activity& before) {
  const std::optional<Activity> now = Ask();
  return now && !now->busy && now->operations == before.operations;
}

bool Recalibration::Pause(milliseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return stopping_; });
}

void Recalibration::Settle(Try outcome) {
  const std::lock_guard lock(mutex_);
  ++tries_;
  if (outcome == Try::kSure) wanted_ = false;
  const milliseconds longest =
      outcome == Try::kBusy ? std::max(interval_, times_.longest_while_busy) : times_.longest;
  interval_ = std::min(2 * interval_, longest);
  next_ = NextTry();
}

// A random part is added because daemons that started on one host at the same moment would
// otherwise disturb each other at every try.
steady_clock::time_point Recalibration::NextTry() {
  std::uniform_int_distribution<milliseconds::rep> more(0, interval_.count() / 2);
  return steady_clock::now() + interval_ + milliseconds(more(random_));
}

}  // namespace harmonaize::daemon
