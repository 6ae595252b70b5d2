#include "cli/container/injection.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/container/apptainer_words.h"
#include "cli/container/bubblewrap_words.h"
#include "cli/container/docker_words.h"
#include "src/ipc/http_socket.h"

namespace harmonaize {
namespace {

namespace fs = std::filesystem;

// Where a container sees what is handed in. The first three are those of docs/containers.md.
constexpr char kLibraryInside[] = "/opt/harmonaize/lib/libharmonaize-preload.so";
constexpr char kWriterInside[] = "/opt/harmonaize/bin/harmonaize-writer";
constexpr char kSocketFolderInside[] = "/run/harmonaize";
constexpr char kRequirementsInside[] = "/run/harmonaize-job/requirements.toml";
constexpr char kTicketInside[] = "/run/harmonaize-job/ticket";

/// Characters with which a path would end early, or become another one, in the options of some
/// runtime.
constexpr std::string_view kNotInOptions = ",:\"'\\";

// Variables that `run` sets, or takes over from the environment where its options do not say
// otherwise. Newcomers have a ticket in place of most of the first ones.
constexpr const char* kNames[] = {"RANK",
                                  "LOCAL_RANK",
                                  "WORLD_SIZE",
                                  "LOCAL_WORLD_SIZE",
                                  "MASTER_ADDR",
                                  "MASTER_PORT",
                                  "HARMONAIZE_SOCKET",
                                  "HARMONAIZE_JOB",
                                  "HARMONAIZE_JOB_KIND",
                                  "HARMONAIZE_REQUIREMENTS",
                                  "HARMONAIZE_TICKET_FILE"};

Status CheckPath(const std::string& path) {
  const bool bad = std::any_of(path.begin(), path.end(), [](unsigned char letter) {
    return letter < ' ' || kNotInOptions.find(static_cast<char>(letter)) != std::string_view::npos;
  });
  if (!bad) return Status::Ok();
  return InvalidUsage(
      "--inject: {} cannot be mounted by an option, because of a comma, colon, quote, backslash or "
      "control character in its path; at another path it can",
      ShownWord(path));
}

/// Returns whether each container of bubblewrap or Apptainer gets a network of its own.
bool SeparatesNetworks(const ContainerCommand& command) {
  constexpr std::string_view kOwn[] = {"--unshare-net", "--unshare-all", "--net", "-n"};
  constexpr std::string_view kShared[] = {"--share-net"};
  constexpr std::string_view kNetworkKind[] = {"--network"};
  return HasOption(command.options, kOwn) && !HasOption(command.options, kShared) &&
         LastValue(command.options, kNetworkKind) != "host";
}

/// Returns the path without links, where it exists.
fs::path Resolved(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? fs::absolute(path, error) : real;
}

/// Returns whether there is nothing in the folder but sockets, and the files by which daemons lock
/// them.
bool HasSocketsAlone(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator one(folder, error), end; !error && one != end; one.increment(error)) {
    const bool is_lock = one->path().extension() == ".lock";
    if (!fs::is_socket(one->symlink_status(error)) && !is_lock) return false;
  }
  return !error;
}

/// Returns whether the folder is a daemon's of another user, by its name and its owner: nothing in
/// it is this user's.
bool IsAnotherUsersDaemon(const fs::path& folder) {
  struct stat status {};
  return folder.filename().string().starts_with("harmonaize") &&
         ::stat(folder.c_str(), &status) == 0 && status.st_uid != ::geteuid() &&
         (status.st_mode & S_IWOTH) == 0;
}

}  // namespace

Injection::Injection(ContainerCommand command, InjectionOptions options)
    : command_(std::move(command)), options_(std::move(options)) {}

std::string Injection::NetworkNote() const {
  if (!options_.ranks_meet) return "";
  if (command_.kind == RuntimeKind::kDocker) {
    Injected injected;
    injected.shares_network = true;
    if (!AddsHostNetwork(command_, injected)) return "";
    return "the containers get the host's network (--network host), in which ranks meet at "
           "MASTER_ADDR; an own --network in the command decides otherwise";
  }
  if (!SeparatesNetworks(command_)) return "";
  return "the command gives each rank a network of its own, so they do not reach each other at "
         "MASTER_ADDR; programs that meet there will wait";
}

