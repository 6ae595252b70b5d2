#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace harmonaize {

/// Turns the chunks that come out of a pipe into whole lines, each with the same prefix, so that
/// the lines of several writers can share one output without mixing. Not thread safe.
class LineAssembler {
 public:
  /// A line that never ends is broken here: the memory of the launcher is not the rank's to fill.
  static constexpr size_t kLongestLine = 64 * 1024;

  /// `whole_lines` false passes every byte on at once, which only a single writer can afford.
  LineAssembler(std::string prefix, bool whole_lines);

  /// Appends to `output` what `bytes` completes.
  void Append(std::string_view bytes, std::string* output);
  /// Appends an unfinished last line, with the newline that it lacks.
  void Finish(std::string* output);

 private:
  void Emit(std::string_view line, std::string* output);

  std::string prefix_;
  bool whole_lines_;
  std::string partial_;
};

}  // namespace harmonaize
