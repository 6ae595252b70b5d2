#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/checkpoint/kept_parts.h"
#include "daemon/checkpoint/other_hosts_parts.h"
#include "daemon/checkpoint/part_eraser.h"
#include "daemon/checkpoint/rank_choices.h"
#include "daemon/checkpoint/replication_queue.h"
#include "daemon/checkpoint/round_storage.h"
#include "daemon/checkpoint/save_listings.h"
#include "daemon/checkpoint/save_rounds.h"
#include "daemon/checkpoint/stored_parts.h"
#include "daemon/cluster/messages/message.h"
#include "daemon/communicator/communicator_observer.h"
#include "daemon/jobs/job_table.h"
#include "daemon/runtime/loop_timer.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Cluster;
class Communicator;
class CommunicatorRegistry;
class EventLoop;
class JobEvents;
class SessionKeeper;
class TenantTable;

/// Keeps what ranks save in memory (docs/checkpoints.md): the buffers of ranks of this host, beyond
/// their ranks' end, and at the home of a communicator, which of its saves all ranks have. The
/// daemon looks into no buffer. Thread: engine.
class CheckpointKeeper final : public CommunicatorObserver {
 public:
  /// All of these outlive this object.
  struct Services {
    Cluster* cluster = nullptr;  ///< nullptr where this host stands alone.
    const CommunicatorRegistry* communicators = nullptr;
    JobTable* jobs = nullptr;
    JobEvents* events = nullptr;
    SessionKeeper* sessions = nullptr;
    TenantTable* tenants = nullptr;
    EventLoop* loop = nullptr;
    std::shared_ptr<const ProviderStore> store = {};  ///< nullptr: this provider has none.
    /// For how long parts outlive the last rank of their job on this host, in seconds.
    double keep_seconds = 0;
  };

  explicit CheckpointKeeper(const Services& services);

  // Requests of a rank. `session` is that of its process, and `rank` one of its ranks.

  /// Takes in memory of a rank, which was paid for. Returns the buffer's number. Errors:
  /// kInvalidUsage if the rank has lent as many buffers as it may, or another host's daemon knows
  /// nothing of checkpoints.
  Result<uint32_t> Lend(uint32_t session, const Communicator& communicator, int rank,
                        std::shared_ptr<RegionMemory> memory, uint64_t bytes);
  /// Gives a buffer back, if that has not been done yet: the keeper does it by itself where a
  /// rank's communicator has ended. Errors: kInvalidArgument if another session has lent it, or
  /// none.
  Status Return(uint32_t session, uint32_t buffer);

  struct Begun {
    uint64_t round = 0;
    uint64_t save = 0;
    /// Whether other ranks have not saved yet what the rank has: nothing has begun then.
    bool waits = false;
  };
  /// Voids what lies in a buffer, which the rank is about to overwrite. Errors: kInvalidArgument if
  /// the session has no such buffer; kInvalidUsage if its part is the rank's newest complete one,
  /// or ranks have disagreed; kRemoteError if the communicator is gone, or what ended it.
  Result<Begun> Begin(uint32_t session, uint32_t buffer, uint64_t step);
  struct Commitment {
    uint64_t bytes = 0;
    double stall_seconds = 0;
    bool is_kept = false;
    bool to_store = false;  ///< The provider is to store it, once all ranks have their parts.
  };
  /// Notes that the part is whole. Errors: those of Begin; kInvalidUsage if none was begun.
  Status Commit(uint32_t session, uint32_t buffer, const Commitment& commitment);

  struct Saved {
    uint64_t round = 0;  ///< The newest complete one; 0: none.
    uint64_t step = 0;
    uint64_t peer_round = 0;  ///< The newest one of which other hosts have copies; 0: none.
    uint64_t stored = 0;      ///< Bit i: round `round` - i is in the provider's store.
    uint64_t not_stored = 0;  ///< Bit i: round `round` - i was to be there, and will not be.
  };
  /// Returns what all ranks of a communicator have saved. Errors: kInvalidUsage if ranks have
  /// disagreed.
  Result<Saved> SavedBy(const Communicator& communicator) const;

