#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

// OpenSSL's.
struct ssl_ctx_st;

namespace harmonaize::daemon {

/// A connection's bytes, with or without TLS. It keeps itself alive while an operation is under
/// way, and calls nobody once it is closed. Thread: the one that runs the context.
class ByteStream : public std::enable_shared_from_this<ByteStream> {
 public:
  enum class ReadEnd : uint8_t {
    kNone,    ///< There are bytes.
    kEof,     ///< The other side sends no more; it may still read.
    kBroken,  ///< The connection has ended.
  };
  using OnRead = std::function<void(ReadEnd, std::string_view)>;
  /// Called for each piece that the kernel has taken, and last with `done` or `broken`.
  enum class Sending : uint8_t { kProgress, kDone, kBroken };
  using OnWrite = std::function<void(Sending)>;

  /// Takes over a connected socket, and leaves it in `socket` if that fails. `tls`: what TLS is
  /// spoken with; nullptr: without.
  static Result<std::shared_ptr<ByteStream>> Make(boost::asio::io_context* context,
                                                  FileDescriptor* socket, ssl_ctx_st* tls);
  virtual ~ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  /// Does what comes before the first byte. Requires: called once, before all else.
  virtual void Begin(std::function<void(bool begun)> on_begun) = 0;
  /// Reads some bytes. Requires: no other Read is under way.
  virtual void Read(OnRead on_read) = 0;
  /// Writes all of the text. Requires: no other Write is under way.
  virtual void Write(std::string text, OnWrite on_write) = 0;
  /// Tells the other side that nothing more is sent. Requires: no Write is under way.
  virtual void FinishSending() = 0;
  /// Returns whether the other side can neither send nor read any more, as far as the kernel knows.
  virtual bool HasHungUp() = 0;
  /// Ends all that is under way, and closes the socket, which may make the thread wait for a
  /// tenant.
  virtual void Close() noexcept = 0;

 protected:
  ByteStream() = default;
};

}  // namespace harmonaize::daemon
