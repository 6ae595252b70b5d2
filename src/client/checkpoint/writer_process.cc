#include "src/client/checkpoint/writer_process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "src/base/settings.h"

namespace harmonaize {
namespace {

constexpr const char* kProgram = "harmonaize-writer";

/// Returns the folder of the library, or program, that this code is in; "" if that is not known.
std::filesystem::path FolderOfThisLibrary() {
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&FolderOfThisLibrary), &here) == 0) return {};
  if (here.dli_fname == nullptr) return {};
  std::error_code error;
  return std::filesystem::canonical(here.dli_fname, error).parent_path();
}

bool IsProgram(const std::filesystem::path& path) {
  return access(path.c_str(), X_OK) == 0;
}

/// The variables that a writer gets. It gets no others: those of the program are not meant for it,
/// such as LD_PRELOAD.
std::vector<std::string> WriterEnvironment() {
  std::vector<std::string> variables;
  for (const char* const name : {"HARMONAIZE_SOCKET", "HARMONAIZE_WRITER_LOG"}) {
    const char* const value = secure_getenv(name);
    if (value != nullptr) variables.push_back(std::string(name) + "=" + value);
  }
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// What posix_spawn is told, released at the end.
class SpawnSettings {
 public:
  SpawnSettings() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  /// Leaves the child its socket alone, and none of the program's ways to deal with signals.
  void Isolate(int socket) {
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, socket, checkpoint::kWriterSocket);
    posix_spawn_file_actions_addclosefrom_np(&actions, checkpoint::kWriterSocket + 1);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes, &signals);
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

/// Starts the program, with `socket` as its descriptor kWriterSocket, and waits until it has gone
/// into the background.
Status Spawn(const std::string& program, int socket) {
  SpawnSettings settings;
  settings.Isolate(socket);
  std::vector<std::string> arguments = {kProgram};
  std::vector<std::string> environment = WriterEnvironment();
  pid_t child = 0;
  const int error = posix_spawn(&child, program.c_str(), &settings.actions, &settings.attributes,
                                Pointers(&arguments).data(), Pointers(&environment).data());
  if (error != 0) return ErrnoError(error, "cannot start " + program);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    // The program may wait for all of its children, and be faster.
    if (errno == ECHILD) return Status::Ok();
    if (errno != EINTR) return ErrnoError(errno, "cannot wait for " + program);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Status::Ok();
  return SystemError("{} did not start (wait status {})", program, status);
}

/// Returns a copy of the descriptor that no standard stream, and not the writer's socket, will take
/// the place of.
FileDescriptor MovedUp(const FileDescriptor& descriptor) {
  return FileDescriptor(fcntl(descriptor.get(), F_DUPFD_CLOEXEC, checkpoint::kWriterSocket + 1));
}

}  // namespace

Result<std::string> FindWriter() {
  if (const char* const named = Setting("HARMONAIZE_WRITER"); named != nullptr && *named != '\0') {
    if (IsProgram(named)) return std::string(named);
    return SystemError("HARMONAIZE_WRITER is '{}', which is no program", named);
  }
  const std::filesystem::path here = FolderOfThisLibrary();
  const std::array<std::filesystem::path, 4> places = {
      here / ".." / "bin" / kProgram, here / kProgram, std::filesystem::path("/usr/bin") / kProgram,
      std::filesystem::path("/usr/local/bin") / kProgram};
  for (const std::filesystem::path& place : places) {
    if (IsProgram(place)) return place.lexically_normal().string();
  }
  return SystemError(
      "there is no {} in {}, its ../bin, /usr/bin or /usr/local/bin; name it in HARMONAIZE_WRITER",
      kProgram, here.string());
}

Result<std::unique_ptr<WriterProcess>> WriterProcess::Start(const checkpoint::OpenStore& store) {
  HZ_ASSIGN_OR_RETURN(const std::string program, FindWriter());
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return ErrnoError(errno, "cannot make a socket for harmonaize-writer");
  }
  FileDescriptor ours(pair[0]);
  const FileDescriptor theirs(pair[1]);
  const FileDescriptor moved = MovedUp(theirs);
  if (!moved.valid()) return ErrnoError(errno, "cannot make a socket for harmonaize-writer");
  HZ_RETURN_IF_ERROR(Spawn(program, moved.get()));
  std::unique_ptr<WriterProcess> writer(new WriterProcess(std::move(ours)));
  HZ_RETURN_IF_ERROR(writer->Send(store, -1));
  return writer;
}

Status WriterProcess::Lend(const checkpoint::LendBuffer& buffer, int descriptor) {
  if (descriptor < 0) {
    return SystemError("the program has closed the descriptor of the memory for checkpoints");
  }
  return Send(buffer, descriptor);
}

Status WriterProcess::Save(const checkpoint::SaveImage& save) {
  return Send(save, -1);
}

Status WriterProcess::Send(const checkpoint::ToWriter& message, int descriptor) {
  HZ_ASSIGN_OR_RETURN(const std::string text, Encode(message));
  if (!socket_.Intact()) return SystemError("the program has closed the writer's socket");
  iovec part = {.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptor >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  }
  while (sendmsg(socket_.get(), &header, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    return RemoteError("{} is gone ({})", kProgram, strerrordesc_np(errno));
  }
  return Status::Ok();
}

Result<std::optional<checkpoint::FromWriter>> WriterProcess::Next(int timeout_ms) {
  if (!socket_.Intact()) return SystemError("the program has closed the writer's socket");
  pollfd waited = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
  if (poll(&waited, 1, timeout_ms) <= 0) return std::optional<checkpoint::FromWriter>();
  std::string text(checkpoint::kMostWriterMessageBytes, '\0');
  const ssize_t bytes = recv(socket_.get(), text.data(), text.size(), MSG_DONTWAIT);
  if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) {
    return std::optional<checkpoint::FromWriter>();
  }
  if (bytes <= 0) return RemoteError("{} has ended", kProgram);
  text.resize(static_cast<size_t>(bytes));
  HZ_ASSIGN_OR_RETURN(checkpoint::FromWriter message, checkpoint::DecodeFromWriter(text));
  return std::optional<checkpoint::FromWriter>(std::move(message));
}

}  // namespace harmonaize
