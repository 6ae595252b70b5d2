#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "daemon/checkpoint/part_memory.h"
#include "daemon/checkpoint/part_name.h"
#include "daemon/cluster/this_daemon.h"
#include "daemon/jobs/job_table.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

/// The state of a buffer that a rank has lent.
enum class PartState : uint8_t {
  kNothing,    ///< Nothing whole: it was never written, or is being overwritten.
  kCommitted,  ///< A part. Whether the other ranks have theirs is not known.
  kComplete,   ///< A part, of a checkpoint that all ranks have.
};

/// Memory that a rank has lent the daemon for checkpoints, and the part that lies in it. It
/// outlives the rank.
struct KeptPart {
  JobTable::Key job = {};
  std::shared_ptr<const PartMemory> memory = {};
  /// Set before what lies in it is overwritten; another one belongs to each part.
  std::shared_ptr<std::atomic<bool>> is_void = {};
  uint64_t buffer_bytes = 0;
  uint32_t session = 0;       ///< Of the rank's process.
  uint64_t communicator = 0;  ///< Communicator::id.
  int rank = 0;
  int ranks = 1;
  PartState state = PartState::kNothing;
  // The part that the buffer holds.
  uint64_t round = 0;  ///< SaveRounds.
  uint64_t step = 0;
  uint64_t save = 0;
  uint64_t bytes = 0;
  bool is_kept = false;
  bool to_store = false;                 ///< The provider is to store it.
  double saved_seconds = 0;              ///< When it was committed, since 1970.
  transport::PeerId peer = kThisDaemon;  ///< The host that keeps a copy; kThisDaemon: none does.
  bool is_copy = false;  ///< Of another host's part: `communicator` is the key, not the id.
  // The state of the rank that has lent it.
  bool is_orphan = false;       ///< The rank's process has ended, or its communicator has.
  double job_seen_seconds = 0;  ///< When a rank of its job was here last, since 1970.

  PartName name() const { return {.job = job, .save = save, .rank = rank}; }
  /// Returns whether a rank of this host has saved it in a round of a communicator (its id), and
  /// all ranks have theirs.
  bool IsOfCompleteRound(uint64_t id, uint64_t of_round) const {
    return !is_copy && communicator == id && state == PartState::kComplete && round == of_round;
  }
};

/// The parts that this host keeps in memory. A plain container. Thread: engine.
class KeptParts {
 public:
  using ByBuffer = std::map<uint32_t, KeptPart>;

  /// Takes in a buffer. Returns its number, which no other has.
  uint32_t Add(KeptPart part);
  /// Returns nullptr if there is no such buffer, or it is another session's.
  KeptPart* Find(uint32_t buffer, uint32_t session);
  /// Gives a buffer back.
  void Erase(uint32_t buffer);
  /// Returns whether a buffer of this number was here, and was given back.
  bool WasErased(uint32_t buffer) const;

  /// Takes in a copy of another host's part. Copies of the same rank's earlier rounds are not
  /// needed any more, nor are those of the job's other communicators that their host has not asked
  /// to be kept for a while, and are given back.
  void AddCopy(KeptPart copy);
  /// Notes that a copy is still wanted. Returns false if there is none.
  bool RefreshCopy(const JobTable::Key& job, uint64_t save, int rank, double now_seconds);

  /// Notes that all ranks of a communicator have their parts of a round.
  void Complete(const JobTable::Key& job, uint64_t communicator, uint64_t round);
  /// Gives back the parts of the job's other communicators whose ranks have gone. Does nothing
  /// while this host has no complete part of `communicator`.
  void DropEarlier(const JobTable::Key& job, uint64_t communicator);
  /// Returns the bytes of the buffers that this host's ranks of a communicator have lent.
  uint64_t BytesLent(const JobTable::Key& job, uint64_t communicator) const;

  struct Look {
    double now_seconds = 0;   ///< Since 1970.
    double keep_seconds = 0;  ///< For how long parts outlive the last rank of their job here.
    std::function<bool(const KeptPart&)> has_rank;  ///< Asked of parts of this host's ranks.
    std::function<bool(const JobTable::Key&)> has_job;
  };
  /// Notes which buffers have lost their ranks, and gives back what nobody needs of these: all but
  /// the newest part of each rank, and that, too, when its time is over.
  void LookAfter(const Look& look);

  bool empty() const { return jobs_.empty(); }
  const std::map<JobTable::Key, ByBuffer>& jobs() const { return jobs_; }
  /// Calls `visit(buffer, part)` for each, which may not add or erase any.
  template <typename Visit>
  void VisitAll(Visit&& visit) {
    for (auto& [job, parts] : jobs_) {
      for (auto& [buffer, part] : parts) visit(buffer, part);
    }
  }
  /// Returns the buffers of a job; nullptr if there are none.
  const ByBuffer* Of(const JobTable::Key& job) const;
  /// Returns the part of a rank in a save; nullptr if it is not here.
  const KeptPart* FindPart(const JobTable::Key& job, uint64_t save, int rank) const;

 private:
  KeptPart* FindCopy(const JobTable::Key& job, uint64_t save, int rank);
  /// Notes which buffers of a job have lost their ranks, and adds those that nobody needs to
  /// `unneeded`.
  static void LookAfterJob(const Look& look, bool is_here, ByBuffer* parts,
                           std::vector<uint32_t>* unneeded);

  uint32_t next_ = 1;
  std::map<JobTable::Key, ByBuffer> jobs_;
  std::map<uint32_t, JobTable::Key> job_of_;  ///< By buffer.
};

}  // namespace harmonaize::daemon
