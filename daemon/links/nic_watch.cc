#include "daemon/links/nic_watch.h"

#include <algorithm>
#include <utility>

#include "daemon/runtime/guarded.h"
#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// Shortest time between two readings of RDMA counters, in nanoseconds: some cards take their time.
constexpr uint64_t kRdmaEveryNs = 1'000'000'000;

const NicCounters* Find(const std::vector<NicCounters>& nics, const std::string& device) {
  const auto found = std::find_if(
      nics.begin(), nics.end(), [&device](const NicCounters& one) { return one.device == device; });
  return found == nics.end() ? nullptr : &*found;
}

double Rate(uint64_t before, uint64_t now, double seconds) {
  return now < before ? 0 : static_cast<double>(now - before) / seconds;
}

}  // namespace

Result<std::unique_ptr<NicWatch>> NicWatch::Open(std::vector<std::string> devices) {
  HZ_ASSIGN_OR_RETURN(std::unique_ptr<NicCounterReader> reader, NicCounterReader::Open());
  return std::make_unique<NicWatch>(std::move(devices), std::move(reader));
}

void NicWatch::Look() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(looking_, true)) return;
  }
  thread_.Post([this] {
    Guarded([this] { Read(); },
            [this](const Status& exception) {
              const std::lock_guard lock(mutex_);
              looking_ = false;
              LogException("a look at NICs' counters", exception);
            });
  });
}

void NicWatch::Read() {
  std::vector<std::string> known;
  for (const std::string& device : devices_) {
    if (!device.empty()) known.push_back(device);
  }
  Result<std::vector<NicCounters>> counters = reader_->Read(known);
  const uint64_t now_ns = MonotonicNanoseconds();
  ReadRdma(now_ns);
  const std::lock_guard lock(mutex_);
  looking_ = false;
  if (!counters.ok()) {
    Log(LogLevel::kDebug, kLogTuning, "what NICs count cannot be read: {}",
        counters.status().message());
    return;
  }
  before_ = std::exchange(last_, Counted{now_ns, std::move(*counters)});
}

void NicWatch::ReadRdma(uint64_t now_ns) {
  if (now_ns < next_rdma_ns_) return;
  next_rdma_ns_ = now_ns + kRdmaEveryNs;
  std::vector<RdmaCounters> counters = ReadRdmaCounters();
  const std::lock_guard lock(mutex_);
  rdma_ = std::move(counters);
}

std::vector<RdmaCounters> NicWatch::Rdma() const {
  const std::lock_guard lock(mutex_);
  return rdma_;
}

std::vector<NicLoad> NicWatch::Loads(uint64_t longest_ns) const {
  const std::lock_guard lock(mutex_);
  std::vector<NicLoad> loads;
  const bool fresh = before_.at_ns != 0 && last_.at_ns - before_.at_ns <= longest_ns &&
                     MonotonicNanoseconds() - last_.at_ns <= longest_ns;
  if (!fresh) return loads;
  const double seconds = static_cast<double>(last_.at_ns - before_.at_ns) * 1e-9;
  for (size_t nic = 0; nic < devices_.size(); ++nic) {
    const NicCounters* const before = Find(before_.nics, devices_[nic]);
    const NicCounters* const now = Find(last_.nics, devices_[nic]);
    if (before == nullptr || now == nullptr) continue;
    NicLoad load{nic, Rate(before->sent_bytes, now->sent_bytes, seconds),
                 Rate(before->received_bytes, now->received_bytes, seconds), -1};
    if (before->queue.has_value() && now->queue.has_value()) {
      load.queued_bytes =
          static_cast<double>(std::min(before->queue->queued_bytes, now->queue->queued_bytes));
    }
    loads.push_back(load);
  }
  return loads;
}

std::vector<NicCounters> NicWatch::Counters() const {
  const std::lock_guard lock(mutex_);
  return last_.nics;
}

}  // namespace harmonaize::daemon
