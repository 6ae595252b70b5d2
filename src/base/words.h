#pragma once

#include <string_view>

namespace harmonaize {

/// Calls `visit` with each word of a list with one space between words.
template <typename Visit>
void ForEachWord(std::string_view words, Visit visit) {
  while (!words.empty()) {
    const size_t space = words.find(' ');
    visit(words.substr(0, space));
    words = space == std::string_view::npos ? std::string_view() : words.substr(space + 1);
  }
}

}  // namespace harmonaize
