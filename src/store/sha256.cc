#include "src/store/sha256.h"

// EVP, which is newer than these functions, brings all of libcrypto's algorithms into a program
// that is linked with its archive, as harmonaize-writer is, and reads a configuration file.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <array>
#include <cstdint>

#include "src/base/hex.h"

namespace harmonaize::store {

struct Sha256::State {
  SHA256_CTX context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  SHA256_Init(&state_->context);
}

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Add(std::span<const std::byte> bytes) {
  SHA256_Update(&state_->context, bytes.data(), bytes.size());
}

std::string Sha256::Finish() {
  std::array<uint8_t, SHA256_DIGEST_LENGTH> digest{};
  SHA256_Final(digest.data(), &state_->context);
  return HexOf(digest);
}

std::string Sha256Of(std::string_view text) {
  Sha256 digest;
  digest.Add(std::as_bytes(std::span(text)));
  return digest.Finish();
}

}  // namespace harmonaize::store
