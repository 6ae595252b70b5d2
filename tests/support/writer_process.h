#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/checkpoint/part_image.h"
#include "src/checkpoint/writer_messages.h"
#include "src/ipc/control_socket.h"

namespace harmonaize::testing {

/// A harmonaize-writer and its rank's end of the socket. The writer goes on when this is gone, as
/// it does without its rank.
class WriterProcess {
 public:
  /// Starts a writer, and names its store. Errors: kSystemError.
  static Result<std::unique_ptr<WriterProcess>> Start(const checkpoint::OpenStore& options);

  /// Lends a buffer of its own for an image, and hands it over.
  Status Save(const checkpoint::PartIdentity& identity, const std::vector<std::byte>& image);
  /// Sends any text with any descriptors.
  Status Say(const std::string& text, std::span<const int> descriptors = {});

  /// Returns what the writer says next. Errors: kInProgress if nothing comes; kRemoteError once the
  /// writer has ended.
  Result<checkpoint::FromWriter> Next(int timeout_ms = 60'000);
  /// Waits until this save is committed. Errors: what the writer says of it.
  Status WaitForCommit(uint64_t step);

 private:
  explicit WriterProcess(ControlSocket socket) : socket_(std::move(socket)) {}

  ControlSocket socket_;
  uint32_t next_buffer_ = 0;
};

/// Has the kernel make this process the parent of those below it that lose theirs, as writers do.
void AdoptOrphans();
/// Returns the processes whose parent this one is.
std::vector<pid_t> Children();
/// Kills a child, or waits for its end, and returns its status as waitpid(2) does.
int Kill(pid_t child);
int WaitFor(pid_t child);

}  // namespace harmonaize::testing
