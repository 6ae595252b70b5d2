#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace harmonaize {

/// Assembles the chunks that come out of a pipe into whole lines, each with the same prefix, so
/// that the lines of several writers can share one output without mixing. Thread: one.
class LineAssembler {
 public:
  /// Longest line; a longer one is broken here, so that no rank can fill the launcher's memory.
  static constexpr size_t kLongestLine = 64 * 1024;

  /// If `whole_lines` is false, passes every byte on at once, which is right only for a single
  /// writer.
  LineAssembler(std::string prefix, bool whole_lines);

  /// Appends to `output` the lines that `bytes` completes.
  void Append(std::string_view bytes, std::string* output);
  /// Appends an unfinished last line, with the missing newline.
  void Finish(std::string* output);

 private:
  void Emit(std::string_view line, std::string* output);

  std::string prefix_;
  bool whole_lines_;
  std::string partial_;
};

}  // namespace harmonaize
