#include "src/checkpoint/element_type.h"

#include <array>

namespace harmonaize::checkpoint {
namespace {

struct TypeRow {
  std::string_view name;
  uint64_t bytes;
};

// In the order of ElementType.
constexpr std::array<TypeRow, kElementTypeCount> kTypes = {{{"BOOL", 1},
                                                            {"U8", 1},
                                                            {"I8", 1},
                                                            {"U16", 2},
                                                            {"I16", 2},
                                                            {"U32", 4},
                                                            {"I32", 4},
                                                            {"U64", 8},
                                                            {"I64", 8},
                                                            {"F16", 2},
                                                            {"BF16", 2},
                                                            {"F32", 4},
                                                            {"F64", 8},
                                                            {"F8_E4M3", 1},
                                                            {"F8_E5M2", 1},
                                                            {"C64", 8}}};

}  // namespace

uint64_t BytesOf(ElementType type) {
  const auto index = static_cast<size_t>(type);
  return index < kTypes.size() ? kTypes[index].bytes : 0;
}

std::string_view NameOf(ElementType type) {
  const auto index = static_cast<size_t>(type);
  return index < kTypes.size() ? kTypes[index].name : std::string_view();
}

std::optional<ElementType> ElementTypeOf(std::string_view name) {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].name == name) return static_cast<ElementType>(i);
  }
  return std::nullopt;
}

}  // namespace harmonaize::checkpoint
