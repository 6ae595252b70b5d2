#include "daemon/transfer/secure_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace harmonaize::daemon {
namespace {

/// Name of the key in the handshake. Both ends have one key only.
constexpr char kIdentity[] = "harmonaize";
/// The suite that a key of SHA-256 goes with.
constexpr char kSuites[] = "TLS_AES_128_GCM_SHA256";

const SecureSettings& SettingsOf(SSL* tls) {
  return *static_cast<const SecureSettings*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(tls)));
}

unsigned int CopyKey(SSL* tls, unsigned char* psk, unsigned int most_bytes) {
  const transport::Proof& key = SettingsOf(tls).key();
  if (most_bytes < key.size()) return 0;
  std::memcpy(psk, key.data(), key.size());
  return static_cast<unsigned int>(key.size());
}

unsigned int KeyOfClient(SSL* tls, const char* /*hint*/, char* identity,
                         unsigned int identity_bytes, unsigned char* psk, unsigned int psk_bytes) {
  if (identity_bytes < sizeof kIdentity) return 0;
  std::memcpy(identity, kIdentity, sizeof kIdentity);
  return CopyKey(tls, psk, psk_bytes);
}

unsigned int KeyOfServer(SSL* tls, const char* identity, unsigned char* psk,
                         unsigned int psk_bytes) {
  if (identity == nullptr || std::strcmp(identity, kIdentity) != 0) return 0;
  return CopyKey(tls, psk, psk_bytes);
}

void SetPatience(int socket, int seconds) {
  const timeval patience = {.tv_sec = seconds, .tv_usec = 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

/// Requests and answers are small, and follow each other.
void SendAtOnce(int socket) {
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

/// Returns what the failure of a call of OpenSSL means. Its queue of errors is emptied.
Status Failure(const char* what) {
  ERR_clear_error();
  return RemoteError("an encrypted connection to another daemon {}", what);
}

}  // namespace

Result<std::shared_ptr<const SecureSettings>> SecureSettings::Of(const transport::Proof& key) {
  std::shared_ptr<SecureSettings> settings(new SecureSettings(key));
  SSL_CTX* const context = SSL_CTX_new(TLS_method());
  settings->context_ = context;
  if (context == nullptr) return SystemError("OpenSSL cannot start");
  SSL_CTX_set_app_data(context, settings.get());
  SSL_CTX_set_psk_client_callback(context, KeyOfClient);
  SSL_CTX_set_psk_server_callback(context, KeyOfServer);
  // A session is worth nothing: the key is always at hand.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  const bool is_set = SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                      SSL_CTX_set_ciphersuites(context, kSuites) == 1 &&
                      SSL_CTX_set_num_tickets(context, 0) == 1;
  if (!is_set) return SystemError("OpenSSL has no TLS 1.3 with {}", kSuites);
  return std::shared_ptr<const SecureSettings>(std::move(settings));
}

SecureSettings::~SecureSettings() {
  SSL_CTX_free(context_);
  OPENSSL_cleanse(key_.data(), key_.size());
}

Result<std::unique_ptr<SecureSocket>> SecureSocket::Connect(
    const transport::NetworkAddress& address, std::shared_ptr<const SecureSettings> settings) {
  FileDescriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return ErrnoError(errno, "cannot make a socket");
  SetPatience(socket.get(), kPatienceSeconds);
  if (connect(socket.get(), address.get(), address.length()) != 0) {
    return RemoteError("cannot connect to another daemon ({})", strerrordesc_np(errno));
  }
  std::unique_ptr<SecureSocket> connection(
      new SecureSocket(std::move(socket), std::move(settings)));
  HZ_RETURN_IF_ERROR(connection->Begin(Role::kConnect));
  return connection;
}

Result<std::unique_ptr<SecureSocket>> SecureSocket::Accept(
    FileDescriptor socket, std::shared_ptr<const SecureSettings> settings, int seconds) {
  SetPatience(socket.get(), seconds);
  std::unique_ptr<SecureSocket> connection(
      new SecureSocket(std::move(socket), std::move(settings)));
  HZ_RETURN_IF_ERROR(connection->Begin(Role::kAccept));
  SetPatience(connection->descriptor(), kPatienceSeconds);
  return connection;
}

Status SecureSocket::Begin(Role role) {
  tls_ = SSL_new(settings_->context());
  SendAtOnce(socket_.get());
  if (tls_ == nullptr || SSL_set_fd(tls_, socket_.get()) != 1) return Failure("cannot be made");
  const int done = role == Role::kConnect ? SSL_connect(tls_) : SSL_accept(tls_);
  return done == 1 ? Status::Ok() : Failure("was refused: it has another key, or none");
}

SecureSocket::~SecureSocket() {
  SSL_free(tls_);
  ERR_clear_error();
}

Status SecureSocket::Send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const int most = static_cast<int>(std::min<size_t>(bytes.size(), 1 << 30));
    const int sent = SSL_write(tls_, bytes.data(), most);
    if (sent <= 0) return Failure("has ended");
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  return Status::Ok();
}

Status SecureSocket::Receive(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const int most = static_cast<int>(std::min<size_t>(bytes.size(), 1 << 30));
    const int received = SSL_read(tls_, bytes.data(), most);
    if (received <= 0) return Failure("has ended");
    bytes = bytes.subspan(static_cast<size_t>(received));
  }
  return Status::Ok();
}

void SecureSocket::Cut() {
  shutdown(socket_.get(), SHUT_RDWR);
}

}  // namespace harmonaize::daemon
