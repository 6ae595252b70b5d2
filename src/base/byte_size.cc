#include "src/base/byte_size.h"

#include <charconv>
#include <string_view>

namespace harmonaize {

Result<uint64_t> ParseBytes(const std::string& text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  std::string_view unit(parsed.ptr, static_cast<size_t>(end - parsed.ptr));
  constexpr std::string_view kUnits = "KMGT";
  int shift = 0;
  if (!unit.empty() && kUnits.find(static_cast<char>(unit[0] & ~0x20)) != kUnits.npos) {
    shift = 10 * (static_cast<int>(kUnits.find(static_cast<char>(unit[0] & ~0x20))) + 1);
    unit.remove_prefix(1);
  }
  const bool good = unit.empty() || unit == "iB" || unit == "B";
  constexpr uint64_t kMostBytes = uint64_t{1} << 44;
  if (parsed.ec != std::errc() || !good || value == 0 || value > kMostBytes >> shift) {
    return InvalidArgument("'{}' is no size: write bytes as 4096, 64K, 1MiB or 1G, up to 16T",
                           text);
  }
  return value << shift;
}

}  // namespace harmonaize
