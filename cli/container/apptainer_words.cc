#include "cli/container/apptainer_words.h"

#include <string_view>

#include "cli/container/preload_words.h"

namespace harmonaize {
namespace {

// Options that keep the client's environment from the container.
constexpr std::string_view kClean[] = {"--cleanenv", "-e",       "--containall",
                                       "-C",         "--compat", "--oci"};

/// Returns the LD_PRELOAD that the container would have without us, but for options.
std::string OthersPreloads(const ContainerCommand& command, const Injected& injected,
                           const std::string& variable) {
  if (const auto assigned = AssignedValue(injected, "LD_PRELOAD")) return *assigned;
  if (injected.of_launcher.Has(variable)) return injected.of_launcher.Get(variable);
  return HasOption(command.options, kClean) ? "" : injected.of_launcher.Get("LD_PRELOAD");
}

}  // namespace

Result<RankProgram> ApptainerProgram(const ContainerCommand& command, const Injected& injected) {
  RankProgram program{.arguments = command.words, .environment = injected.of_launcher};
  const std::string prefix = command.program == "singularity" ? "SINGULARITYENV_" : "APPTAINERENV_";
  for (const std::string& name : injected.names) {
    program.environment.Set(prefix + name, injected.of_rank.Get(name));
  }
  for (const std::string& assignment : injected.assignments) {
    const std::string name = assignment.substr(0, assignment.find('='));
    program.environment.Set(prefix + name, injected.of_rank.Get(name));
  }
  if (!injected.library.empty()) {
    HZ_RETURN_IF_ERROR(CheckEnvironmentFiles(command));
    for (const GivenOption& option : command.options) {
      if (option.name == "--env") AddToGivenPreload(option, injected, program.arguments);
    }
    const std::string variable = prefix + "LD_PRELOAD";
    const std::string others = OthersPreloads(command, injected, variable);
    program.environment.Set(variable, JoinPreload(injected.library, others));
  }
  std::vector<std::string> more;
  for (const ReadOnlyMount& mount : injected.mounts) {
    more.insert(more.end(), {"--bind", fmt::format("{}:{}:ro", mount.source, mount.target)});
  }
  program.arguments.insert(
      program.arguments.begin() + static_cast<std::ptrdiff_t>(command.verb_end), more.begin(),
      more.end());
  return program;
}

}  // namespace harmonaize
