#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/cluster/messages/probe.h"
#include "daemon/probing/probe_hello.h"
#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/probing/plain_traffic.h"
#include "src/topology/inference/measurements.h"

namespace harmonaize::daemon {

/// The end of a probe's connections that others connect to: listens at this host's NICs, sends
/// messages back, and counts what arrives. It works on a thread of its own.
class ProbeListener {
 public:
  struct Calls {
    /// Called on the thread with the result of a Count.
    std::function<void(ProbeResultMessage)> report;
    /// Called on the thread, once, if there was no Touch for `idle_limit`.
    std::function<void()> expired;
  };

  /// Opens a listener. Returns kSystemError, with the NIC that cannot be listened at.
  static Result<std::unique_ptr<ProbeListener>> Open(const std::vector<ProbedNic>& nics,
                                                     const ProbeToken& token,
                                                     std::chrono::milliseconds idle_limit,
                                                     Calls calls);
  /// Ends within milliseconds, whatever goes on; nothing is called afterwards.
  ~ProbeListener();
  ProbeListener(const ProbeListener&) = delete;
  ProbeListener& operator=(const ProbeListener&) = delete;

  /// This host's NICs, with the ports that are listened at.
  const std::vector<ProbeNic>& nics() const { return nics_; }

  // Thread: any.

  /// Notes that there is life in the probe.
  void Touch();
  /// Counts what comes over the connections of a set, and closes them.
  void Count(const ProbeRunMessage& run);

 private:
  struct Guest {
    FileDescriptor socket;
    ProbeClock::time_point came;
    std::vector<std::byte> said;      // bytes of its hello so far
    std::optional<ProbeHello> hello;  // set once it is let in
  };

  explicit ProbeListener(const ProbeToken& token, std::chrono::milliseconds idle_limit, Calls calls)
      : token_(token), idle_limit_(idle_limit), calls_(std::move(calls)) {}

  void Run();
  std::optional<ProbeRunMessage> TakeRun();
  void WaitForEvents();
  void Accept(int listener);
  void DropLateGuests();
  /// Serves a guest that is readable. Returns false if the guest is to go.
  bool Serve(Guest* guest);
  bool Greet(Guest* guest);
  bool SendBack(Guest* guest);
  void CountNow(const ProbeRunMessage& run);
  bool Expired();

  const ProbeToken token_;
  const std::chrono::milliseconds idle_limit_;
  const Calls calls_;
  std::vector<ProbeNic> nics_;
  std::vector<FileDescriptor> listeners_;
  FileDescriptor wake_;
  StopFlag stop_{false};
  std::list<Guest> guests_;

  std::mutex mutex_;
  std::vector<ProbeRunMessage> runs_;  // guarded by mutex_
  ProbeClock::time_point touched_;     // guarded by mutex_
  std::thread thread_;
};

}  // namespace harmonaize::daemon