std::string Injection::Mount(const std::string& source, const std::string& target,
                             Injected& injected) const {
  if (ShowsHostPath(command_, source)) return source;
  if (!command_.EntersRunning()) injected.mounts.push_back({source, target});
  return target;
}

void Injection::MountLibrary(Injected& injected) const {
  if (options_.library.empty()) return;
  injected.library = Mount(Resolved(options_.library).string(), kLibraryInside, injected);
}

// It is of one release with the library, so it comes with it alone. A container that runs already
// looks for its own, beside the library.
void Injection::MountWriter(Injected& injected) const {
  if (options_.library.empty() || command_.EntersRunning()) return;
  if (AssignedValue(injected, "HARMONAIZE_WRITER")) return;
  const std::string named = injected.of_rank.Get("HARMONAIZE_WRITER");
  const std::string& program = named.empty() ? options_.writer : named;
  if (program.empty()) return;
  injected.of_rank.Set("HARMONAIZE_WRITER",
                       Mount(Resolved(program).string(), kWriterInside, injected));
  injected.names.emplace_back("HARMONAIZE_WRITER");
}

// The folder is mounted, since a daemon that restarts makes a new socket. A folder that has other
// things in it, such as /tmp, stays outside, and its sockets are mounted alone.
void Injection::MountSocket(Injected& injected) const {
  if (AssignedValue(injected, "HARMONAIZE_SOCKET")) return;
  const fs::path socket = Resolved(options_.socket);
  const fs::path folder = socket.parent_path();
  const std::string inside = fmt::format("{}/{}", kSocketFolderInside, socket.filename().string());
  std::string path;
  if (HasSocketsAlone(folder) || IsAnotherUsersDaemon(folder)) {
    path = fmt::format("{}/{}", Mount(folder.string(), kSocketFolderInside, injected),
                       socket.filename().string());
  } else {
    path = Mount(socket.string(), inside, injected);
    MountHttpSocket(socket, injected);
  }
  injected.of_rank.Set("HARMONAIZE_SOCKET", path);
}

// Ranks state requirements and hear of events there, and their writers report.
void Injection::MountHttpSocket(const std::string& socket, Injected& injected) const {
  const fs::path http = HttpSocketPath(socket);
  std::error_code error;
  if (!fs::is_socket(http, error)) return;
  Mount(http.string(), fmt::format("{}/{}", kSocketFolderInside, http.filename().string()),
        injected);
}

Status Injection::MountFile(const char* name, const char* target, Injected& injected) const {
  const std::string path = injected.of_rank.Get(name);
  if (path.empty() || AssignedValue(injected, name)) return Status::Ok();
  if (command_.EntersRunning()) {
    return InvalidUsage(
        "--inject: {} names the file {}, and nothing can be mounted into a container that runs "
        "already; have the container see the file, and say --env {}=PATH with its path there",
        name, ShownWord(path), name);
  }
  injected.of_rank.Set(name, Mount(Resolved(path).string(), target, injected));
  return Status::Ok();
}

Result<RankProgram> Injection::ProgramOf(const Environment& of_rank,
                                         const std::string& id_file) const {
  Injected injected;
  injected.assignments = options_.assignments;
  injected.of_rank = of_rank;
  injected.of_launcher = options_.of_launcher;
  injected.shares_network = options_.ranks_meet;
  injected.id_file = id_file;
  MountLibrary(injected);
  MountWriter(injected);
  MountSocket(injected);
  HZ_RETURN_IF_ERROR(MountFile("HARMONAIZE_REQUIREMENTS", kRequirementsInside, injected));
  HZ_RETURN_IF_ERROR(MountFile("HARMONAIZE_TICKET_FILE", kTicketInside, injected));
  for (const char* const name : kNames) {
    if (injected.of_rank.Has(name)) injected.names.emplace_back(name);
  }
  if (command_.kind == RuntimeKind::kBubblewrap) return BubblewrapProgram(command_, injected);
  for (const ReadOnlyMount& mount : injected.mounts) HZ_RETURN_IF_ERROR(CheckPath(mount.source));
  return command_.kind == RuntimeKind::kDocker ? DockerProgram(command_, injected)
                                               : ApptainerProgram(command_, injected);
}

}  // namespace harmonaize
