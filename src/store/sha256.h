#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace harmonaize::store {

/// SHA-256 of bytes that come in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Add(std::span<const std::byte> bytes);
  /// Returns the digest as 64 hexadecimal digits. Nothing is added afterwards.
  std::string Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the digest of a text.
std::string Sha256Of(std::string_view text);

}  // namespace harmonaize::store
