#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/checkpoint/writer_messages.h"
#include "src/ipc/control_socket.h"
#include "src/store/commit.h"
#include "src/store/part_writer.h"
#include "src/store/store.h"

namespace harmonaize::writer {

/// Writes what one rank hands over, one save after the other, and follows each until it is
/// committed. Thread: one.
class Writer {
 public:
  explicit Writer(ControlSocket socket);

  /// Works until the rank has gone and all is done, or its time is up. Errors: kInvalidArgument if
  /// the rank says what it may not say.
  Status Run();

 private:
  /// A buffer of the rank's.
  struct Buffer {
    FileDescriptor memory;
    uint64_t bytes = 0;
  };
  /// A save whose part is written, and that is not committed yet.
  struct Pending {
    store::Commit commit;
    uint64_t begun_ns = 0;     ///< When the rank had handed it over.
    uint64_t deadline_ns = 0;  ///< When it is given up.
    uint64_t bytes = 0;
  };
  struct Queued {
    checkpoint::SaveImage save;
    std::shared_ptr<const Buffer> buffer;  ///< As it was lent when the save was handed over.
    uint64_t at_ns = 0;                    ///< When the rank handed it over.
  };

  // What the rank says.
  Status Receive(int timeout_ms);
  Status Take(ControlMessage message);
  Status Take(checkpoint::OpenStore open);
  Status Take(const checkpoint::LendBuffer& lend, ControlMessage* message);
  Status Take(const checkpoint::SaveImage& save);
  void Send(const checkpoint::FromWriter& message);
  void NoteThatRankHasGone();

  // Saves.
  void WriteNext();
  Result<checkpoint::PartManifest> WritePart(const Queued& queued,
                                             std::optional<store::OpenCheckpoint>* checkpoint);
  Status OpenTheStore();
  Status GoOn();
  void Fail(const checkpoint::SaveImage& save, const Status& status);

  // Commits.
  void Follow(store::OpenCheckpoint checkpoint, const Queued& queued, uint64_t bytes);
  void LookAtCommits();
  /// Returns whether it is settled.
  bool LookAt(Pending* pending);
  void OnCommitted(const Pending& pending);
  void TidyUp();
  /// Returns whether there is something to look at: a save that is not committed, or an old
  /// checkpoint that is to be removed.
  bool HasToLook() const { return !pending_.empty() || tidy_until_ns_ != 0; }
  void GiveUp(Pending* pending, const Status& status);
  int MillisecondsToNextLook() const;

  ControlSocket socket_;
  bool has_rank_ = true;
  uint64_t end_ns_ = UINT64_MAX;  ///< When this process ends, whatever is left to do.
  std::optional<checkpoint::OpenStore> open_;
  std::map<uint32_t, std::shared_ptr<const Buffer>> buffers_;
  std::deque<Queued> queue_;
  std::optional<store::Store> store_;
  std::unique_ptr<store::PartWriter> part_writer_;
  std::deque<Pending> pending_;
  uint64_t next_look_ns_ = 0;
  uint64_t look_pause_ns_ = 0;  ///< Between two looks; it grows while nothing comes.
  /// Until when old checkpoints are removed that others are still at; 0: there is none.
  uint64_t tidy_until_ns_ = 0;
  bool has_swept_ = false;  ///< Whether the pool was searched for what nobody has.
};

}  // namespace harmonaize::writer
