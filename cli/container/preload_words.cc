#include "cli/container/preload_words.h"

#include <sstream>
#include <string_view>

#include "src/base/small_file.h"

namespace harmonaize {
namespace {

constexpr std::string_view kName = "LD_PRELOAD";
constexpr std::string_view kAssignment = "LD_PRELOAD=";
/// Most bytes of a file of variables that is read; the runtime reads it again.
constexpr size_t kMostVariableBytes = 1 << 20;

bool SetsPreload(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with(kAssignment) || line == kName) return true;
  }
  return false;
}

}  // namespace

void AddToGivenPreload(const GivenOption& option, const Injected& injected,
                       std::vector<std::string>& words) {
  if (option.values.empty()) return;
  const std::string& value = option.values.front();
  if (value == kName) {
    // Without a value the variable would be that of the client.
    const std::string others = injected.of_launcher.Get(kName);
    words[option.word].append("=" + JoinPreload(injected.library, others));
    return;
  }
  // Apptainer takes several assignments with commas between them.
  size_t place = value.starts_with(kAssignment) ? 0 : value.find(fmt::format(",{}", kAssignment));
  if (place == std::string::npos) return;
  if (place > 0) ++place;
  const size_t text = option.offset + place + kAssignment.size();
  const bool empty = place + kAssignment.size() == value.size();
  words[option.word].insert(text, injected.library + (empty ? "" : ":"));
}

Status CheckEnvironmentFiles(const ContainerCommand& command) {
  for (const GivenOption& option : command.options) {
    if (option.name != "--env-file" || option.values.empty()) continue;
    const std::string& path = option.values.front();
    // A file that cannot be read is the runtime's to complain of.
    const Result<std::string> text = ReadSmallFile(path, kMostVariableBytes);
    if (!text.ok() || !SetsPreload(*text)) continue;
    return InvalidUsage(
        "--inject: the file {} sets LD_PRELOAD, which would hide or be hidden by the client "
        "library; take it out of the file, and give the container --env LD_PRELOAD=..., which "
        "--inject joins with its own",
        ShownWord(path));
  }
  return Status::Ok();
}

}  // namespace harmonaize
