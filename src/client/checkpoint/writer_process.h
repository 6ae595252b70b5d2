#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "src/base/own_descriptor.h"
#include "src/base/status.h"
#include "src/checkpoint/writer_messages.h"

namespace harmonaize {

/// Returns the path of harmonaize-writer: that of HARMONAIZE_WRITER, or beside this library.
/// Errors: kSystemError, with the places, if it is at none.
Result<std::string> FindWriter();

/// A rank's harmonaize-writer (writer/), which writes what the rank saves into a store. It outlives
/// the rank. Thread: one at a time.
class WriterProcess {
 public:
  /// Starts one and has it open a store. What becomes of that is told with the saves. Errors:
  /// those of FindWriter; kSystemError if no process can be started.
  static Result<std::unique_ptr<WriterProcess>> Start(const checkpoint::OpenStore& store);
  WriterProcess(const WriterProcess&) = delete;
  WriterProcess& operator=(const WriterProcess&) = delete;

  // Errors of these: kRemoteError if the writer is gone.

  /// Lends it a buffer, with its descriptor.
  Status Lend(const checkpoint::LendBuffer& buffer, int descriptor);
  /// Hands it a save.
  Status Save(const checkpoint::SaveImage& save);
  /// Returns its next message; nullopt if none comes within so many milliseconds.
  Result<std::optional<checkpoint::FromWriter>> Next(int timeout_ms);

 private:
  explicit WriterProcess(FileDescriptor socket) : socket_(std::move(socket)) {}

  Status Send(const checkpoint::ToWriter& message, int descriptor);

  OwnDescriptor socket_;
};

}  // namespace harmonaize
