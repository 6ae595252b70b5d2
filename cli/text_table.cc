#include "cli/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace harmonaize {

void TextTable::Print(std::string* text) const {
  std::vector<size_t> widths(rows_[0].size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (size_t r = 0; r < rows_.size(); ++r) {
    PrintRow(rows_[r], widths, text);
    for (const auto& [row, note] : notes_) {
      if (row == r) fmt::format_to(std::back_inserter(*text), "    {}\n", note);
    }
  }
}

void TextTable::PrintRow(const std::vector<std::string>& row, const std::vector<size_t>& widths,
                         std::string* text) const {
  std::string line;
  for (size_t i = 0; i < row.size(); ++i) {
    if (i > 0) line += "  ";
    line += i < left_columns_ ? fmt::format("{:<{}}", row[i], widths[i])
                              : fmt::format("{:>{}}", row[i], widths[i]);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  *text += line + "\n";
}

}  // namespace harmonaize
