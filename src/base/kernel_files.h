#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace harmonaize {

// What the kernel tells in small files of a value each, as in /sys. What is not there, or may not
// be read, is no error: devices differ in what they have.

/// The names in a folder, sorted; none where there is no such folder.
std::vector<std::string> NamesIn(const std::filesystem::path& folder);

/// "" where there is no such file.
std::string FirstLine(const std::filesystem::path& file);

/// The decimal number that is all of the file's first line.
std::optional<uint64_t> NumberIn(const std::filesystem::path& file);

}  // namespace harmonaize
