#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "src/base/clean_text.h"
#include "src/base/status.h"

namespace harmonaize::fuzz {

/// Ends the program, as a finding, unless `holds`. `what` states the requirement in words.
inline void Require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "REQUIRED, and not so: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

/// Requires that a call has succeeded.
inline void RequireOk(const Status& status, std::string_view what) {
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  Require(status.ok(), what);
}

/// Requires that a text, which may contain a stranger's words, is fit for logs and terminals.
inline void RequireClean(const std::string& text, std::string_view what) {
  Require(CleanText(text, text.size()) == text, what);
}

/// Cuts a fuzzer's input into values, from its beginning to its end. Past the end all bytes are 0.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : Input(std::as_bytes(std::span(data, size))) {}
  explicit Input(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }
  template <typename T>
  T Take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const std::span<const std::byte> bytes = TakeBytes(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  /// Takes a number from 0 to `most`, from one byte.
  size_t TakeUpTo(size_t most) { return Take<uint8_t>() % (most + 1); }
  /// Takes so many bytes, or what is left.
  std::span<const std::byte> TakeBytes(size_t bytes) {
    const std::span<const std::byte> taken = rest_.first(std::min(bytes, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  std::span<const std::byte> TakeRest() { return TakeBytes(rest_.size()); }

 private:
  std::span<const std::byte> rest_;
};

inline std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::string_view TextOf(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace harmonaize::fuzz
