#include "src/base/toml_depth.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace harmonaize {
namespace {

/// Returns the place after the string of one line that begins before `place`.
size_t EndOfShortString(std::string_view text, size_t place, char quote) {
  for (; place < text.size() && text[place] != '\n'; ++place) {
    if (text[place] == quote) return place + 1;
    if (text[place] == '\\' && quote == '"') ++place;
  }
  return place;
}

/// The same for a string between three quotes, before which up to two more may stand.
size_t EndOfLongString(std::string_view text, size_t place, char quote) {
  const std::string three(3, quote);
  for (; place < text.size(); ++place) {
    if (text[place] == '\\' && quote == '"') {
      ++place;
    } else if (text.substr(place).starts_with(three)) {
      place += three.size();
      for (int more = 0; more < 2 && place < text.size() && text[place] == quote; ++more) ++place;
      return place;
    }
  }
  return text.size();
}

size_t EndOfString(std::string_view text, size_t start) {
  const char quote = text[start];
  const bool is_long = text.substr(start).starts_with(std::string(3, quote));
  return is_long ? EndOfLongString(text, start + 3, quote)
                 : EndOfShortString(text, start + 1, quote);
}

bool EndsLine(char one) {
  return one >= '\n' && one <= '\r';
}

/// Counts levels while a text goes by.
class Counter {
 public:
  void Open() {
    if (levels_.size() == 1 && begins_line_) in_header_ = true;
    levels_.push_back(1);
    Note();
  }
  void Close() {
    if (levels_.size() > 1) levels_.pop_back();
  }
  void Dot() {
    ++levels_.back();
    Note();
  }
  void EndKey() { levels_.back() = 1; }
  void EndLine() {
    begins_line_ = true;
    if (levels_.size() > 1 && !in_header_) return;  // In a list that goes on.
    levels_.assign(1, 1);
    in_header_ = false;
  }
  void Other() { begins_line_ = false; }

  int Deepest() const { return deepest_header_ + deepest_; }

 private:
  void Note() {
    int depth = 0;
    for (const int level : levels_) depth += level;
    int& deepest = in_header_ ? deepest_header_ : deepest_;
    deepest = std::max(deepest, depth);
  }

  std::vector<int> levels_{1};  ///< Parts of the key at each level.
  bool begins_line_ = true;
  bool in_header_ = false;
  int deepest_header_ = 0;
  int deepest_ = 1;
};

}  // namespace

int TomlDepth(std::string_view text) {
  Counter counter;
  for (size_t place = 0; place < text.size();) {
    const char one = text[place];
    if (one == '"' || one == '\'') {
      place = EndOfString(text, place);
      counter.Other();
      continue;
    }
    ++place;
    if (one == '#') {
      while (place < text.size() && !EndsLine(text[place])) ++place;
    } else if (EndsLine(one)) {
      counter.EndLine();
    } else if (one == '[' || one == '{') {
      counter.Open();
    } else if (one == ']' || one == '}') {
      counter.Close();
    } else if (one == '.') {
      counter.Dot();
    } else if (one == ',') {
      counter.EndKey();
    }
    if (one != ' ' && one != '\t' && !EndsLine(one)) counter.Other();
  }
  return counter.Deepest();
}

}  // namespace harmonaize