  const KeptParts& parts() const { return parts_; }
  /// The parts that other hosts have, and those that the provider's store has.
  OtherHostsParts& others() { return others_; }
  StoredParts& stored() { return stored_; }

  /// Lists the checkpoints of a job, wherever they are.
  SaveListings& listings() { return listings_; }

  /// Carries the choices of a communicator's rank 0 to its other ranks.
  RankChoices& choices() { return choices_; }

  /// Takes in a message of another daemon, if it is about checkpoints.
  void OnMessage(transport::PeerId peer, const ClusterMessage& message);
  void OnPeerLost(transport::PeerId peer);

  // CommunicatorObserver.

  void OnEnded(const Communicator& communicator) override;

 private:
  /// What is known of the saves of a communicator.
  struct Saves {
    uint64_t key = 0;  ///< The same at all its hosts: saves are numbered by it.
    std::optional<SaveRounds> rounds = {};  ///< At the home.
    Saved complete = {};
    // At the home: whether the open round is to be stored, and which hosts the ranks' parts are at.
    bool to_store = false;
    std::vector<transport::PeerId> of_rank = {};
    std::set<int> at_peer = {};  ///< At the home: ranks with copies of round `complete`.
    Status failure = {};         ///< Why no further round becomes complete.
    /// When the first part of the open round came, since 1970; 0: none has.
    double begun_seconds = 0;
    double completed_seconds = 0;   ///< The same of the round that was completed last.
    uint64_t earlier_until_ns = 0;  ///< Until then what earlier runs have saved is kept at most.
  };

  /// Pause between looks at all buffers: short beside the time for which parts are kept, long
  /// beside what a look takes.
  static constexpr std::chrono::seconds kLookEvery{2};

  Saves& SavesOf(const Communicator& communicator);
  bool HasSavedSince(const KeptPart& of_rank, uint64_t round) const;
  Status CheckLent(uint32_t session, uint32_t buffer);
  Result<KeptPart*> FindUsable(uint32_t session, uint32_t buffer, Communicator** communicator);
  void TakePart(Communicator& communicator, const SaveRounds::Part& part, transport::PeerId from,
                bool to_store);
  void OnPartSaved(transport::PeerId peer, const PartSavedMessage& message);
  void OnRoundComplete(transport::PeerId peer, const RoundCompleteMessage& message);
  void Complete(const Communicator& communicator, const Saved& saved, const Status& failure);
  /// The home tells the other hosts what it has found.
  static void TellHosts(Communicator& communicator, uint64_t key, const Saved& saved,
                        const Status& failure);
  void TellSaved(const Communicator& communicator, const Saves& saves, bool at_peer);
  void LetEarlierGo(const Communicator& communicator, const Saves& saves);
  bool MayKeepEarlier(const Communicator& communicator) const;
  void FollowStoring(const Communicator& communicator, const Saves& saves);
  void StoreRound(const Communicator& communicator, uint64_t round);
  void OnStored(const RoundToStore& round, const Status& status);
  void TellStored(const RoundToStore& round, const Status& status);
  void ReplicateRound(const Communicator& communicator, uint64_t round);
  void ReplicateNext();
  Communicator* FindByKey(uint64_t key) const;
  void OnKept(transport::PeerId peer, const PartKeptMessage& kept);
  void TakeCopy(Communicator& communicator, int rank, uint64_t round);
  void RefreshCopies();
  void Watch();
  void LookAfterParts();

  const Services services_;
  KeptParts parts_;
  OtherHostsParts others_;
  StoredParts stored_;
  RoundStorage storage_;
  RankChoices choices_;
  SaveListings listings_;
  ReplicationQueue replication_;
  uint64_t refreshed_ns_ = 0;        ///< When other hosts were asked last to go on keeping copies.
  std::map<uint64_t, Saves> saves_;  ///< By Communicator::id.
  LoopTimer next_look_;
};

}  // namespace harmonaize::daemon
