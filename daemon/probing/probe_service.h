#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/cluster/messages/message.h"
#include "daemon/cluster/this_daemon.h"
#include "daemon/probing/probe_coordinator.h"
#include "daemon/probing/probe_listener.h"
#include "daemon/probing/probe_work.h"
#include "src/transport/transport.h"

namespace harmonaize::daemon {

class Background;
class Cluster;
class EventLoop;
struct Config;

/// Returns addresses of daemons, one from each line; an address without a port gets
/// kDefaultClusterPort. Returns kInvalidArgument with the line that is no address.
Result<std::vector<transport::NetworkAddress>> ParseProbeAddresses(std::string_view lines);

/// The probes that this daemon leads, for its provider, and takes part in, for another daemon or
/// itself: one of each at a time. Work that takes time is done by their own threads. Thread:
/// engine.
class ProbeService {
 public:
  struct Services {
    const Config* config = nullptr;
    EventLoop* loop = nullptr;  ///< The engine's loop.
    Background* background = nullptr;
    Cluster* cluster = nullptr;  ///< nullptr if this host stands alone.
  };

  /// Requires: all objects that the services name outlive the probes.
  explicit ProbeService(const Services& services) : services_(services) {}
  ~ProbeService() { Clear(); }
  ProbeService(const ProbeService&) = delete;
  ProbeService& operator=(const ProbeService&) = delete;

  struct Order {
    std::vector<transport::NetworkAddress> addresses;  ///< Empty: all linked daemons, and this one.
    double seconds = 0;
    bool by_operator = false;
  };
  struct Calls {
    std::function<void(const std::string& what)> progress;
    /// Called with FormatMeasurements of all that was measured.
    std::function<void(const Result<std::string>& measured)> done;
  };
  /// Leads a probe; makes the calls later, on the engine's thread. Returns a number that stands for
  /// the probe in Cancel. Returns kInvalidUsage if the reader is no operator, for a daemon that
  /// stands alone, and while another probe is led here.
  Result<uint64_t> Lead(const Order& order, Calls calls);
  /// Ends a probe whose asker does not wait any more.
  void Cancel(uint64_t probe);

  void OnMessage(transport::PeerId peer, const ClusterMessage& message);
  void OnPeerLost(transport::PeerId peer);
  /// Ends all probes, without the calls that are due.
  void Clear();

 private:
  struct Led {
    uint64_t probe = 0;
    double seconds = 0;
    Calls calls;
    std::vector<transport::PeerId> peers{};  ///< By daemon: its peer.
    std::vector<std::string> names{};
    size_t unreached = 0;
    Status failure{};
    std::unique_ptr<ProbeCoordinator> coordinator{};
  };
  struct Joined {
    uint64_t probe = 0;
    transport::PeerId coordinator = kThisDaemon;
    size_t nics = 0;
    std::unique_ptr<ProbeListener> listener{};
    std::unique_ptr<ProbeWork> work{};
  };

  void Reach(const std::vector<transport::NetworkAddress>& addresses);
  void AddLinked();
  void AddDaemon(transport::PeerId peer, const std::string& name);
  void OnReached(uint64_t probe, size_t daemon, const Result<transport::PeerId>& peer);
  void ForgetDoubles();
  void BeginWhenReached();
  void Finish(uint64_t probe, const Result<std::string>& measured);
  void SendTo(transport::PeerId peer, ClusterMessage message);
  void PostTo(transport::PeerId peer, ClusterMessage message);

  void ToCoordinator(transport::PeerId peer, uint64_t probe, const ClusterMessage& message);
  std::string NameOfLeader(transport::PeerId peer) const;
  ProbeReadyMessage Join(transport::PeerId peer, const ProbeOpenMessage& open);
  void TakeTask(transport::PeerId peer, const ProbeRoundTripsMessage& task);
  void TakeTask(transport::PeerId peer, const ProbeConnectMessage& task);
  void TakeTask(transport::PeerId peer, const ProbeRunMessage& task);
  template <typename Task, typename Begin>
  void TakeChecked(transport::PeerId peer, const Task& task, const Status& checked, Begin begin);
  void OnEnd(transport::PeerId peer, const ProbeEndMessage& end);
  void LeaveProbe();

  const Services services_;
  std::optional<Led> led_;
  std::optional<Joined> joined_;
};

}  // namespace harmonaize::daemon
