#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/runtime/background.h"
#include "src/base/status.h"
#include "src/probing/nic_counters.h"
#include "src/probing/rdma_counters.h"

namespace harmonaize::daemon {

/// The load of a NIC of this host, by all programs together.
struct NicLoad {
  size_t nic = 0;  ///< Its place among the devices of NicWatch.
  double sent_bytes_per_second = 0;
  double received_bytes_per_second = 0;
  /// The fewest bytes that waited to be sent at the last two looks; < 0: not known.
  double queued_bytes = -1;
};

/// Looks at the counters of this host's NICs, on a thread of its own, since the kernel may let it
/// wait while somebody changes the network's settings. Looks only when it is asked to.
class NicWatch {
 public:
  /// `devices` is by number; "" stands for one that is not known, and is left out. Errors:
  /// kSystemError.
  static Result<std::unique_ptr<NicWatch>> Open(std::vector<std::string> devices);
  NicWatch(std::vector<std::string> devices, std::unique_ptr<NicCounterReader> reader)
      : devices_(std::move(devices)), reader_(std::move(reader)) {}

  /// Begins a look, unless one is under way.
  void Look();
  /// Returns the loads between the last two looks. Empty before there are two, and if they lie
  /// further apart, or further back, than `longest_ns`.
  std::vector<NicLoad> Loads(uint64_t longest_ns) const;
  /// Returns the counters as of the last look.
  std::vector<NicCounters> Counters() const;
  /// Returns the counters of all RDMA ports of this host, read once a second at most, as some cards
  /// take their time.
  std::vector<RdmaCounters> Rdma() const;

 private:
  struct Counted {
    uint64_t at_ns = 0;
    std::vector<NicCounters> nics;
  };
  void Read();
  void ReadRdma(uint64_t now_ns);

  const std::vector<std::string> devices_;
  const std::unique_ptr<NicCounterReader> reader_;  // the thread's
  mutable std::mutex mutex_;
  bool looking_ = false;            // guarded by mutex_
  Counted before_;                  // likewise
  Counted last_;                    // likewise
  std::vector<RdmaCounters> rdma_;  // likewise
  uint64_t next_rdma_ns_ = 0;       // the thread's
  Background thread_;               // ends first
};

}  // namespace harmonaize::daemon
