#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace harmonaize::testing {

/// Fills a text field with these bytes unchanged, up to its last one if there are enough.
template <size_t kBytes>
void FillField(char (&field)[kBytes], std::string_view bytes) {
  std::memset(field, 0, kBytes);
  std::memcpy(field, bytes.data(), std::min(kBytes, bytes.size()));
}

/// Returns names that are no UTF-8, or would move a terminal's cursor, or have no end.
inline std::vector<std::string> HostileNames() {
  return {"\xff",
          "\xc0\x80",
          "\xed\xa0\x80",
          "\xf4\x90\x80\x80",
          "caf\xc3",
          "\x1b[2Jgone",
          "one\nharmonaized 2",
          "tab\tcr\r",
          "\xc2\x9b"
          "31mred",
          "\x7f",
          std::string(64, '\xfe'),
          std::string(62, 'a') + "\xe2\x82"};
}

}  // namespace harmonaize::testing
