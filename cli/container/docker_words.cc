#include "cli/container/docker_words.h"

#include <algorithm>
#include <string_view>

#include "cli/container/preload_words.h"

namespace harmonaize {
namespace {

constexpr std::string_view kEnv[] = {"--env", "-e"};
constexpr std::string_view kVolume[] = {"--volume", "-v"};
constexpr std::string_view kMount[] = {"--mount"};
constexpr std::string_view kNetwork[] = {"--network", "--net", "--pod"};

/// Returns the path in the container of "source:target" or "source:target:options".
std::string_view TargetOfVolume(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return text;
  const std::string_view rest = text.substr(colon + 1);
  return rest.substr(0, rest.find(':'));
}

/// Returns the path in the container of "type=bind,src=...,dst=...".
std::string_view TargetOfMount(std::string_view text) {
  while (!text.empty()) {
    const std::string_view field = text.substr(0, text.find(','));
    for (const std::string_view key : {"dst=", "target=", "destination="}) {
      if (field.starts_with(key)) return field.substr(key.size());
    }
    text.remove_prefix(std::min(field.size() + 1, text.size()));
  }
  return {};
}

/// Returns whether the user's own options mount something at just this path: there can be one mount
/// there, and it is the user's.
bool IsTaken(const ContainerCommand& command, std::string_view target) {
  return std::any_of(command.options.begin(), command.options.end(), [target](const auto& option) {
    if (option.values.empty()) return false;
    const std::string& value = option.values.front();
    const auto is = [&option](const auto& names) {
      return std::find(std::begin(names), std::end(names), option.name) != std::end(names);
    };
    return (is(kVolume) && TargetOfVolume(value) == target) ||
           (is(kMount) && TargetOfMount(value) == target);
  });
}

/// Returns the options for all variables but LD_PRELOAD. Values of the user's own assignments stand
/// in the launcher's command line already; others of them could steer the client in its
/// environment.
std::vector<std::string> VariableWords(const Injected& injected, Environment& of_client) {
  std::vector<std::string> words;
  for (const std::string& name : injected.names) {
    if (AssignedValue(injected, name)) continue;
    of_client.Set(name, injected.of_rank.Get(name));
    words.insert(words.end(), {"--env", name});
  }
  for (const std::string& assignment : injected.assignments) {
    if (assignment.starts_with("LD_PRELOAD=")) continue;
    words.insert(words.end(), {"--env", assignment});
  }
  return words;
}

}  // namespace

bool AddsHostNetwork(const ContainerCommand& command, const Injected& injected) {
  return injected.shares_network && !command.EntersRunning() &&
         !HasOption(command.options, kNetwork);
}

Result<RankProgram> DockerProgram(const ContainerCommand& command, const Injected& injected) {
  RankProgram program{.arguments = command.words, .environment = injected.of_launcher};
  std::vector<std::string> more;
  for (const ReadOnlyMount& mount : injected.mounts) {
    if (IsTaken(command, mount.target)) continue;
    more.insert(more.end(), {"--mount", fmt::format("type=bind,src={},dst={},readonly",
                                                    mount.source, mount.target)});
  }
  const std::vector<std::string> variables = VariableWords(injected, program.environment);
  more.insert(more.end(), variables.begin(), variables.end());
  const std::string others = AssignedValue(injected, "LD_PRELOAD").value_or("");
  if (!injected.library.empty()) {
    HZ_RETURN_IF_ERROR(CheckEnvironmentFiles(command));
    for (const GivenOption& option : command.options) {
      if (std::find(std::begin(kEnv), std::end(kEnv), option.name) == std::end(kEnv)) continue;
      AddToGivenPreload(option, injected, program.arguments);
    }
    more.insert(more.end(), {"--env", "LD_PRELOAD=" + JoinPreload(injected.library, others)});
  } else if (!others.empty()) {
    more.insert(more.end(), {"--env", "LD_PRELOAD=" + others});
  }
  if (!injected.id_file.empty()) more.insert(more.end(), {"--cidfile", injected.id_file});
  if (AddsHostNetwork(command, injected)) more.insert(more.end(), {"--network", "host"});
  program.arguments.insert(
      program.arguments.begin() + static_cast<std::ptrdiff_t>(command.verb_end), more.begin(),
      more.end());
  return program;
}

}  // namespace harmonaize
