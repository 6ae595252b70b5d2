#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace harmonaize {

/// Text that a stranger wrote, made fit for logs, terminals and JSON: UTF-8 as RFC 3629 has it,
/// without control characters (C0, DEL, C1) and so in one line, and without characters that are not
/// seen and change how others are shown (directions, zero width, separators of lines). Each of
/// these, and each sequence of bytes that is no UTF-8, becomes one U+FFFD. What would go over
/// `most_bytes` is cut off between two characters. Clean text of that length comes out as it went
/// in.
std::string CleanText(std::string_view text, size_t most_bytes);

}  // namespace harmonaize
