#include "src/checkpoint/store_format.h"

#include <array>
#include <cstddef>

namespace harmonaize::checkpoint {
namespace {

// In the order of StoreFormat.
constexpr std::array<std::string_view, 3> kNames = {"safetensors", "dcp", "ucp"};

}  // namespace

std::string_view NameOf(StoreFormat format) {
  return kNames[static_cast<size_t>(format)];
}

std::optional<StoreFormat> StoreFormatOf(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<StoreFormat>(i);
  }
  return std::nullopt;
}

}  // namespace harmonaize::checkpoint
