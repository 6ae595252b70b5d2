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

/// What a NIC of this host carries, whoever's it is.
struct NicLoad {
  size_t nic = 0;  ///< As NicWatch was told of it.
  double sent_bytes_per_second = 0;
  double received_bytes_per_second = 0;
  /// The least that waited to be sent at the last two looks; < 0: not known.
  double queued_bytes = -1;
};

/// Looks at what the NICs of this host have counted, on a thread of its own, since the kernel may
/// let it wait while somebody changes the network's settings. Looks only when it is asked to.
class NicWatch {
 public:
  /// Devices by number; "": not known, and left out. Errors: kSystemError.
  static Result<std::unique_ptr<NicWatch>> Open(std::vector<std::string> devices);
  NicWatch(std::vector<std::string> devices, std::unique_ptr<NicCounterReader> reader)
      : devices_(std::move(devices)), reader_(std::move(reader)) {}

  /// Begins a look, unless one is under way.
  void Look();
  /// From the last two looks; empty before, and where these lie further apart than `longest`.
  std::vector<NicLoad> Loads(uint64_t longest_ns) const;
  /// As of the last look.
  std::vector<NicCounters> Counters() const;
  /// Of all RDMA ports of this host; once a second at most, as some cards take their time.
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
