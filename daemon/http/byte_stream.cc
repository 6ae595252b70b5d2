#include "daemon/http/byte_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>

namespace harmonaize::daemon {
namespace {

namespace asio = boost::asio;
using AsioError = boost::system::error_code;
using StreamSocket = asio::generic::stream_protocol::socket;

/// Bytes that are read at once. Requests are shorter than this, and each connection has such a
/// buffer.
constexpr size_t kReadBytes = 4096;

/// A buffered writer and reader over an Asio stream, which a subclass has.
template <typename Stream>
class AsioByteStream : public ByteStream {
 public:
  void Read(OnRead on_read) override {
    stream().async_read_some(asio::buffer(input_), [self = Self(), on_read = std::move(on_read)](
                                                       const AsioError& error, size_t bytes) {
      if (self->closed_) return;
      if (error) return on_read(self->EndOf(error), {});
      on_read(ReadEnd::kNone, std::string_view(self->input_.data(), bytes));
    });
  }

  void Write(std::string text, OnWrite on_write) override {
    output_ = std::move(text);
    written_ = 0;
    WriteSome(std::move(on_write));
  }

  bool HasHungUp() override {
    pollfd state{socket().native_handle(), 0, 0};
    return poll(&state, 1, 0) > 0 && (state.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
  }

  void Close() noexcept override {
    closed_ = true;
    AsioError ignored;
    socket().close(ignored);
  }

 protected:
  virtual Stream& stream() = 0;
  virtual StreamSocket& socket() = 0;
  virtual ReadEnd EndOf(const AsioError& error) const = 0;

  std::shared_ptr<AsioByteStream> Self() {
    return std::static_pointer_cast<AsioByteStream>(shared_from_this());
  }

  bool closed_ = false;

 private:
  void WriteSome(OnWrite on_write) {
    stream().async_write_some(
        asio::buffer(output_.data() + written_, output_.size() - written_),
        [self = Self(), on_write = std::move(on_write)](const AsioError& error, size_t bytes) {
          if (self->closed_) return;
          if (error) return on_write(Sending::kBroken);
          self->written_ += bytes;
          if (self->written_ < self->output_.size()) {
            on_write(Sending::kProgress);
            if (!self->closed_) self->WriteSome(on_write);
            return;
          }
          self->output_.clear();
          self->output_.shrink_to_fit();
          on_write(Sending::kDone);
        });
  }

  std::array<char, kReadBytes> input_{};
  std::string output_;
  size_t written_ = 0;
};

class PlainByteStream final : public AsioByteStream<StreamSocket> {
 public:
  explicit PlainByteStream(StreamSocket socket) : socket_(std::move(socket)) {}

  void Begin(std::function<void(bool)> on_begun) override {
    asio::post(socket_.get_executor(), [self = Self(), on_begun = std::move(on_begun), this] {
      if (!closed_) on_begun(true);
    });
  }
  void FinishSending() override {
    AsioError ignored;
    socket_.shutdown(asio::socket_base::shutdown_send, ignored);
  }

 protected:
  StreamSocket& stream() override { return socket_; }
  StreamSocket& socket() override { return socket_; }
  ReadEnd EndOf(const AsioError& error) const override {
    return error == asio::error::eof ? ReadEnd::kEof : ReadEnd::kBroken;
  }

 private:
  StreamSocket socket_;
};

using TlsSocket = asio::ssl::stream<StreamSocket>;

class TlsByteStream final : public AsioByteStream<TlsSocket> {
 public:
  TlsByteStream(StreamSocket socket, SSL_CTX* tls)
      : context_(Shared(tls)), tls_(std::move(socket), context_) {}

  void Begin(std::function<void(bool)> on_begun) override {
    tls_.async_handshake(asio::ssl::stream_base::server,
                         [self = Self(), on_begun = std::move(on_begun), this](AsioError error) {
                           if (!closed_) on_begun(!error);
                         });
  }
  void FinishSending() override {
    tls_.async_shutdown([self = Self()](const AsioError&) {});
  }

 protected:
  TlsSocket& stream() override { return tls_; }
  StreamSocket& socket() override { return tls_.next_layer(); }
  // With TLS nobody ends one direction alone.
  ReadEnd EndOf(const AsioError&) const override { return ReadEnd::kBroken; }

 private:
  // Asio's context takes over a reference, and frees it with itself.
  static SSL_CTX* Shared(SSL_CTX* tls) {
    SSL_CTX_up_ref(tls);
    return tls;
  }

  asio::ssl::context context_;
  TlsSocket tls_;
};

}  // namespace

Result<std::shared_ptr<ByteStream>> ByteStream::Make(asio::io_context* context,
                                                     FileDescriptor* socket, ssl_ctx_st* tls) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(socket->get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return ErrnoError(errno, "cannot look at a connection");
  }
  StreamSocket stream(*context);
  AsioError error;
  stream.assign(asio::generic::stream_protocol(address.ss_family, 0), socket->get(), error);
  if (error) return SystemError("cannot watch a connection: {}", error.message());
  socket->Release();
  if (tls == nullptr) return std::shared_ptr<ByteStream>(new PlainByteStream(std::move(stream)));
  return std::shared_ptr<ByteStream>(new TlsByteStream(std::move(stream), tls));
}

}  // namespace harmonaize::daemon
