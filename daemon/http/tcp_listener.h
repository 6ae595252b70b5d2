#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/http/loopback_peer.h"
#include "daemon/http/tls_certificate.h"
#include "daemon/identity/tenant_identity.h"
#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/transport/address.h"

namespace harmonaize::daemon {

class HttpThread;

/// Accepts TCP connections for the thread that serves them.
class TcpListener : public std::enable_shared_from_this<TcpListener> {
 public:
  /// Accepts at a socket that listens. `names` are what the host goes by, in lower case.
  /// `certificate`: nullptr for plain HTTP. Errors name the address. Thread: any.
  static Result<std::shared_ptr<TcpListener>> Open(HttpThread* thread, FileDescriptor listening,
                                                   std::vector<std::string> names,
                                                   std::unique_ptr<TlsCertificate> certificate);

  /// The address with the port in force. Thread: any.
  const transport::NetworkAddress& address() const { return address_; }
  // Thread: the one that serves.
  void Begin();
  void Stop();

 private:
  TcpListener(HttpThread* thread, std::vector<std::string> names,
              std::unique_ptr<TlsCertificate> certificate);

  void Await();
  void AcceptSome();
  bool AcceptOne();
  // Returns what a caller is counted under.
  std::string KeyOf(const transport::NetworkAddress& remote, const transport::NetworkAddress& own);
  void LookAtCertificate();

  HttpThread* const thread_;
  const std::vector<std::string> names_;
  const std::unique_ptr<TlsCertificate> certificate_;
  transport::NetworkAddress address_;
  boost::asio::posix::stream_descriptor socket_;
  std::optional<LoopbackPeers> peers_;  ///< nullopt: users of this host are not told apart.
  SubordinateIds subordinate_ids_;
  boost::asio::steady_timer rest_;  // when descriptors have run out
  boost::asio::steady_timer look_;  // at the certificate
};

}  // namespace harmonaize::daemon
