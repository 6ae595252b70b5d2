#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/base/status.h"

// OpenSSL's.
struct ssl_ctx_st;

namespace harmonaize::daemon {

/// A certificate with its key, from two files in PEM, and what TLS is spoken with: version 1.2 or
/// later, HTTP/1.1 alone. Thread: one.
class TlsCertificate {
 public:
  /// Errors name the file: it cannot be read, holds no certificate or no key, or the key is that of
  /// another certificate or needs a passphrase.
  static Result<std::unique_ptr<TlsCertificate>> Load(std::string certificate_path,
                                                      std::string key_path);
  ~TlsCertificate();

  /// Loads the files again if one of them has changed. If they do not fit, as when only one has
  /// been replaced yet, the log says so and the certificate before stays.
  void LookForChange();
  /// Connections that were made with it hold it for as long as they last.
  ssl_ctx_st* context() const { return context_.get(); }

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };
  using Context = std::unique_ptr<ssl_ctx_st, Free>;
  /// What tells one version of a file from another.
  struct Stamp {
    uint64_t node = 0;
    int64_t size = 0;
    int64_t changed_ns = 0;
    bool operator==(const Stamp&) const = default;
  };

  TlsCertificate(std::string certificate_path, std::string key_path)
      : certificate_path_(std::move(certificate_path)), key_path_(std::move(key_path)) {}

  static Stamp StampOf(const std::string& path);
  Result<Context> LoadFiles() const;

  const std::string certificate_path_;
  const std::string key_path_;
  Stamp certificate_stamp_;
  Stamp key_stamp_;
  Context context_;
};

}  // namespace harmonaize::daemon
