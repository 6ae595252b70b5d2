#include "cli/requirements/requirements_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <iostream>
#include <utility>

#include "cli/command_line.h"

namespace harmonaize {
namespace {

/// Most mistakes that are listed: more are seen when these are mended.
constexpr size_t kMostMistakes = 50;

/// Reads the file, and no more than a document may have, and a byte: it may have no end.
Result<std::string> ReadDocument(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    file.open(path);
    if (!file) return ErrnoError(errno, fmt::format("cannot read {}", path));
  }
  std::istream& input = path == "-" ? std::cin : file;
  std::string text(kMostRequirementsBytes + 1, '\0');
  errno = 0;
  input.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (input.bad() || (input.gcount() == 0 && errno != 0)) {
    return ErrnoError(errno, fmt::format("cannot read {}", path));
  }
  text.resize(static_cast<size_t>(input.gcount()));
  return text;
}

}  // namespace

Result<CheckedRequirements> CheckRequirementsFile(const std::string& path) {
  HZ_ASSIGN_OR_RETURN(std::string text, ReadDocument(path));
  const std::string name = path == "-" ? "standard input" : path;
  RequirementsReading reading = ReadRequirements(text, name, kMostMistakes);
  return CheckedRequirements{.text = std::move(text), .reading = std::move(reading)};
}

void ComplainOfMistakes(const std::vector<Status>& mistakes) {
  for (const Status& mistake : mistakes) Complain(mistake.message());
  if (mistakes.size() == kMostMistakes) Complain("there may be more");
}

}  // namespace harmonaize
