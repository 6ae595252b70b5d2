#include "cli/container/bubblewrap_words.h"

#include <algorithm>
#include <span>
#include <string_view>

namespace harmonaize {
namespace {

constexpr std::string_view kNoValue[] = {
    "--help",           "--version",  "--share-net",   "--disable-userns",
    "--as-pid-1",       "--clearenv", "--new-session", "--assert-userns-disabled",
    "--die-with-parent"};
constexpr std::string_view kTwoValues[] = {
    "--setenv",    "--bind",    "--bind-try",    "--dev-bind",    "--dev-bind-try",
    "--ro-bind",   "--bind-fd", "--ro-bind-try", "--ro-bind-fd",  "--file",
    "--bind-data", "--symlink", "--chmod",       "--ro-bind-data"};
constexpr std::string_view kOverlay = "--overlay";

// Mounts whose first value is a path of the host.
constexpr std::string_view kBinds[] = {"--bind",         "--bind-try", "--dev-bind",
                                       "--dev-bind-try", "--ro-bind",  "--ro-bind-try"};
// Other options whose last value is a path that they cover.
constexpr std::string_view kCovers[] = {
    "--proc",        "--dev",        "--tmpfs",       "--mqueue",  "--bind-fd",
    "--file",        "--ro-bind-fd", "--bind-data",   "--symlink", "--overlay",
    "--tmp-overlay", "--ro-overlay", "--ro-bind-data"};

size_t NumberOfValues(std::string_view option) {
  if (option.starts_with("--unshare-") || IsOneOf(option, kNoValue)) return 0;
  if (option == kOverlay) return 3;
  return IsOneOf(option, kTwoValues) ? 2 : 1;
}

/// Returns the path without slashes at its end; "" for the root.
std::string_view Trimmed(std::string_view path) {
  return path.substr(0, path.find_last_not_of('/') + 1);
}

bool IsWithin(std::string_view path, std::string_view folder) {
  folder = Trimmed(folder);
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

/// Returns what LD_PRELOAD is behind all of bwrap's own options, of `value` before them.
std::string PreloadBehind(const ContainerCommand& command, std::string value) {
  for (const GivenOption& option : command.options) {
    const bool names_it = !option.values.empty() && option.values.front() == "LD_PRELOAD";
    if (option.name == "--clearenv" || (option.name == "--unsetenv" && names_it)) value.clear();
    if (option.name == "--setenv" && names_it && option.values.size() > 1) value = option.values[1];
  }
  return value;
}

/// Returns whether the user's own options decide on a variable.
bool IsDecided(const ContainerCommand& command, std::string_view name) {
  return std::any_of(command.options.begin(), command.options.end(), [name](const auto& option) {
    const bool sets = option.name == "--setenv" || option.name == "--unsetenv";
    return sets && !option.values.empty() && option.values.front() == name;
  });
}

}  // namespace

OptionWords ReadBubblewrapWords(const std::vector<std::string>& words) {
  OptionWords result;
  size_t next = 1;
  while (next < words.size() && words[next].starts_with("--") && words[next] != "--") {
    GivenOption option{.name = words[next], .values = {}, .word = next + 1, .offset = 0};
    const size_t end = std::min(next + 1 + NumberOfValues(option.name), words.size());
    option.values.assign(words.begin() + static_cast<std::ptrdiff_t>(next) + 1,
                         words.begin() + static_cast<std::ptrdiff_t>(end));
    result.options.push_back(std::move(option));
    next = end;
  }
  result.end = next;
  return result;
}

bool ShowsHostPath(const ContainerCommand& command, const std::string& path) {
  if (command.kind != RuntimeKind::kBubblewrap) return false;
  bool shown = false;
  for (const GivenOption& option : command.options) {
    const bool binds = IsOneOf(option.name, kBinds);
    if ((!binds && !IsOneOf(option.name, kCovers)) || option.values.empty()) continue;
    if (!IsWithin(path, option.values.back())) continue;
    shown = binds && Trimmed(option.values.front()) == Trimmed(option.values.back());
  }
  return shown;
}

RankProgram BubblewrapProgram(const ContainerCommand& command, const Injected& injected) {
  std::vector<std::string> more;
  for (const ReadOnlyMount& mount : injected.mounts) {
    more.insert(more.end(), {"--ro-bind", mount.source, mount.target});
  }
  std::vector<std::string> names = injected.names;
  for (const std::string& assignment : injected.assignments) {
    names.push_back(assignment.substr(0, assignment.find('=')));
  }
  constexpr std::string_view kClears[] = {"--clearenv"};
  const bool clears = HasOption(command.options, kClears);
  for (const std::string& name : names) {
    if (!clears || name == "LD_PRELOAD" || IsDecided(command, name)) continue;
    more.insert(more.end(), {"--setenv", name, injected.of_rank.Get(name)});
  }
  RankProgram program{.arguments = command.words, .environment = injected.of_rank};
  const std::string others = PreloadBehind(command, injected.of_rank.Get("LD_PRELOAD"));
  const std::string preload =
      injected.library.empty() ? others : JoinPreload(injected.library, others);
  if (!preload.empty()) more.insert(more.end(), {"--setenv", "LD_PRELOAD", preload});
  // The rank's own LD_PRELOAD is for the program alone.
  program.environment.Unset("LD_PRELOAD");
  if (injected.of_launcher.Has("LD_PRELOAD")) {
    program.environment.Set("LD_PRELOAD", injected.of_launcher.Get("LD_PRELOAD"));
  }
  // A process in a session of its own is in no process group that the launcher could end.
  constexpr std::string_view kNewSession[] = {"--new-session"};
  if (HasOption(command.options, kNewSession)) more.emplace_back("--die-with-parent");
  program.arguments.insert(
      program.arguments.begin() + static_cast<std::ptrdiff_t>(command.options_end), more.begin(),
      more.end());
  return program;
}

}  // namespace harmonaize
