#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace harmonaize::checkpoint {

/// Returns XXH3 of 64 bits, seed 0, of these bytes. It finds what hardware and files lose, at the
/// speed of memory; it proves nothing against somebody who wants to deceive.
uint64_t ChecksumOf(std::span<const std::byte> bytes);

/// The same of bytes that come in pieces.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void Add(std::span<const std::byte> bytes);
  uint64_t value() const;

 private:
  struct State;
  State* const state_;
};

}  // namespace harmonaize::checkpoint
