#include "cli/container/container_command.h"

#include <fmt/ranges.h>

#include <span>
#include <string_view>
#include <utility>

#include "cli/container/bubblewrap_words.h"

namespace harmonaize {
namespace {

constexpr std::string_view kDockers[] = {"docker", "podman", "nerdctl"};

// Flags of docker, podman and nerdctl are listed together: none of them means another thing
// elsewhere.
constexpr std::string_view kDockerGeneralFlags[] = {
    "--debug", "--debug-full", "--experimental",   "--help", "--insecure-registry",
    "--noout", "--remote",     "--syslog",         "--tls",  "--tlsverify",
    "--trace", "--version",    "--transient-store"};
constexpr std::string_view kDockerFlags[] = {"--detach",
                                             "--disable-content-trust",
                                             "--env-host",
                                             "--help",
                                             "--http-proxy",
                                             "--init",
                                             "--interactive",
                                             "--latest",
                                             "--no-healthcheck",
                                             "--no-hostname",
                                             "--no-hosts",
                                             "--no-session",
                                             "--oom-kill-disable",
                                             "--passwd",
                                             "--privileged",
                                             "--publish-all",
                                             "--quiet",
                                             "--read-only",
                                             "--read-only-tmpfs",
                                             "--replace",
                                             "--rm",
                                             "--rmi",
                                             "--rootfs",
                                             "--sig-proxy",
                                             "--tls-verify",
                                             "--tty",
                                             "--unsetenv-all",
                                             "--use-api-socket"};
constexpr OptionGrammar kDockerGeneral = {kDockerGeneralFlags, "Dhrv"};
constexpr OptionGrammar kDockerOfRun = {kDockerFlags, "diPqt"};
constexpr OptionGrammar kDockerOfExec = {kDockerFlags, "dilt"};

constexpr std::string_view kApptainerGeneralFlags[] = {
    "--debug", "--help", "--nocolor", "--quiet", "--silent", "--verbose", "--version"};
constexpr std::string_view kApptainerFlags[] = {"--allow-setuid",
                                                "--boot",
                                                "--cleanenv",
                                                "--compat",
                                                "--contain",
                                                "--containall",
                                                "--disable-cache",
                                                "--docker-login",
                                                "--fakeroot",
                                                "--help",
                                                "--ipc",
                                                "--keep-privs",
                                                "--net",
                                                "--no-compat",
                                                "--no-eval",
                                                "--no-home",
                                                "--no-https",
                                                "--no-init",
                                                "--no-nv",
                                                "--no-oci",
                                                "--no-pid",
                                                "--no-privs",
                                                "--no-rocm",
                                                "--no-setgroups",
                                                "--no-tmp-sandbox",
                                                "--no-umask",
                                                "--nohttps",
                                                "--nv",
                                                "--nvccli",
                                                "--oci",
                                                "--passphrase",
                                                "--pid",
                                                "--rocm",
                                                "--sharens",
                                                "--tmp-sandbox",
                                                "--underlay",
                                                "--unsquash",
                                                "--userns",
                                                "--uts",
                                                "--vm",
                                                "--vm-err",
                                                "--writable",
                                                "--writable-tmpfs"};
constexpr OptionGrammar kApptainerGeneral = {kApptainerGeneralFlags, "dhqsv"};
constexpr OptionGrammar kApptainerOfVerb = {kApptainerFlags, "Ccefhinpuw"};

std::string_view NameOf(std::string_view program) {
  return program.substr(program.rfind('/') + 1);
}

/// Reads the verb at `begin`: one of `verbs`, behind `group` where that stands before it.
Status ReadVerb(ContainerCommand& command, size_t begin, std::string_view group, bool group_belongs,
                std::span<const std::string_view> verbs) {
  const auto word = [&command](size_t place) {
    return place < command.words.size() ? std::string_view(command.words[place])
                                        : std::string_view();
  };
  const bool grouped = word(begin) == group;
  const size_t verb = grouped ? begin + 1 : begin;
  if (!IsOneOf(word(verb), verbs)) {
    return InvalidUsage(
        "--inject: '{} {}' does not run a program in a container; of the commands of {} it knows "
        "{}",
        command.program, ShownWord(word(verb)), command.program, fmt::join(verbs, ", "));
  }
  command.verb = word(verb);
  if (grouped && group_belongs) command.verb = fmt::format("{} {}", group, command.verb);
  command.verb_begin = begin;
  command.verb_end = verb + 1;
  return Status::Ok();
}

Status ReadDocker(ContainerCommand& command) {
  constexpr std::string_view kVerbs[] = {"run", "exec", "create"};
  OptionWords general = ReadOptionWords(command.words, 1, kDockerGeneral);
  command.general = std::move(general.options);
  HZ_RETURN_IF_ERROR(ReadVerb(command, general.end, "container", false, kVerbs));
  OptionWords options = ReadOptionWords(command.words, command.verb_end,
                                        command.EntersRunning() ? kDockerOfExec : kDockerOfRun);
  command.options = std::move(options.options);
  command.options_end = options.end;
  return Status::Ok();
}

Status ReadApptainer(ContainerCommand& command) {
  constexpr std::string_view kVerbs[] = {"run", "exec", "shell"};
  constexpr std::string_view kInstanceVerbs[] = {"start", "run"};
  OptionWords general = ReadOptionWords(command.words, 1, kApptainerGeneral);
  command.general = std::move(general.options);
  const bool instance =
      general.end < command.words.size() && command.words[general.end] == "instance";
  HZ_RETURN_IF_ERROR(instance ? ReadVerb(command, general.end, "instance", true, kInstanceVerbs)
                              : ReadVerb(command, general.end, "", false, kVerbs));
  OptionWords options = ReadOptionWords(command.words, command.verb_end, kApptainerOfVerb);
  command.options = std::move(options.options);
  command.options_end = options.end;
  return Status::Ok();
}

}  // namespace

bool ContainerCommand::LeavesContainer() const {
  constexpr std::string_view kDetach[] = {"--detach", "-d"};
  if (kind == RuntimeKind::kApptainer) return verb.starts_with("instance");
  if (kind == RuntimeKind::kBubblewrap) return false;
  if (verb == "create") return true;
  // "--detach=false" is the one form in which the flag has a value that takes it back.
  return HasOption(options, kDetach) && LastValue(options, kDetach) != "false";
}

Result<ContainerCommand> ReadContainerCommand(std::vector<std::string> words) {
  ContainerCommand command;
  command.words = std::move(words);
  command.program = NameOf(command.words.front());
  if (IsOneOf(command.program, kDockers)) {
    HZ_RETURN_IF_ERROR(ReadDocker(command));
    return command;
  }
  if (command.program == "apptainer" || command.program == "singularity") {
    command.kind = RuntimeKind::kApptainer;
    HZ_RETURN_IF_ERROR(ReadApptainer(command));
    return command;
  }
  if (command.program == "bwrap") {
    command.kind = RuntimeKind::kBubblewrap;
    command.verb_begin = command.verb_end = 1;
    OptionWords options = ReadBubblewrapWords(command.words);
    command.options = std::move(options.options);
    command.options_end = options.end;
    return command;
  }
  return InvalidUsage(
      "--inject: '{}' is no container runtime that it knows: docker, podman, nerdctl, apptainer, "
      "singularity and bwrap. Behind another launcher put `harmonaize run --inject -- docker run "
      "...`; another runtime needs the mounts and variables that docs/containers.md lists",
      ShownWord(command.program));
}

}  // namespace harmonaize
