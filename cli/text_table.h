#pragma once

#include <string>
#include <utility>
#include <vector>

namespace harmonaize {

/// A table of text. Each column is as wide as its widest cell. The first columns hold names and are
/// aligned left; the others are aligned right.
class TextTable {
 public:
  TextTable(std::vector<std::string> head, size_t left_columns) : left_columns_(left_columns) {
    rows_.push_back(std::move(head));
  }
  /// Adds a row with as many cells as the head has.
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// Adds a line of its own under the last row.
  void AddNote(std::string note) { notes_.push_back({rows_.size() - 1, std::move(note)}); }
  bool empty() const { return rows_.size() == 1; }

  /// Appends the table to `text`, a line for each row.
  void Print(std::string* text) const;

 private:
  void PrintRow(const std::vector<std::string>& row, const std::vector<size_t>& widths,
                std::string* text) const;

  size_t left_columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::pair<size_t, std::string>> notes_;
};

}  // namespace harmonaize
