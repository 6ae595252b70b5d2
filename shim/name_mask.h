#pragma once

#include <span>
#include <string_view>

namespace harmonaize::shim {

struct NamedBits {
  std::string_view name;
  unsigned bits;
};

/// Returns the bits that a list such as "INIT,coll" names, in the manner of NCCL's variables: with
/// ^ in front, all but these. Names that are not among `names` are ignored.
unsigned ParseNameMask(std::string_view text, std::span<const NamedBits> names);

}  // namespace harmonaize::shim
