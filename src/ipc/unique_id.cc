#include "src/ipc/unique_id.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace harmonaize {
namespace {

// FNV-1a (Fowler, Noll, Vo, 1991), 64 bits. A name is no secret: the daemon keeps named ids of
// different tenants apart, so all that is asked of the digest is that different names differ.
uint64_t Digest(std::string_view text, uint64_t seed) {
  uint64_t hash = 0xcbf29ce484222325u ^ seed;
  for (const char c : text) {
    hash ^= static_cast<uint8_t>(c);
    hash *= 0x100000001b3u;
  }
  return hash;
}

}  // namespace

Result<UniqueId> MakeSecretId() {
  UniqueId id;
  if (getrandom(id.token.data(), id.token.size(), 0) != static_cast<ssize_t>(id.token.size())) {
    return ErrnoError(errno, "cannot draw a random communicator id");
  }
  return id;
}

UniqueId MakeNamedId(std::string_view text) {
  UniqueId id;
  id.kind = UniqueId::Kind::kNamed;
  for (uint64_t i = 0; i < 4; ++i) {
    const uint64_t part = Digest(text, i * 0x9e3779b97f4a7c15u);
    std::memcpy(id.token.data() + i * 8, &part, 8);
  }
  if (text.size() < id.reserved.size()) {
    std::memcpy(id.reserved.data(), text.data(), text.size());
  }
  return id;
}

std::string NameOfId(const UniqueId& id) {
  const auto end = std::find(id.reserved.begin(), id.reserved.end(), uint8_t{0});
  return {id.reserved.begin(), end};
}

Status CheckUniqueId(const UniqueId& id) {
  if (id.magic != UniqueId::kMagic ||
      (id.kind != UniqueId::Kind::kSecret && id.kind != UniqueId::Kind::kNamed)) {
    return InvalidArgument(
        "the unique id was not made by Harmonaize: every rank must load the same NCCL library, and "
        "the 128 bytes must reach all ranks unchanged");
  }
  return Status::Ok();
}

}  // namespace harmonaize
