#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugins/torch/source/communicator.h"
#include "plugins/torch/source/message_counts.h"
#include "plugins/torch/source/torch_version.h"

namespace harmonaize_torch {

/// Where the ranks of a group meet.
struct GroupPlace {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{0};
  std::string name;  ///< Of the group, for errors and `harmonaize status`.
};

/// This rank's part in a group, from when its ranks came together until it is given up or
/// reconfigured: the communicators, and what was counted on them. Thread: any.
class Membership : public std::enable_shared_from_this<Membership> {
 public:
  /// Waits until all ranks of the group have come, for `place.timeout` at most.
  /// Throws: BackendError that names the ranks that have not come, or says why there is no daemon.
  static std::shared_ptr<Membership> Form(GroupPlace place);

  /// Takes over a communicator that is forming, and waits likewise.
  static std::shared_ptr<Membership> Form(GroupPlace place, std::shared_ptr<Communicator> main);

  Membership(GroupPlace place, std::shared_ptr<Communicator> main);

  const GroupPlace& place() const { return place_; }
  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  c10d::Store& store() const { return *place_.store; }

  /// The communicator of all ranks.
  const std::shared_ptr<Communicator>& main() const { return main_; }

  /// The store for errands, whose thread alone may call this.
  c10d::Store& store_for_errands();

  /// Returns the communicator that `key` names, which its ranks form when they first need it.
  /// `maker` says whether this rank publishes the id. Throws: BackendError after Abort.
  std::shared_ptr<Communicator> Further(const std::string& key, int rank, int size, bool maker);

  /// Ends everything in flight with an error that says `reason`, at this rank at once.
  void Abort(const std::string& reason);

  /// Ends what is in flight on all communicators but the main one with an error that says `reason`.
  void FailFurther(const std::string& reason);

  /// Lets go of all communicators but the main one.
  void LetGoOfFurther();

  MessageCounts sent;
  MessageCounts received;
  std::atomic<bool> takes_any{false};  ///< This rank has said in the store that it does.
  std::atomic<uint64_t> monitored_barriers{0};
  std::atomic<uint64_t> shrinks{0};  ///< Those that have succeeded.

 private:
  const GroupPlace place_;
  const std::shared_ptr<Communicator> main_;

  c10::intrusive_ptr<c10d::Store> errands_store_;  // Of the errands' thread.

  std::mutex mutex_;  // guards what follows
  std::string aborted_;
  std::map<std::string, std::shared_ptr<Communicator>> further_;
};

/// Returns those of the group's ranks that have not set their key "<prefix><rank>".
std::vector<int> RanksWithoutKey(const GroupPlace& place, const std::string& prefix);

/// Returns "rank 3" or "ranks 1, 2".
std::string ListOfRanks(const std::vector<int>& ranks);

/// How long a thread that waits for other ranks' keys in the store sleeps between looks: a look is
/// a message to another process.
constexpr std::chrono::milliseconds kStoreLook{2};

}  // namespace harmonaize_torch
