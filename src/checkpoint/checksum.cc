#include "src/checkpoint/checksum.h"

// Through its header alone: what a tenant loads must bring no shared library.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace harmonaize::checkpoint {

uint64_t ChecksumOf(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

struct Checksum::State {
  XXH3_state_t hash;
};

Checksum::Checksum() : state_(new State) {
  XXH3_64bits_reset(&state_->hash);
}

Checksum::~Checksum() {
  delete state_;
}

void Checksum::Add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->hash, bytes.data(), bytes.size());
}

uint64_t Checksum::value() const {
  return XXH3_64bits_digest(&state_->hash);
}

}  // namespace harmonaize::checkpoint
