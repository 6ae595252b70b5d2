#include "tests/support/writer_process.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <string>
#include <string_view>
#include <variant>

extern "C" char** environ;

namespace harmonaize::testing {
namespace {

/// Starts the program with a socket at kWriterSocket, and waits until it is in the background.
Status Spawn(int socket) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, checkpoint::kWriterSocket);
  char program[] = HARMONAIZE_WRITER_PROGRAM;
  char* arguments[] = {program, nullptr};
  pid_t child = 0;
  const int error = posix_spawn(&child, program, &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return ErrnoError(error, "cannot start " HARMONAIZE_WRITER_PROGRAM);
  if (WaitFor(child) != 0) return InternalError("the writer did not go into the background");
  return Status::Ok();
}

Result<FileDescriptor> MemoryWith(const std::vector<std::byte>& image) {
  FileDescriptor memory(memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.valid()) return ErrnoError(errno, "cannot make memory");
  size_t at = 0;
  while (at < image.size()) {
    const ssize_t written = write(memory.get(), image.data() + at, image.size() - at);
    if (written <= 0) return ErrnoError(errno, "cannot fill memory");
    at += static_cast<size_t>(written);
  }
  return memory;
}

}  // namespace

Result<std::unique_ptr<WriterProcess>> WriterProcess::Start(const checkpoint::OpenStore& options) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoError(errno, "cannot make a pair of sockets");
  }
  std::unique_ptr<WriterProcess> writer(new WriterProcess(ControlSocket(FileDescriptor(ends[0]))));
  // The number of its own must not be kWriterSocket, since dup2 would leave it to be closed.
  const FileDescriptor its(dup(ends[1]));
  close(ends[1]);
  HZ_RETURN_IF_ERROR(Spawn(its.get()));
  HZ_ASSIGN_OR_RETURN(const std::string text, checkpoint::Encode(checkpoint::ToWriter(options)));
  HZ_RETURN_IF_ERROR(writer->Say(text));
  HZ_RETURN_IF_ERROR(writer->Next().status());
  return writer;
}

Status WriterProcess::Say(const std::string& text, std::span<const int> descriptors) {
  return socket_.Send(std::as_bytes(std::span(text)), descriptors);
}

Status WriterProcess::Save(const checkpoint::PartIdentity& identity,
                           const std::vector<std::byte>& image) {
  const uint32_t buffer = next_buffer_++ % checkpoint::kMostLentBuffers;
  HZ_ASSIGN_OR_RETURN(const FileDescriptor memory, MemoryWith(image));
  HZ_ASSIGN_OR_RETURN(const std::string lend,
                      checkpoint::Encode(checkpoint::ToWriter(
                          checkpoint::LendBuffer{.index = buffer, .bytes = image.size()})));
  const int descriptors[] = {memory.get()};
  HZ_RETURN_IF_ERROR(Say(lend, descriptors));
  HZ_ASSIGN_OR_RETURN(
      const std::string save,
      checkpoint::Encode(checkpoint::ToWriter(checkpoint::SaveImage{.buffer = buffer,
                                                                    .step = identity.step,
                                                                    .save = identity.save,
                                                                    .bytes = image.size(),
                                                                    .is_kept = identity.is_kept})));
  return Say(save);
}

Result<checkpoint::FromWriter> WriterProcess::Next(int timeout_ms) {
  HZ_ASSIGN_OR_RETURN(const ControlMessage message, socket_.Receive(timeout_ms));
  return checkpoint::DecodeFromWriter(
      std::string_view(reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size()));
}

Status WriterProcess::WaitForCommit(uint64_t step) {
  while (true) {
    HZ_ASSIGN_OR_RETURN(const checkpoint::FromWriter said, Next());
    const auto* const failed = std::get_if<checkpoint::SaveFailed>(&said);
    if (failed != nullptr && failed->step == step) return Status(failed->code, failed->message);
    const auto* const committed = std::get_if<checkpoint::CheckpointCommitted>(&said);
    if (committed != nullptr && committed->step == step) return Status::Ok();
  }
}

void AdoptOrphans() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

std::vector<pid_t> Children() {
  const std::string self = std::to_string(getpid());
  std::ifstream file("/proc/" + self + "/task/" + self + "/children");
  std::vector<pid_t> children;
  pid_t child = 0;
  while (file >> child) children.push_back(child);
  return children;
}

int WaitFor(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

int Kill(pid_t child) {
  kill(child, SIGKILL);
  return WaitFor(child);
}

}  // namespace harmonaize::testing
