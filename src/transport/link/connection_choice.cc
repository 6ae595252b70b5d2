#include "src/transport/link/connection_choice.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace harmonaize::transport {
namespace {

// Nanoseconds over which the rate is measured: longer than the bursts in which messages are posted.
constexpr uint64_t kPeriodNs = 5'000'000;

}  // namespace

void ConnectionChoice::Add() {
  places_.push_back({places_.size(), 0});
}

size_t ConnectionChoice::Choose(size_t bytes, uint64_t now_ns) {
  CountRate(now_ns, bytes);
  if (in_use_ > 1 && places_[in_use_ - 1].until_ns < now_ns) --in_use_;
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  uint64_t shortest_queue_ns = std::numeric_limits<uint64_t>::max();
  for (size_t place = 0; place < in_use_; ++place) {
    const size_t connection = places_[place].connection;
    const Backlog backlog = connections_->BacklogOf(connection, now_ns);
    const double before = BytesBefore(backlog);
    if (before <= static_cast<double>(kNothingBytes)) return connection;
    shortest_queue_ns = std::min(shortest_queue_ns, backlog.queueing_ns);
    if (before >= least) continue;
    least = before;
    best = place;
  }
  const size_t other = Try(now_ns, shortest_queue_ns);
  return places_[other == 0 ? best : other].connection;
}

size_t ConnectionChoice::Try(uint64_t now_ns, uint64_t queueing_ns) {
  if (queueing_ns < kNoQueueNs) return 0;
  if (trial_ == 0) {
    trial_ = PlaceToTry(now_ns);
    tried_ = 0;
  }
  if (trial_ == 0) return 0;
  Candidate& candidate = places_[trial_];
  const Backlog backlog = connections_->BacklogOf(candidate.connection, now_ns);
  const bool on_its_way = tried_ > 0 && backlog.bytes > kNothingBytes;
  // A way around a queue does not take longer than the queue.
  const uint64_t deadline_ns = tried_since_ns_ + queueing_ns + TimeOf(backlog.bytes);
  if (on_its_way && now_ns <= deadline_ns) return 0;
  if (!on_its_way && tried_ < kTrialMessages) {
    ++tried_;
    tried_since_ns_ = now_ns;
    return trial_;
  }
  const size_t place = std::exchange(trial_, 0);
  if (on_its_way || backlog.queueing_ns >= queueing_ns / 2) {
    candidate.until_ns = now_ns + kRestNs;
    return 0;
  }
  candidate.until_ns = now_ns + kBelievedNs;
  std::swap(places_[place], places_[in_use_]);
  return in_use_++;
}

size_t ConnectionChoice::PlaceToTry(uint64_t now_ns) const {
  for (size_t place = in_use_; place < places_.size(); ++place) {
    if (places_[place].until_ns <= now_ns) return place;
  }
  return 0;
}

/// Returns the time that the whole rail takes for so many bytes.
uint64_t ConnectionChoice::TimeOf(size_t bytes) const {
  return bytes_per_ns_ <= 0 ? 0 : static_cast<uint64_t>(static_cast<double>(bytes) / bytes_per_ns_);
}

/// Returns the backlog as the bytes that the whole rail would carry in the same time. A connection
/// that shares its way with many others is slower than the rail.
double ConnectionChoice::BytesBefore(const Backlog& backlog) const {
  const bool slow = backlog.bytes_per_ns > 0 && backlog.bytes_per_ns < bytes_per_ns_;
  const double slower = slow ? bytes_per_ns_ / backlog.bytes_per_ns : 1;
  return static_cast<double>(backlog.bytes) * slower +
         static_cast<double>(backlog.queueing_ns) * bytes_per_ns_;
}

/// Measures the rail's rate. A pause of the sender does not mean a slow rail, so the rate is
/// forgotten slowly.
void ConnectionChoice::CountRate(uint64_t now_ns, size_t bytes) {
  const uint64_t past = now_ns - period_start_ns_;
  if (past >= kPeriodNs) {
    bytes_per_ns_ = std::max(static_cast<double>(period_bytes_) / static_cast<double>(past),
                             bytes_per_ns_ * 7 / 8);
    period_start_ns_ = now_ns;
    period_bytes_ = 0;
  }
  period_bytes_ += bytes;
}

}  // namespace harmonaize::transport
