#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cstdio>
#include <memory>
#include <string>

#include "src/transport/address.h"
#include "tests/unit/daemon/http/http_fixture.h"

namespace harmonaize::daemon {

/// Writes a certificate for `name`, signed by its own key, and the key, both in PEM.
inline void MakeCertificate(const std::string& name, const std::string& certificate_path,
                            const std::string& key_path) {
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, void (*)(X509*)> certificate(X509_new(), X509_free);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), subject);
  EXPECT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
  std::FILE* file = std::fopen(certificate_path.c_str(), "w");
  EXPECT_EQ(PEM_write_X509(file, certificate.get()), 1);
  std::fclose(file);
  file = std::fopen(key_path.c_str(), "w");
  EXPECT_EQ(PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr), 1);
  std::fclose(file);
}

inline FileDescriptor ConnectTcp(const transport::NetworkAddress& address) {
  FileDescriptor fd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(fd.get(), address.get(), address.length()), 0);
  return fd;
}

/// The client's side of a TLS connection.
class TlsWire final : public ClientWire {
 public:
  TlsWire(FileDescriptor socket, int most_version) : socket_(std::move(socket)) {
    const timeval patience{kPatience.count(), 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    context_.reset(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_security_level(context_.get(), 0);
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context_.get(), most_version);
    tls_.reset(SSL_new(context_.get()));
    SSL_set_fd(tls_.get(), socket_.get());
    is_connected_ = SSL_connect(tls_.get()) == 1;
  }

  bool is_connected() const { return is_connected_; }
  /// The common name of the server's certificate.
  std::string PeerName() const {
    const std::unique_ptr<X509, void (*)(X509*)> peer(SSL_get1_peer_certificate(tls_.get()),
                                                      X509_free);
    char name[256] = {};
    X509_NAME_get_text_by_NID(X509_get_subject_name(peer.get()), NID_commonName, name, sizeof name);
    return name;
  }
  bool Send(std::string_view text) override {
    return SSL_write(tls_.get(), text.data(), static_cast<int>(text.size())) > 0;
  }
  std::string Receive() override {
    char part[16384];
    const int got = SSL_read(tls_.get(), part, sizeof part);
    has_ended_properly_ = SSL_get_error(tls_.get(), got) == SSL_ERROR_ZERO_RETURN;
    return got <= 0 ? "" : std::string(part, static_cast<size_t>(got));
  }
  bool has_ended_properly() const { return has_ended_properly_; }

 private:
  struct Free {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    void operator()(SSL* tls) const { SSL_free(tls); }
  };

  FileDescriptor socket_;
  std::unique_ptr<SSL_CTX, Free> context_;
  std::unique_ptr<SSL, Free> tls_;
  bool is_connected_ = false;
  bool has_ended_properly_ = false;
};

}  // namespace harmonaize::daemon
