#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace harmonaize {

// Reads small files of the kernel with one value each, as in /sys. A file that does not exist, or
// may not be read, is no error: devices differ in what they have.

/// Returns the names in a folder, sorted; none where there is no such folder.
std::vector<std::string> NamesIn(const std::filesystem::path& folder);

/// Returns the first line; "" where there is no such file.
std::string FirstLine(const std::filesystem::path& file);

/// Returns the decimal number that the whole first line of the file is.
std::optional<uint64_t> NumberIn(const std::filesystem::path& file);

}  // namespace harmonaize
