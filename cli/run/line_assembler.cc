#include "cli/run/line_assembler.h"

#include <utility>

namespace harmonaize {

LineAssembler::LineAssembler(std::string prefix, bool whole_lines)
    : prefix_(std::move(prefix)), whole_lines_(whole_lines) {}

void LineAssembler::Emit(std::string_view line, std::string* output) {
  output->append(prefix_).append(partial_).append(line).push_back('\n');
  partial_.clear();
}

void LineAssembler::Append(std::string_view bytes, std::string* output) {
  if (!whole_lines_) {
    output->append(bytes);
    return;
  }
  while (!bytes.empty()) {
    const size_t room = kLongestLine - partial_.size();
    const size_t newline = bytes.substr(0, room).find('\n');
    if (newline != std::string_view::npos) {
      Emit(bytes.substr(0, newline), output);
      bytes.remove_prefix(newline + 1);
    } else if (bytes.size() >= room) {
      Emit(bytes.substr(0, room), output);
      bytes.remove_prefix(room);
    } else {
      partial_.append(bytes);
      return;
    }
  }
}

void LineAssembler::Finish(std::string* output) {
  if (!partial_.empty()) Emit({}, output);
}

}  // namespace harmonaize
