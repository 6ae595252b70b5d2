#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/transport/address.h"
#include "src/transport/cluster_key.h"

struct ssl_st;
struct ssl_ctx_st;

namespace harmonaize::daemon {

/// What both ends of encrypted connections between daemons go by: TLS 1.3 with a key that follows
/// from the cluster's (external PSK with Diffie-Hellman, RFC 8446). No certificates are involved,
/// and nothing is negotiated below that. Thread: any.
class SecureSettings {
 public:
  /// `key` is a secret of the cluster for this purpose alone (Cluster::SecretFor). Errors:
  /// kSystemError if OpenSSL cannot start.
  static Result<std::shared_ptr<const SecureSettings>> Of(const transport::Proof& key);
  ~SecureSettings();
  SecureSettings(const SecureSettings&) = delete;
  SecureSettings& operator=(const SecureSettings&) = delete;

  ssl_ctx_st* context() const { return context_; }
  const transport::Proof& key() const { return key_; }

 private:
  explicit SecureSettings(const transport::Proof& key) : key_(key) {}

  transport::Proof key_;  // cleared on destruction
  ssl_ctx_st* context_ = nullptr;
};

/// An encrypted connection between two daemons. Its calls wait, so it is used by threads that do
/// nothing else. Requires: the program ignores SIGPIPE. Thread: one at a time; Cut: any.
class SecureSocket {
 public:
  /// Longest time, in seconds, that one end waits for the other to take or send anything.
  static constexpr int kPatienceSeconds = 10;

  /// Connects, and proves the key. Errors: kRemoteError if nobody answers, or not with this key.
  static Result<std::unique_ptr<SecureSocket>> Connect(
      const transport::NetworkAddress& address, std::shared_ptr<const SecureSettings> settings);
  /// Takes over a connection that was accepted, and has the other end prove the key, within
  /// `seconds`. Errors: kRemoteError if it does not.
  static Result<std::unique_ptr<SecureSocket>> Accept(
      FileDescriptor socket, std::shared_ptr<const SecureSettings> settings, int seconds);
  ~SecureSocket();
  SecureSocket(const SecureSocket&) = delete;
  SecureSocket& operator=(const SecureSocket&) = delete;

  /// Sends all bytes. Errors: kRemoteError.
  Status Send(std::span<const std::byte> bytes);
  /// Receives exactly so many bytes. Errors: kRemoteError.
  Status Receive(std::span<std::byte> bytes);
  /// Ends calls that wait, and all later ones.
  void Cut();

  int descriptor() const { return socket_.get(); }

 private:
  SecureSocket(FileDescriptor socket, std::shared_ptr<const SecureSettings> settings)
      : settings_(std::move(settings)), socket_(std::move(socket)) {}

  enum class Role { kConnect, kAccept };
  Status Begin(Role role);

  const std::shared_ptr<const SecureSettings> settings_;
  FileDescriptor socket_;
  ssl_st* tls_ = nullptr;
};

}  // namespace harmonaize::daemon
