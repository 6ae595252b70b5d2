#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/checkpoint/part_copies.h"
#include "daemon/checkpoint/part_eraser.h"
#include "daemon/jobs/job_table.h"
#include "daemon/provider_store/provider_store.h"
#include "daemon/provider_store/store_threads.h"
#include "daemon/runtime/lifetime.h"
#include "daemon/runtime/loop_timer.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

struct Tenant;

/// A checkpoint that the provider's store has whole.
struct StoredSave {
  checkpoint::CheckpointId id = {};
  int32_t ranks = 1;
  bool is_kept = false;
  double saved_seconds = 0;  ///< Since 1970.
  uint64_t bytes = 0;
};

/// What the provider's store has of a job.
struct StoredList {
  enum class State {
    kNone,        ///< This provider, or this tenant, has no store.
    kUnreadable,  ///< It cannot be read now.
    kRead,
  };
  State state = State::kNone;
  std::vector<StoredSave> saves = {};  ///< The newest first.
};

/// Reads checkpoints of the provider's store for ranks of this host: brings the ranges that they
/// ask for into memory. Thread: engine.
class StoredParts {
 public:
  struct Services {
    std::shared_ptr<const ProviderStore> store = {};  ///< nullptr: this provider has none.
    EventLoop* loop = nullptr;                        ///< Outlives this object.
    std::shared_ptr<PartEraser> eraser = {};
  };

  explicit StoredParts(const Services& services);

  bool has_store() const { return services_.store != nullptr; }

  using Listed = std::function<void(StoredList)>;
  /// Finds out what is stored of a job, and remembers it. Calls `listed` once. Why the store cannot
  /// be read is logged.
  void List(const Tenant& tenant, const JobTable::Key& job, Listed listed);

  using Fetched = PartCopies::Fetched;
  /// Brings a range of a part here. Calls `fetched` once, with the bytes of the part. Errors:
  /// kUnavailable if no List has named it; those of StoredImages::Read.
  void Fetch(const Tenant& tenant, const PartName& name, uint64_t at, uint64_t bytes,
             Fetched fetched);
  /// Returns what is here of a part by Fetch; no memory if nothing is.
  PartCopies::View Find(const PartName& name) const { return fetched_.Find(name); }

  /// Returns a job's name in the store. Errors: kInvalidUsage for a tenant who is known on this
  /// host alone.
  static Result<StoredJob> NameOf(const Tenant& tenant, const JobTable::Key& job);

 private:
  /// A checkpoint that is read. Only tasks of its tenant's, which run one after the other, look at
  /// `images`.
  struct Slot {
    std::shared_ptr<StoredImages> images = {};
  };
  struct Known {
    StoredJob job = {};
    std::map<uint64_t, checkpoint::CheckpointId> saves = {};  ///< By their numbers.
    std::map<uint64_t, std::shared_ptr<Slot>> open = {};      ///< Likewise.
    uint64_t used_ns = 0;
  };
  class Source;

  /// Pause between looks for what nobody has asked for lately.
  static constexpr std::chrono::seconds kLookEvery{2};

  void Watch();
  void LookAfter();

  const Services services_;
  StoreThreads threads_;
  std::map<JobTable::Key, Known> known_;
  PartCopies fetched_;  ///< For ranks that read.
  LoopTimer next_look_;
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
