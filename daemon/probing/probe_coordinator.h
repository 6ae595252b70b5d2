#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/cluster/messages/message.h"
#include "daemon/cluster/messages/probe.h"
#include "daemon/probing/probe_hello.h"
#include "src/base/status.h"
#include "src/probing/plain_traffic.h"
#include "src/topology/inference/inference.h"

namespace harmonaize::daemon {

/// Makes names differ: the second "rack1" becomes "rack1-2". Each name still fits IsFabricName.
void MakeNamesUnique(std::vector<std::string>* names);

/// Leads a probe: has daemons measure what NextProbes asks for until there is no more to ask. It
/// does so on a thread of its own, which waits for each answer for a limited time.
class ProbeCoordinator {
 public:
  struct Calls {
    /// Sends to a daemon, by its place in `daemons`. Called on the thread.
    std::function<void(size_t daemon, ClusterMessage message)> send;
    /// Tells people what is being measured. Called on the thread.
    std::function<void(const std::string& what)> progress;
    /// Called at the end, with FormatMeasurements of all that was measured, once all daemons have
    /// been told. The last call on the thread.
    std::function<void(const Result<std::string>& measured)> done;
  };

  /// `daemons` has the names by which the operator knows each, for errors; two or more. `seconds`
  /// is how long each set of transfers runs.
  ProbeCoordinator(uint64_t probe, std::vector<std::string> daemons, double seconds, Calls calls);
  /// Ends the probe within moments, as Cancel does.
  ~ProbeCoordinator();
  ProbeCoordinator(const ProbeCoordinator&) = delete;
  ProbeCoordinator& operator=(const ProbeCoordinator&) = delete;

  // Thread: any.

  /// Takes in a ProbeReadyMessage, ProbeResultMessage or ProbeEndMessage from a daemon.
  void Deliver(size_t daemon, ClusterMessage message);
  /// Ends the probe with this error.
  void Cancel(const Status& why);

 private:
  struct Place {
    size_t daemon = 0;
    int nic = 0;  ///< As the daemon counts them.
    ProbeNic at;
  };
  using Answers = std::map<size_t, ProbeResultMessage>;  // by daemon

  void Run();
  Status Probe();
  Status Open();
  Status TakeReady(const std::map<size_t, ProbeReadyMessage>& ready);
  Status MeasureRoundTrips(const std::vector<std::pair<Endpoint, Endpoint>>& pairs);
  Status MeasureBatch(std::span<const std::pair<Endpoint, Endpoint>> pairs, int samples);
  Status MeasureTransfers(const TransferSet& set, double seconds);
  Status TakeCounts(const TransferSet& set, const Answers& answers, double seconds);
  ProbeTarget TargetFor(Endpoint from, Endpoint to) const;
  size_t BatchLength(std::span<const std::pair<Endpoint, Endpoint>> pairs) const;
  const Place& PlaceOf(Endpoint endpoint) const {
    return places_[static_cast<size_t>(endpoint.host)][static_cast<size_t>(endpoint.nic)];
  }
  std::string NameOf(size_t daemon) const;

  /// Waits for a message of this kind and step from each of these daemons.
  template <typename Message>
  Result<std::map<size_t, Message>> WaitFor(const std::vector<size_t>& from, uint64_t step,
                                            double seconds);
  Result<std::pair<size_t, ClusterMessage>> TakeMessage(ProbeClock::time_point deadline);

  const uint64_t probe_;
  const std::vector<std::string> daemons_;
  const double seconds_;
  const Calls calls_;
  std::vector<ProbeToken> tokens_;          // by daemon
  std::vector<std::vector<Place>> places_;  // by host and NIC of measurements_
  Measurements measurements_;
  uint64_t step_ = 0;

  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::pair<size_t, ClusterMessage>> inbox_;  // guarded by mutex_
  Status cancelled_;                                     // guarded by mutex_
  std::thread thread_;
};

}  // namespace harmonaize::daemon
