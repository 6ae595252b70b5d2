#include "cli/container/engine_place.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "cli/json_view.h"
#include "src/base/small_file.h"

namespace harmonaize {
namespace {

namespace fs = std::filesystem;

/// Most bytes of a file of docker's client: its configuration, the description of a context.
constexpr size_t kMostClientFileBytes = 1 << 20;
/// The context of docker that is always there, and is this host's.
constexpr std::string_view kDefaultContext = "default";

bool IsOfThisHost(std::string_view address) {
  return address.empty() || address.starts_with("unix:") || address.starts_with("fd:") ||
         address.starts_with("/");
}

Status OtherHost(const ContainerCommand& command, const std::string& what) {
  return InvalidUsage(
      "--inject: {} speaks with {}, and containers there have neither this host's library nor its "
      "daemon; run harmonaize on that host",
      command.program, ShownWord(what));
}

Json DocumentAt(const fs::path& path) {
  const Result<std::string> text = ReadSmallFile(path.string(), kMostClientFileBytes);
  if (!text.ok()) return {};
  Result<Json> document = ParseDocument(*text);
  return document.ok() ? std::move(document).value() : Json();
}

std::string TextIn(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

fs::path DockerFolder(const ContainerCommand& command, const Environment& of_client) {
  constexpr std::string_view kConfig[] = {"--config"};
  if (std::string folder = LastValue(command.general, kConfig); !folder.empty()) return folder;
  if (std::string folder = of_client.Get("DOCKER_CONFIG"); !folder.empty()) return folder;
  return fs::path(of_client.Get("HOME")) / ".docker";
}

/// Returns the address of the engine of a context; "" where there is no such context, of which the
/// client complains itself.
std::string AddressOfContext(const fs::path& folder, const std::string& name) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder / "contexts" / "meta", error)) {
    const Json context = DocumentAt(entry.path() / "meta.json");
    if (TextIn(context, "Name") != name) continue;
    return TextIn(At(At(context, "Endpoints"), "docker"), "Host");
  }
  return "";
}

/// Looks for the engine where docker's client does, in the same order.
Status CheckDocker(const ContainerCommand& command, const Environment& of_client) {
  constexpr std::string_view kHost[] = {"--host", "-H"};
  constexpr std::string_view kContext[] = {"--context", "-c"};
  std::string context = LastValue(command.general, kContext);
  std::string address = LastValue(command.general, kHost);
  if (context.empty() && address.empty()) address = of_client.Get("DOCKER_HOST");
  if (!address.empty()) {
    return IsOfThisHost(address) ? Status::Ok() : OtherHost(command, "the engine at " + address);
  }
  const fs::path folder = DockerFolder(command, of_client);
  if (context.empty()) context = of_client.Get("DOCKER_CONTEXT");
  if (context.empty()) context = TextIn(DocumentAt(folder / "config.json"), "currentContext");
  if (context.empty() || context == kDefaultContext) return Status::Ok();
  address = AddressOfContext(folder, context);
  if (IsOfThisHost(address)) return Status::Ok();
  return OtherHost(command, fmt::format("the engine of the context {}, at {}", context, address));
}

Status CheckPodman(const ContainerCommand& command, const Environment& of_client) {
  constexpr std::string_view kUrl[] = {"--url"};
  constexpr std::string_view kConnection[] = {"--connection", "-c"};
  constexpr std::string_view kRemote[] = {"--remote", "-r"};
  std::string address = LastValue(command.general, kUrl);
  std::string connection = LastValue(command.general, kConnection);
  if (address.empty() && connection.empty()) address = of_client.Get("CONTAINER_HOST");
  if (!address.empty()) {
    return IsOfThisHost(address) ? Status::Ok() : OtherHost(command, "the engine at " + address);
  }
  if (connection.empty()) connection = of_client.Get("CONTAINER_CONNECTION");
  const bool is_remote =
      HasOption(command.general, kRemote) && LastValue(command.general, kRemote) != "false";
  if (connection.empty() && !is_remote) return Status::Ok();
  return OtherHost(command, fmt::format("{}, which may be another host's (--url unix:///... names "
                                        "one of this host)",
                                        connection.empty() ? "the engine of its configuration"
                                                           : "the connection " + connection));
}

}  // namespace

Status CheckEngineIsHere(const ContainerCommand& command, const Environment& of_client) {
  if (command.program == "docker") return CheckDocker(command, of_client);
  if (command.program == "podman") return CheckPodman(command, of_client);
  return Status::Ok();
}

}  // namespace harmonaize
