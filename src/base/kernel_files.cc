#include "src/base/kernel_files.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <system_error>

namespace harmonaize {

std::vector<std::string> NamesIn(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  // A range-based for would throw: its increment does.
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  std::ranges::sort(names);
  return names;
}

std::string FirstLine(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::optional<uint64_t> NumberIn(const std::filesystem::path& file) {
  const std::string line = FirstLine(file);
  const char* const end = line.data() + line.size();
  uint64_t number = 0;
  const auto [rest, error] = std::from_chars(line.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

}  // namespace harmonaize
