#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/checkpoint/part_image.h"
#include "src/checkpoint/shard.h"
#include "src/checkpoint/store_format.h"
#include "src/checkpoint/writer_messages.h"
#include "src/client/checkpoint/prepared_memory.h"
#include "src/client/checkpoint/provider_store.h"
#include "src/client/checkpoint/save_buffer.h"
#include "src/client/checkpoint/writer_process.h"
#include "src/client/session/session.h"
#include "src/ipc/messages.h"

namespace harmonaize {

class Communicator;

/// How a rank's checkpoints are made.
struct CheckpointerOptions {
  /// The store that they are written into; kProviderStore: the provider's; "": they stay in memory.
  std::string folder = {};
  checkpoint::StoreFormat format = checkpoint::StoreFormat::kSafetensors;
  uint32_t keep = 2;                   ///< As OpenStore::keep.
  uint64_t most_bytes_per_second = 0;  ///< Of this rank's writer; 0: no bound.
  uint32_t linger_seconds = 600;       ///< As OpenStore::linger_seconds.
  int threads = 0;                     ///< That copy; 0: the rank's share of the processors.
};

/// What has become of one save.
struct SaveRecord {
  uint64_t step = 0;
  uint64_t round = 0;
  uint64_t save = 0;
  bool is_in_memory = false;  ///< All ranks have their parts in memory.
  bool is_at_peer = false;    ///< Other hosts have copies of all parts in memory.
  bool is_stored = false;     ///< The checkpoint is committed in the store.
  Status failure = {};        ///< Why it will not be stored.
};

/// Saves a rank's parts of checkpoints: copies shards into shared memory, which the daemon keeps,
/// and has a writer store them. The ranks of a communicator save together, each its own shards.
/// Thread: one at a time.
class Checkpointer {
 public:
  /// Errors: those of FindWriter where a folder is named; kInvalidArgument for a folder's path that
  /// is not absolute; kInvalidUsage if the communicator is not ready, or the provider has no store
  /// and is to store; those of a question to the daemon.
  static Result<std::unique_ptr<Checkpointer>> Make(const Communicator& communicator,
                                                    const CheckpointerOptions& options);
  /// Ends without a word to the daemon, which goes on keeping what was saved.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  /// Begins a save: waits until the save before is complete at all ranks, and there is a buffer
  /// that nobody reads. Returns for each shard where its bytes are to be written before Commit.
  /// Errors: kInvalidArgument for shards that cannot be; the daemon's; kInvalidUsage if a save has
  /// begun already.
  Result<std::vector<std::byte*>> Begin(uint64_t step, bool is_kept,
                                        std::vector<checkpoint::Shard> shards);
  /// Ends the save that has begun: the part is whole.
  Status Commit();
  /// Gives up the save that has begun. The ranks that have committed it wait for this one. Errors:
  /// kInvalidUsage if none has begun.
  Status Abandon();
  /// Does both, and copies in between. `data` has the address of each shard's bytes.
  Status Save(uint64_t step, bool is_kept, std::vector<checkpoint::Shard> shards,
              std::span<const std::byte* const> data);

  /// Returns what has become of the newest save of a step. Errors: kInvalidArgument if this object
  /// does not know of one; those of a question to the daemon.
  Result<SaveRecord> Look(uint64_t step);
  enum class Place { kMemory, kPeer, kStorage };
  /// Waits until the newest save of a step is at a place. Errors: those of Look; why it failed;
  /// kInProgress if it takes longer than `timeout`.
  Status Await(uint64_t step, Place place, std::chrono::milliseconds timeout);

  /// Takes the memory back from the daemon, which forgets what was saved in it. What was handed to
  /// the writer is stored all the same.
  Status Close();

 private:
  struct Slot {
    std::unique_ptr<SaveBuffer> buffer;
    bool is_being_written = false;  ///< The writer reads it.
    bool is_spoilt =
        false;  ///< A writer that was given up may read it: another buffer has to take its place.
    uint64_t save = 0;  ///< What lies in it.
  };
  struct BegunSave {
    size_t slot = 0;
    uint64_t round = 0;
    checkpoint::PartIdentity identity;
    std::chrono::steady_clock::time_point since;
  };

  Checkpointer(const Communicator& communicator, const CheckpointerOptions& options);

  Status LayOut(std::vector<checkpoint::Shard> shards);
  Status MakeRoom(Slot* slot);
  Result<SharedMemory> MemoryFor(uint64_t bytes);
  void PrepareNext();
  Status AwaitWriter(const Slot& slot);
  Result<BeginSaveReply> AwaitRound(const Slot& slot, uint64_t step);
  Status HandOver(const BegunSave& begun);
  Status StartWriter();
  Status HearWriter(int timeout_ms);
  void LoseWriter(const Status& why);
  void Take(const checkpoint::FromWriter& message);
  SaveRecord* FindRecord(uint64_t save);
  bool has_provider_store() const { return options_.folder == kProviderStore; }
  Status CheckFolder();
  Result<SavedReply> AskDaemon();

  const std::shared_ptr<Session> session_;
  const uint32_t member_;
  const int rank_;
  const int ranks_;
  const std::string job_;
  const CheckpointerOptions options_;
  const int threads_;
  checkpoint::PartLayout layout_;
  std::array<Slot, 2> slots_;
  size_t next_slot_ = 0;
  std::unique_ptr<PreparedMemory> prepared_;  ///< For the next slot, which has no buffer yet.
  std::optional<BegunSave> begun_;
  std::unique_ptr<WriterProcess> writer_;
  std::deque<SaveRecord> records_;  ///< The newest last.
};

}  // namespace harmonaize
