#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plugins/torch/source/library.h"
#include "plugins/torch/source/torch_version.h"

namespace harmonaize_torch {

class Operation;

/// One communicator of the library, from before its id is known to its end. It is made without
/// waiting for other ranks: operations that come before it has formed are kept in their order.
/// Thread: any.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  /// `name` is shown by `harmonaize status`. `rank` is this process's, of `size`. This one fails
  /// when `parent` has, which may be null: that has its ranks, and is told of those that died.
  Communicator(std::string name, int rank, int size, std::shared_ptr<Communicator> parent);
  /// Takes over a communicator of the library, which may still be forming.
  Communicator(std::string name, int rank, int size, ncclComm_t formed);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  /// Requires: no operation is in flight; each holds a pointer to its communicator.
  ~Communicator();

  /// Says which communicator this is, to form it from now on.
  void SetId(const ncclUniqueId& id);

  /// Takes the operation behind those before it. GoOn has to follow.
  void Keep(const c10::intrusive_ptr<Operation>& operation);

  /// Launches what is kept, or has it watched until that is possible. A failure is the operation's.
  void GoOn();

  /// Goes on with forming, and launches operations that were kept. Returns whether there is nothing
  /// left to go on with.
  bool Advance();

  /// Returns whether the communicator has formed.
  /// Throws: BackendError when it cannot form, or has failed.
  bool Formed();

  /// Ends all operations with an error that says `reason`, and refuses new ones. A communicator
  /// that failed before keeps its first reason. Waits for no other rank.
  void Fail(const std::string& reason);

  /// Fail, and releases what the library has.
  void Abort(const std::string& reason);

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// The reason that Fail was given, or "".
  std::string failure();

  /// Returns why operations on this communicator would fail, or "". Asks the library now and then.
  std::string WhyBroken();

  /// Fails where `parent` is broken, whose ranks may have gone on to another group.
  void EndWithParent();

  /// Returns the ranks that are gone, rising: as many as a shrink can leave out at most. Asks the
  /// daemon. Throws: BackendError while the communicator is forming, or without the daemon.
  std::vector<int> LostRanks();

  /// Returns what the library last said about this communicator: where operations wait, for whom.
  std::string LastWord();

  /// Makes the communicator of those who are not in `excluded`. With `abort`, operations in flight
  /// end with an error first. Collective among those who stay.
  std::shared_ptr<Communicator> Shrink(std::vector<int> excluded, bool abort);

 private:
  /// Operations that ended while the lock was held: what others do when they hear of it may come
  /// back here, so they are told when it is free.
  using Ended = std::vector<c10::intrusive_ptr<Operation>>;

  [[nodiscard]] Ended LaunchKept();
  void Tell(const Ended& ended);
  void GoOnForming();
  void FailLocked(const std::string& reason);

  const std::string name_;
  const int rank_;
  const int size_;

  const std::shared_ptr<Communicator> parent_;  ///< May be null.

  std::mutex mutex_;  // guards what follows, and the order of calls on `handle_`
  std::optional<ncclUniqueId> id_;
  ncclComm_t handle_ = nullptr;
  bool formed_ = false;
  std::string failure_;
  std::string broken_;  // What the library said last when it was asked.
  std::chrono::steady_clock::time_point asked_;
  std::deque<c10::intrusive_ptr<Operation>> kept_;
};

}  // namespace harmonaize_torch
