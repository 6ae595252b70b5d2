#include "perf/harness/team.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace harmonaize::perf {
namespace {

double CombineTwo(double a, double b, Combine combine) {
  switch (combine) {
    case Combine::kFirst: return a;
    case Combine::kMinimum: return std::min(a, b);
    case Combine::kMaximum: return std::max(a, b);
    default: return a + b;
  }
}

}  // namespace

Result<double> Team::ReduceOverProcesses(double value, Combine combine) {
  const std::string_view mine(reinterpret_cast<const char*>(&value), sizeof(value));
  HZ_ASSIGN_OR_RETURN(std::vector<std::string> all, bootstrap_->AllGather(mine));
  double total = 0;
  for (size_t process = 0; process < all.size(); ++process) {
    double theirs = 0;
    if (all[process].size() != sizeof(theirs)) return InternalError("processes are out of step");
    std::memcpy(&theirs, all[process].data(), sizeof(theirs));
    total = process == 0 ? theirs : CombineTwo(total, theirs, combine);
  }
  if (combine == Combine::kAverage) total /= static_cast<double>(all.size()) * threads_;
  return total;
}

Result<double> Team::Reduce(int thread, double value, Combine combine) {
  std::unique_lock lock(mutex_);
  if (!failure_.ok()) return failure_;
  if (combine == Combine::kFirst) {
    if (thread == 0) accumulator_ = value;
  } else {
    accumulator_ = arrived_ == 0 ? value : CombineTwo(accumulator_, value, combine);
  }
  if (++arrived_ < threads_) {
    const uint64_t mine = round_;
    changed_.wait(lock, [&] { return round_ != mine || !failure_.ok(); });
    return round_ != mine ? Result<double>(result_) : Result<double>(failure_);
  }
  // The last thread speaks for the process; the others wait for its answer anyway.
  Result<double> total = ReduceOverProcesses(accumulator_, combine);
  arrived_ = 0;
  if (total.ok()) {
    result_ = *total;
    ++round_;
  } else {
    failure_ = total.status();
  }
  changed_.notify_all();
  return total;
}

void Team::Fail(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = status;
  changed_.notify_all();
}

}  // namespace harmonaize::perf
