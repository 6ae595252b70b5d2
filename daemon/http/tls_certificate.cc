#include "daemon/http/tls_certificate.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// Returns what OpenSSL says about its last failure on this thread, and forgets it.
std::string OpensslError() {
  const unsigned long code = ERR_peek_last_error();
  char text[256];
  ERR_error_string_n(code, text, sizeof text);
  ERR_clear_error();
  return code == 0 ? "no reason given" : text;
}

/// Without this OpenSSL would ask at the terminal.
int HasNoPassphrase(char*, int, int, void*) {
  return -1;
}

int ChooseHttp11(SSL*, const unsigned char** chosen, unsigned char* chosen_bytes,
                 const unsigned char* offered, unsigned int offered_bytes, void*) {
  static constexpr unsigned char kHttp11[] = "\x08http/1.1";
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, chosen_bytes, kHttp11, sizeof kHttp11 - 1, offered,
                            offered_bytes) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

Status CheckReadable(const std::string& path, std::string_view what) {
  if (access(path.c_str(), R_OK) == 0) return Status::Ok();
  return InvalidArgument("the {} {} cannot be read: {}", what, path, std::strerror(errno));
}

}  // namespace

void TlsCertificate::Free::operator()(ssl_ctx_st* context) const {
  SSL_CTX_free(context);
}

TlsCertificate::~TlsCertificate() = default;

Result<std::unique_ptr<TlsCertificate>> TlsCertificate::Load(std::string certificate_path,
                                                             std::string key_path) {
  std::unique_ptr<TlsCertificate> loaded(
      new TlsCertificate(std::move(certificate_path), std::move(key_path)));
  loaded->certificate_stamp_ = StampOf(loaded->certificate_path_);
  loaded->key_stamp_ = StampOf(loaded->key_path_);
  HZ_ASSIGN_OR_RETURN(loaded->context_, loaded->LoadFiles());
  return loaded;
}

Result<TlsCertificate::Context> TlsCertificate::LoadFiles() const {
  ERR_clear_error();
  Context context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr) return SystemError("OpenSSL cannot start: {}", OpensslError());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                         SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  // Buffers of idle connections are 34 KiB each otherwise.
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_default_passwd_cb(context.get(), HasNoPassphrase);
  SSL_CTX_set_alpn_select_cb(context.get(), ChooseHttp11, nullptr);
  HZ_RETURN_IF_ERROR(CheckReadable(certificate_path_, "certificate file"));
  HZ_RETURN_IF_ERROR(CheckReadable(key_path_, "key file"));
  if (SSL_CTX_use_certificate_chain_file(context.get(), certificate_path_.c_str()) != 1) {
    return InvalidArgument("{} holds no certificate in PEM: {}", certificate_path_, OpensslError());
  }
  // OpenSSL compares the key with the certificate here already.
  if (SSL_CTX_use_PrivateKey_file(context.get(), key_path_.c_str(), SSL_FILETYPE_PEM) != 1) {
    return InvalidArgument(
        "{} holds no key in PEM without a passphrase that belongs to the certificate in {}: {}",
        key_path_, certificate_path_, OpensslError());
  }
  if (SSL_CTX_check_private_key(context.get()) != 1) {
    return InvalidArgument("the key in {} is not that of the certificate in {}: {}", key_path_,
                           certificate_path_, OpensslError());
  }
  return context;
}

TlsCertificate::Stamp TlsCertificate::StampOf(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return {};
  return {found.st_ino, found.st_size,
          int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec};
}

void TlsCertificate::LookForChange() {
  const Stamp certificate = StampOf(certificate_path_);
  const Stamp key = StampOf(key_path_);
  if (certificate == certificate_stamp_ && key == key_stamp_) return;
  certificate_stamp_ = certificate;
  key_stamp_ = key;
  Result<Context> loaded = LoadFiles();
  if (!loaded.ok()) {
    return Log(LogLevel::kWarning, kLogInit, "the TLS certificate stays as it was: {}",
               loaded.status().message());
  }
  context_ = std::move(*loaded);
  Log(LogLevel::kInfo, kLogInit, "the TLS certificate was read again from {}", certificate_path_);
}

}  // namespace harmonaize::daemon
