#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "daemon/cluster/messages/probe.h"
#include "daemon/probing/probe_hello.h"
#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/probing/plain_traffic.h"

namespace harmonaize::daemon {

/// Returns kInvalidArgument with what is wrong unless a host with this many NICs can carry out the
/// coordinator's task, and the task is within what any host should do.
Status CheckProbeTask(const ProbeRoundTripsMessage& task, size_t nics);
Status CheckProbeTask(const ProbeConnectMessage& task, size_t nics);
Status CheckProbeTask(const ProbeRunMessage& task);

/// The end of a probe's connections that connects: measures round trips and sends. It works on a
/// thread of its own, one task after the other.
class ProbeWork {
 public:
  using Report = std::function<void(ProbeResultMessage)>;

  /// `nics` are this host's. `report` is called on the thread, once for each task but Send.
  ProbeWork(std::vector<ProbeNic> nics, Report report);
  /// Ends within milliseconds, whatever goes on; nothing is called afterwards.
  ~ProbeWork();
  ProbeWork(const ProbeWork&) = delete;
  ProbeWork& operator=(const ProbeWork&) = delete;

  // Thread: any. Requires: the tasks have been checked.

  void MeasureRoundTrips(ProbeRoundTripsMessage task) { Post(std::move(task)); }
  void Connect(ProbeConnectMessage task) { Post(std::move(task)); }
  /// Sends over the connections of a set, and closes them at the end.
  void Send(ProbeRunMessage task) { Post(std::move(task)); }

 private:
  using Task = std::variant<ProbeRoundTripsMessage, ProbeConnectMessage, ProbeRunMessage>;

  void Post(Task task);
  void Run();
  void CarryOut(const ProbeRoundTripsMessage& task);
  void CarryOut(const ProbeConnectMessage& task);
  void CarryOut(const ProbeRunMessage& task);
  std::vector<Result<FileDescriptor>> ConnectAll(const std::vector<ProbeTarget>& targets,
                                                 uint64_t set, std::chrono::milliseconds patience);
  Status Introduce(const FileDescriptor& socket, const ProbeTarget& target, uint64_t set,
                   ProbeClock::time_point deadline);
  /// `place` is where the other end is to be, ProbePlaces::other.
  Status Ping(const FileDescriptor& socket, uint8_t place, int samples,
              std::vector<double>* seconds);

  const std::vector<ProbeNic> nics_;
  const Report report_;
  StopFlag stop_{false};
  uint64_t set_ = 0;
  std::vector<FileDescriptor> connections_;  // of set_

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<Task> tasks_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace harmonaize::daemon
