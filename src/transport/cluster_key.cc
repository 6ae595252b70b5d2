#include "src/transport/cluster_key.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/base/file_descriptor.h"

namespace harmonaize::transport {
namespace {

Status CannotRead(const std::string& path, int error_number) {
  return InvalidArgument(
      "cannot read the cluster key {}: {}; make one with `head -c 32 /dev/urandom | base64 > {}` "
      "and `chmod 600 {}`, and give every daemon of the cluster the same",
      path, std::strerror(error_number), path, path);
}

}  // namespace

ClusterKey::~ClusterKey() {
  if (!bytes_.empty()) OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

Result<ClusterKey> ClusterKey::FromBytes(std::span<const std::byte> bytes) {
  if (bytes.size() < kMinBytes || bytes.size() > kMaxBytes) {
    return InvalidArgument("a cluster key has {} to {} bytes, this one has {}", kMinBytes,
                           kMaxBytes, bytes.size());
  }
  ClusterKey key;
  key.bytes_.assign(bytes.begin(), bytes.end());
  return key;
}

Result<ClusterKey> ClusterKey::FromFile(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return CannotRead(path, errno);
  struct stat about {};
  if (fstat(file.get(), &about) != 0) return CannotRead(path, errno);
  if ((about.st_mode & S_IRWXO) != 0) {
    return InvalidArgument(
        "every user of this host may open the cluster key {}; `chmod o= {}`, and make a new key if "
        "somebody may have read it",
        path, path);
  }
  std::array<std::byte, kMaxBytes + 2> content;
  size_t length = 0;
  ssize_t got = 1;
  while (got > 0 && length < content.size()) {
    got = read(file.get(), content.data() + length, content.size() - length);
    if (got < 0) return CannotRead(path, errno);
    length += static_cast<size_t>(got);
  }
  while (length > 0 && std::strchr(" \t\r\n", static_cast<char>(content[length - 1])) != nullptr &&
         content[length - 1] != std::byte{0}) {
    --length;
  }
  Result<ClusterKey> key = FromBytes(std::span(content).first(length));
  OPENSSL_cleanse(content.data(), content.size());
  if (key.ok()) return key;
  return InvalidArgument("{}: {}", path, key.status().message());
}

Proof ClusterKey::Sign(std::string_view label, std::span<const std::byte> transcript) const {
  std::vector<std::byte> message(label.size() + 1);
  std::memcpy(message.data(), label.data(), label.size());
  message.insert(message.end(), transcript.begin(), transcript.end());
  Proof proof{};
  unsigned length = 0;
  // OpenSSL takes a null key for the previous one, so an empty key must not be null.
  static constexpr std::byte kNothing{};
  HMAC(EVP_sha256(), bytes_.empty() ? &kNothing : bytes_.data(), static_cast<int>(bytes_.size()),
       reinterpret_cast<const unsigned char*>(message.data()), message.size(),
       reinterpret_cast<unsigned char*>(proof.data()), &length);
  return proof;
}

bool ClusterKey::Verify(const Proof& proof, std::string_view label,
                        std::span<const std::byte> transcript) const {
  const Proof expected = Sign(label, transcript);
  return CRYPTO_memcmp(proof.data(), expected.data(), expected.size()) == 0;
}

}  // namespace harmonaize::transport
