#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cluster/messages/outcome.h"
#include "daemon/runtime/lifetime.h"
#include "daemon/runtime/waiting_count.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Cluster;
class Communicator;
class CommunicatorRegistry;

/// Finds out which ranks of a communicator are gone. The home knows it best: a daemon hears of
/// ranks of other hosts through the home alone. Where the home is lost, the daemon is asked at
/// which the ranks that are left would shrink. Thread: engine.
class LostRanks {
 public:
  /// All of these outlive the object.
  struct Services {
    const CommunicatorRegistry& communicators;
    WaitingCount& waiting;
    Cluster* cluster;                             ///< nullptr where this host stands alone.
    std::function<void(uint64_t at_ns)> tick_by;  ///< Has Tick called by this time.
  };
  struct Lost {
    int count = 0;           ///< Number of ranks that are gone.
    std::vector<int> ranks;  ///< The first of them, rising: kMostLostInMessage at most.
  };
  using Done = std::function<void(const Result<Lost>&)>;

  explicit LostRanks(const Services& services) : services_(services) {}

  /// Calls `done` once, at once or later. The daemons that are asked have a second to answer; else
  /// this one tells what is known by then. Errors: the communicator is gone by then.
  void Ask(const Communicator& communicator, Done done);

  void Tick(uint64_t now_ns);

  // What the cluster says.

  void OnAsk(transport::PeerId peer, const AskLostMessage& ask);
  void OnLost(transport::PeerId peer, const LostMessage& answer);
  void OnPeerLost(transport::PeerId peer);

 private:
  struct Call {
    uint64_t communicator = 0;   ///< Communicator::id.
    int successor = kHome;       ///< The host that is asked in place of the home.
    bool is_one_of_all = false;  ///< All hosts are asked, and this is one of the questions.
    uint64_t until_ns = 0;
    Lost found = {};                             ///< What other daemons have answered so far.
    std::optional<transport::PeerId> peer = {};  ///< None while it is being reached.
    Done done;
    WaitingHold waiting;
  };
  static constexpr int kHome = -1;

  uint64_t Begin(Call call);
  void AskSuccessor(const Communicator& communicator, Call call);
  void AskAll(const Communicator& communicator, Call call);
  void AskHost(const Communicator& communicator, Call call);
  void Send(uint64_t call, transport::PeerId peer, AskLostMessage ask);
  void End(uint64_t call, const LostMessage* answer);

  const Services services_;
  uint64_t next_call_ = 1;
  std::map<uint64_t, Call> calls_;
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
