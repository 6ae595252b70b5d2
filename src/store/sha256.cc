#include "src/store/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <new>

#include "src/base/hex.h"

namespace harmonaize::store {

struct Sha256::State {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context{EVP_MD_CTX_new(),
                                                                   &EVP_MD_CTX_free};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  // libcrypto fails here for want of memory alone.
  if (state_->context == nullptr ||
      EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) != 1) {
    throw std::bad_alloc();
  }
}

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Add(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size());
}

std::string Sha256::Finish() {
  std::array<uint8_t, 32> digest{};
  EVP_DigestFinal_ex(state_->context.get(), digest.data(), nullptr);
  return HexOf(digest);
}

std::string Sha256Of(std::string_view text) {
  Sha256 digest;
  digest.Add(std::as_bytes(std::span(text)));
  return digest.Finish();
}

}  // namespace harmonaize::store
