#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/cluster/messages/checkpoint.h"
#include "daemon/jobs/job_table.h"
#include "daemon/runtime/lifetime.h"
#include "daemon/runtime/loop_timer.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Cluster;
class Communicator;
class EventLoop;

/// Parts that another host has.
struct HostSaves {
  transport::PeerId peer = 0;
  std::vector<HeldSave> saves;
};

/// Asks other hosts which parts of a job's checkpoints they have, and where one can be read.
/// Thread: engine.
class SaveCatalogue {
 public:
  /// All of these outlive this object.
  struct Services {
    Cluster* cluster = nullptr;  ///< nullptr where this host stands alone: nobody is asked then.
    EventLoop* loop = nullptr;
  };

  explicit SaveCatalogue(const Services& services)
      : services_(services), next_look_(services.loop) {}

  using Listed = std::function<void(std::vector<HostSaves>)>;
  /// Asks the hosts of the communicator, and all others that this one is linked with. Calls
  /// `listed` once, with what has been answered within a second or two.
  void List(const Communicator& communicator, Listed listed);

  using Located = std::function<void(const Result<PartAtMessage>&)>;
  /// Asks a host to give away a part. Calls `located` once. Errors: kRemoteError if it does not
  /// answer; its own.
  void Locate(const Communicator& communicator, transport::PeerId peer, uint64_t save, int rank,
              Located located);

  void OnSaves(transport::PeerId peer, const SavesMessage& answer);
  void OnPartAt(transport::PeerId peer, const PartAtMessage& answer);
  void OnPeerLost(transport::PeerId peer);

 private:
  struct Listing {
    std::set<transport::PeerId> asked = {};  ///< That have not answered.
    int reaching = 0;                        ///< Hosts that are being reached.
    std::vector<HostSaves> found = {};
    Listed listed;
    uint64_t until_ns = 0;
  };
  struct Locating {
    transport::PeerId peer = 0;
    Located located;
    uint64_t until_ns = 0;
  };

  void AskAt(uint64_t call, const Communicator& communicator, const AskSavesMessage& ask,
             const std::string& address);
  void EndIfAnswered(uint64_t call);
  void EndListing(uint64_t call);
  void Watch();
  void EndOverdue();

  const Services services_;
  uint64_t next_call_ = 1;
  std::map<uint64_t, Listing> listings_;
  std::map<uint64_t, Locating> locatings_;
  LoopTimer next_look_;
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
