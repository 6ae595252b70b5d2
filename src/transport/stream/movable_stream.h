#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize::transport {

/// A stream of bytes to another daemon, and one from it, which outlives its TCP connection: when
/// the way of that carries nothing any more, what the other side has not acknowledged is taken back
/// from the kernel (TCP_REPAIR, made for moving processes between hosts), and goes over another
/// connection from where the other side stands. While ways are well that costs two additions.
///
/// Who tells whom where they stand: StreamMoves. For one thread.
class MovableStream {
 public:
  explicit MovableStream(FileDescriptor socket) : socket_(std::move(socket)) {}

  /// Whether this process may take bytes back: that needs CAP_NET_ADMIN.
  static bool Movable();

  bool open() const { return socket_.valid(); }
  int fd() const { return socket_.get(); }
  uint64_t read_bytes() const { return read_bytes_; }

  /// As sendmsg and recvmsg, errno included. Nothing can be written to a frozen stream, nor before
  /// what it owes from its last move (EAGAIN).
  ssize_t Write(const msghdr& message);
  ssize_t Read(msghdr* message);
  /// Whether nothing is owed from the last move any more; writes what there is room for. Errors as
  /// send: -1 and errno.
  bool owes() const { return owed_written_ < owed_.size(); }
  ssize_t WriteOwed();

  /// Whether packets have been under way without an answer for so long, or sent again so often,
  /// that the way is taken to carry nothing. A question to the kernel, while it holds anything.
  bool Stalled();

  /// Nothing is written any more, and what the other side has not acknowledged is kept. What has
  /// come can still be read. Again: nothing. Errors: kSystemError.
  Status Freeze();
  bool frozen() const { return frozen_; }
  /// Goes on over another connection, from the byte of this side's stream that the other side
  /// expects next. Errors: kRemoteError for a place that it cannot expect.
  Status Continue(FileDescriptor socket, uint64_t expected);

  void Close() { socket_.Reset(); }

 private:
  Result<std::vector<std::byte>> TakeBack() const;
  void NoteHeld();

  FileDescriptor socket_;
  uint64_t read_bytes_ = 0;
  uint64_t written_bytes_ = 0;  // of the user
  uint64_t over_this_ = 0;      // of the stream, over this connection
  bool held_ = true;            // whether the kernel may hold something that was not acknowledged
  uint64_t held_since_ns_ = 0;
  bool frozen_ = false;
  std::vector<std::byte> owed_;  // the last bytes of what was written
  size_t owed_written_ = 0;
};

/// Who has a movable stream, and stops and goes on with it.
class StreamUser {
 public:
  virtual bool Stalled() = 0;
  /// Sends a few bytes that mean nothing: is there a way?
  virtual void Poke() = 0;
  /// Writes and awaits nothing any more. Again: nothing. Errors: as MovableStream's.
  virtual Status Freeze() = 0;
  /// Takes what has come over the frozen connection. The byte that it expects next.
  virtual uint64_t Drain() = 0;
  /// Errors: as MovableStream's, and kSystemError; then the stream is of no use any more.
  virtual Status Continue(FileDescriptor socket, uint64_t expected) = 0;

 protected:
  ~StreamUser() = default;
};

}  // namespace harmonaize::transport
