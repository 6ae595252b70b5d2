#include "daemon/sources/http_fetch.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <optional>
#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "daemon/runtime/guarded.h"

namespace harmonaize::daemon {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using Tcp = asio::ip::tcp;
using TlsStream = asio::ssl::stream<Tcp::socket>;

/// Longest head of an answer, in bytes: eight times what the services send.
constexpr uint32_t kMostHeadBytes = 8 << 10;
/// Most that is read at once, in bytes; it must hold a whole head.
constexpr size_t kBufferBytes = 16 << 10;

Tcp::socket& SocketOf(Tcp::socket& stream) {
  return stream;
}
Tcp::socket& SocketOf(TlsStream& stream) {
  return stream.next_layer();
}

http::request<http::string_body> MessageOf(const Endpoint& endpoint, const SourceRequest& request) {
  http::request<http::string_body> message;
  message.method_string(request.method);
  message.target(request.target);
  message.version(11);
  message.set(http::field::host, endpoint.HostHeader());
  message.set(http::field::user_agent, "harmonaize");
  message.set(http::field::connection, "close");
  for (const auto& [name, value] : request.headers) message.set(name, value);
  message.body() = request.body;
  // A PUT or POST without a body says so.
  if (request.method != "GET") message.content_length(request.body.size());
  return message;
}

/// The connection, and the steps of one request over it. Asio's handlers keep it alive.
template <typename Stream>
class Exchange final : public HttpFetch, public std::enable_shared_from_this<Exchange<Stream>> {
 public:
  template <typename... Arguments>
  Exchange(const FetchServer& server, const SourceRequest& request, Done done,
           Arguments&&... arguments)
      : stream_(std::forward<Arguments>(arguments)...),
        request_(MessageOf(server.endpoint, request)),
        done_(std::move(done)) {
    parser_.header_limit(kMostHeadBytes);
    parser_.body_limit(request.most_body_bytes);
  }

  Stream& stream() { return stream_; }

  void Connect(std::vector<Tcp::endpoint> endpoints) {
    endpoints_ = std::move(endpoints);
    asio::async_connect(SocketOf(stream_), endpoints_, Then("connect", [this] { OnConnected(); }));
  }

  void Cancel() noexcept override {
    done_ = nullptr;
    Close();
  }

 private:
  /// Returns a handler that goes on with `next`, and ends the request after an error.
  template <typename Next>
  auto Then(const char* step, Next next) {
    return [self = this->shared_from_this(), step, next](error_code error, const auto&...) {
      if (self->done_ == nullptr) return;
      if (error) return self->Finish(RemoteError("cannot {}: {}", step, self->Reason(error)));
      Guarded(next, [&](const Status& exception) { self->Finish(exception); });
    };
  }

  std::string Reason(error_code error) {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      const long verified = SSL_get_verify_result(stream_.native_handle());
      if (verified != X509_V_OK) return X509_verify_cert_error_string(verified);
    }
    return error.message();
  }

  void OnConnected() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      stream_.async_handshake(asio::ssl::stream_base::client,
                              Then("agree on TLS", [this] { Write(); }));
    } else {
      Write();
    }
  }
  void Write() {
    http::async_write(stream_, request_, Then("send the request", [this] { ReadHead(); }));
  }
  // Beast 1.74 forgets that Content-Length is above the limit where it reads head and body in one.
  void ReadHead() {
    http::async_read_header(stream_, buffer_, parser_,
                            Then("read the answer", [this] { ReadBody(); }));
  }
  void ReadBody() {
    http::async_read(stream_, buffer_, parser_, Then("read the answer", [this] { Answer(); }));
  }
  void Answer() {
    http::response<http::string_body>& message = parser_.get();
    SourceAnswer answer;
    answer.status = message.result_int();
    answer.etag = std::string(message[http::field::etag]);
    answer.metadata_flavor = std::string(message["Metadata-Flavor"]);
    answer.body = std::move(message.body());
    Finish(std::move(answer));
  }

  void Finish(Result<SourceAnswer> answer) {
    Close();
    const Done done = std::exchange(done_, nullptr);
    done(std::move(answer));
  }
  void Close() noexcept {
    error_code ignored;
    SocketOf(stream_).close(ignored);
  }

  Stream stream_;
  std::vector<Tcp::endpoint> endpoints_;
  http::request<http::string_body> request_;
  boost::beast::flat_buffer buffer_{kBufferBytes};
  http::response_parser<http::string_body> parser_;
  Done done_;  // nullptr: it was called, or never will be
};

Result<std::vector<Tcp::endpoint>> EndpointsOf(const FetchServer& server) {
  std::vector<Tcp::endpoint> endpoints;
  for (const std::string& text : server.addresses) {
    error_code error;
    const asio::ip::address address = asio::ip::make_address(text, error);
    if (error) return InvalidArgument("'{}' is no IP address", text);
    endpoints.emplace_back(address, server.endpoint.port);
  }
  if (endpoints.empty()) return InvalidArgument("{} has no address", server.endpoint.host);
  return endpoints;
}

// The server's certificate must name the host as a subject alternative: the common name is nobody's
// to check any more.
Status ExpectHost(SSL* connection, const Endpoint& endpoint) {
  X509_VERIFY_PARAM* const expected = SSL_get0_param(connection);
  X509_VERIFY_PARAM_set_hostflags(
      expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  const bool expects = endpoint.is_address
                           ? X509_VERIFY_PARAM_set1_ip_asc(expected, endpoint.host.c_str()) == 1
                           : X509_VERIFY_PARAM_set1_host(expected, endpoint.host.c_str(), 0) == 1 &&
                                 SSL_set_tlsext_host_name(connection, endpoint.host.c_str()) == 1;
  if (!expects) return SystemError("OpenSSL cannot check the host {}", endpoint.host);
  return Status::Ok();
}

Result<std::shared_ptr<HttpFetch>> StartTls(asio::io_context& io, const FetchServer& server,
                                            const SourceRequest& request, HttpFetch::Done done,
                                            std::vector<Tcp::endpoint> endpoints) {
  asio::ssl::context context(asio::ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
  error_code error;
  context.add_certificate_authority(asio::buffer(server.authorities), error);
  if (error) return InvalidUsage("its certificate authorities cannot be read: {}", error.message());
  context.set_verify_mode(asio::ssl::verify_peer);
  // OpenSSL's connection keeps what it needs of the context.
  const auto exchange =
      std::make_shared<Exchange<TlsStream>>(server, request, std::move(done), io, context);
  HZ_RETURN_IF_ERROR(ExpectHost(exchange->stream().native_handle(), server.endpoint));
  exchange->Connect(std::move(endpoints));
  return std::shared_ptr<HttpFetch>(exchange);
}

}  // namespace

Result<std::shared_ptr<HttpFetch>> HttpFetch::Start(asio::io_context& io, const FetchServer& server,
                                                    const SourceRequest& request, Done done) {
  return Caught([&]() -> Result<std::shared_ptr<HttpFetch>> {
    HZ_ASSIGN_OR_RETURN(std::vector<Tcp::endpoint> endpoints, EndpointsOf(server));
    if (server.endpoint.tls) {
      return StartTls(io, server, request, std::move(done), std::move(endpoints));
    }
    const auto exchange =
        std::make_shared<Exchange<Tcp::socket>>(server, request, std::move(done), io);
    exchange->Connect(std::move(endpoints));
    return std::shared_ptr<HttpFetch>(exchange);
  });
}

}  // namespace harmonaize::daemon
