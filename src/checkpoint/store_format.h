#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace harmonaize::checkpoint {

/// Whose form the objects of a stored checkpoint have, so that an export in that form is made of
/// hard links. Every form is read alike.
enum class StoreFormat : uint8_t {
  kSafetensors = 0,
  kDcp = 1,  ///< PyTorch's distributed checkpoint.
  kUcp = 2,  ///< DeepSpeed's universal checkpoint.
};

/// Returns "safetensors", "dcp" or "ucp", as requirements and command lines have them.
std::string_view NameOf(StoreFormat format);
/// Returns the format of this name; nullopt if there is none.
std::optional<StoreFormat> StoreFormatOf(std::string_view name);

}  // namespace harmonaize::checkpoint
