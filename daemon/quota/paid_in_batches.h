#pragma once

#include <cstdint>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// Counts how many things of one kind a tenant has paid for, where they are many and small: it pays
/// for a batch at once, and keeps what it has paid for. Thread: one.
class PaidInBatches {
 public:
  /// `bytes_each` is the memory that one of them takes.
  explicit PaidInBatches(int64_t bytes_each) : bytes_each_(bytes_each) {}

  /// Sees to it that `wanted` things are paid for. `pay` charges the tenant for so many bytes.
  /// Requires: `wanted` is at most one more than were covered before. Errors: those of `pay`.
  template <typename Pay>
  Status Cover(int64_t wanted, Pay&& pay) {
    if (wanted <= paid_) return Status::Ok();
    HZ_RETURN_IF_ERROR(pay(kBatch * bytes_each_));
    paid_ += kBatch;
    return Status::Ok();
  }

 private:
  /// Things that are paid for at once.
  static constexpr int64_t kBatch = 64;

  const int64_t bytes_each_;
  int64_t paid_ = 0;
};

}  // namespace harmonaize::daemon
