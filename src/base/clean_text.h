#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace harmonaize {

/// Makes untrusted text fit for logs, terminals and JSON: UTF-8 as in RFC 3629, without control
/// characters (C0, DEL, C1), thus in one line, and without invisible characters that change how
/// others are shown (directions, zero width, separators of lines). Each of these, and each sequence
/// of bytes that is not UTF-8, becomes one U+FFFD. The text is cut between two characters to at
/// most `most_bytes`. Clean text of that length is returned unchanged.
std::string CleanText(std::string_view text, size_t most_bytes);

}  // namespace harmonaize
