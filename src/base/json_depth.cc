#include "src/base/json_depth.h"

#include <algorithm>
#include <cstddef>

namespace harmonaize {

int JsonDepth(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_text = false;
  for (size_t place = 0; place < text.size(); ++place) {
    const char one = text[place];
    if (in_text) {
      if (one == '\\') ++place;
      in_text = one != '"';
    } else if (one == '"') {
      in_text = true;
    } else if (one == '[' || one == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (one == ']' || one == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace harmonaize
