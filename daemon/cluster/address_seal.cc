#include "daemon/cluster/address_seal.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

namespace harmonaize::daemon {
namespace {

/// Bytes of the nonce of AES-GCM.
constexpr int kNonceBytes = 12;
constexpr size_t kTextBytes = 64;  // bytes of a sealed text: an IPv6 address in full, with its port
/// Bytes of the tag of AES-GCM.
constexpr size_t kTagBytes = 16;

/// Layout of an id's reserved bytes.
struct Sealed {
  std::array<uint8_t, kTextBytes> text{};
  std::array<uint8_t, kTagBytes> tag{};
};
static_assert(sizeof(Sealed) <= sizeof(UniqueId::reserved));

using Cipher = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

// Begins to encrypt or decrypt. The id's whole token is authenticated, so that an address cannot be
// moved to another id.
bool Begin(EVP_CIPHER_CTX* cipher, bool encrypt, const std::byte* key, const UniqueId& id) {
  int ignored = 0;
  return EVP_CipherInit_ex(cipher, EVP_aes_256_gcm(), nullptr,
                           reinterpret_cast<const unsigned char*>(key), id.token.data(),
                           encrypt ? 1 : 0) == 1 &&
         EVP_CipherUpdate(cipher, nullptr, &ignored, id.token.data(),
                          static_cast<int>(id.token.size())) == 1;
}

}  // namespace

AddressSeal::AddressSeal(const transport::ClusterKey& cluster_key)
    : key_(cluster_key.Sign("harmonaize unique id", {})) {
  static_assert(kNonceBytes <= sizeof(UniqueId::token));
}

Status AddressSeal::Seal(const transport::NetworkAddress& address, UniqueId* id) const {
  const std::string text = address.ToString();
  std::array<uint8_t, kTextBytes> plain{};
  if (text.size() >= plain.size()) return InternalError("{} is too long an address", text);
  std::memcpy(plain.data(), text.data(), text.size());
  Sealed sealed;
  int written = 0;
  int ended = 0;
  const Cipher cipher(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
  const bool good =
      cipher != nullptr && Begin(cipher.get(), true, key_.data(), *id) &&
      EVP_CipherUpdate(cipher.get(), sealed.text.data(), &written, plain.data(), kTextBytes) == 1 &&
      EVP_CipherFinal_ex(cipher.get(), sealed.text.data() + written, &ended) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, sealed.tag.data()) == 1;
  if (!good) return Status(Code::kSystemError, "libcrypto did not encrypt an address");
  id->reserved = {};
  std::memcpy(id->reserved.data(), &sealed, sizeof sealed);
  return Status::Ok();
}

Result<std::optional<transport::NetworkAddress>> AddressSeal::Open(const UniqueId& id) const {
  const bool empty =
      std::all_of(id.reserved.begin(), id.reserved.end(), [](uint8_t byte) { return byte == 0; });
  if (empty) return std::optional<transport::NetworkAddress>();
  Sealed sealed;
  std::memcpy(&sealed, id.reserved.data(), sizeof sealed);
  std::array<uint8_t, kTextBytes> plain{};
  int written = 0;
  int ended = 0;
  const Cipher cipher(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
  const bool good =
      cipher != nullptr && Begin(cipher.get(), false, key_.data(), id) &&
      EVP_CipherUpdate(cipher.get(), plain.data(), &written, sealed.text.data(), kTextBytes) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, sealed.tag.data()) == 1 &&
      EVP_CipherFinal_ex(cipher.get(), plain.data() + written, &ended) == 1;
  if (!good) {
    return InvalidArgument(
        "the unique id comes from a daemon of another cluster, or was changed on its way: all 128 "
        "bytes must reach all ranks unchanged");
  }
  const auto end = std::find(plain.begin(), plain.end(), uint8_t{0});
  Result<transport::NetworkAddress> address =
      transport::NetworkAddress::Parse(std::string(plain.begin(), end));
  if (!address.ok()) return InvalidArgument("the unique id holds no address");
  return std::optional<transport::NetworkAddress>(*address);
}

}  // namespace harmonaize::daemon
