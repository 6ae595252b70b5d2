#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize::transport {

/// A stream of bytes to another daemon, and one from it, which outlives its TCP connection. When
/// the connection's way carries nothing any more, the bytes that the other side has not
/// acknowledged are taken back from the kernel (TCP_REPAIR, made for moving processes between
/// hosts). They go over another connection from the position that the other side has reached. While
/// ways work this costs two additions.
///
/// StreamMoves exchanges the positions. Thread: one.
class MovableStream {
 public:
  explicit MovableStream(FileDescriptor socket) : socket_(std::move(socket)) {}

  /// Returns whether this process may take bytes back, which needs CAP_NET_ADMIN.
  static bool Movable();

  bool open() const { return socket_.valid(); }
  int fd() const { return socket_.get(); }
  uint64_t read_bytes() const { return read_bytes_; }

  /// Write and Read work like sendmsg and recvmsg, errno included. Write fails with EAGAIN on a
  /// frozen stream, and until the bytes that are owed from the last move are written.
  ssize_t Write(const msghdr& message);
  ssize_t Read(msghdr* message);
  /// WriteOwed writes bytes owed from the last move as far as there is room; owes() tells whether
  /// any are left. On an error WriteOwed returns -1, with errno, like send.
  bool owes() const { return owed_written_ < owed_.size(); }
  ssize_t WriteOwed();

  /// Returns whether packets have been under way without an answer for so long, or sent again so
  /// often, that the way is taken to carry nothing. Asks the kernel while it holds anything.
  bool Stalled();

  /// Stops writing, and keeps the bytes that the other side has not acknowledged. Bytes that have
  /// arrived can still be read. No effect if frozen already. Errors: kSystemError.
  Status Freeze();
  bool frozen() const { return frozen_; }
  /// Goes on over another connection, from the byte of this side's stream that the other side
  /// expects next. Errors: kRemoteError for a position that it cannot expect.
  Status Continue(FileDescriptor socket, uint64_t expected);

  void Close() { socket_.Reset(); }

 private:
  Result<std::vector<std::byte>> TakeBack() const;
  void NoteHeld();

  FileDescriptor socket_;
  uint64_t read_bytes_ = 0;
  uint64_t written_bytes_ = 0;  // written by the user
  uint64_t over_this_ = 0;      // bytes of the stream that went over this connection
  bool held_ = true;            // whether the kernel may hold unacknowledged bytes
  uint64_t held_since_ns_ = 0;
  bool frozen_ = false;
  std::vector<std::byte> owed_;  // the last bytes written, which are to be sent again
  size_t owed_written_ = 0;
};

/// The owner of a movable stream, which stops it and goes on with it.
class StreamUser {
 public:
  virtual bool Stalled() = 0;
  /// Sends a few bytes without meaning, to test the way.
  virtual void Poke() = 0;
  /// Stops writing and waiting. No effect if frozen already. Errors: those of MovableStream.
  virtual Status Freeze() = 0;
  /// Reads all that has arrived over the frozen connection. Returns the byte that it expects next.
  virtual uint64_t Drain() = 0;
  /// Errors: those of MovableStream, and kSystemError; the stream is then of no use any more.
  virtual Status Continue(FileDescriptor socket, uint64_t expected) = 0;

 protected:
  ~StreamUser() = default;
};

}  // namespace harmonaize::transport
