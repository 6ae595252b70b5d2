#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace harmonaize::daemon {

/// Requests and connections of this process's HTTP servers since it started. Thread: any.
class HttpCounters {
 public:
  /// Answers are counted by status below this.
  static constexpr size_t kStatuses = 600;

  void AddConnection() {
    connections_.fetch_add(1, std::memory_order_relaxed);
    open_.fetch_add(1, std::memory_order_relaxed);
  }
  void RemoveConnection() { open_.fetch_sub(1, std::memory_order_relaxed); }
  void AddAnswer(int status) {
    const auto index = static_cast<size_t>(status);
    if (index < kStatuses) answers_[index].fetch_add(1, std::memory_order_relaxed);
  }

  uint64_t connections() const { return connections_.load(std::memory_order_relaxed); }
  uint64_t open() const { return open_.load(std::memory_order_relaxed); }
  uint64_t answers(size_t status) const { return answers_[status].load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> connections_{0};
  std::atomic<uint64_t> open_{0};  ///< Connections that are open now.
  std::array<std::atomic<uint64_t>, kStatuses> answers_{};
};

/// Returns the counters of this process.
inline HttpCounters& CountersOfHttp() {
  static HttpCounters counters;
  return counters;
}

}  // namespace harmonaize::daemon
