// harmonaize-writer: writes one rank's checkpoints to a store, beside the rank and after its end.
// The library starts it (docs/checkpoint-store.md); people do not.

#include <sys/socket.h>

#include <cstdio>
#include <cstring>
#include <utility>

#include "src/base/file_descriptor.h"
#include "src/checkpoint/writer_messages.h"
#include "src/ipc/control_socket.h"
#include "writer/detach.h"
#include "writer/writer.h"

namespace {

/// Exit status for wrong usage, as the project's other programs have it.
constexpr int kUsageStatus = 2;

constexpr char kHelp[] =
    R"(harmonaize-writer: writes the checkpoints of one rank to a store of the tenant's.

Usage: harmonaize-writer [--help | --version]

Ranks that save checkpoints start it, with a socket at descriptor 3 over which they say what is to be
written, and where. It goes into the background, takes what the job leaves over of processors and
disks, and ends when its rank has ended and all is written. 'harmonaize checkpoints' shows what it has
written.

Environment:
  HARMONAIZE_WRITER_LOG  a file to which it appends what goes wrong
  HARMONAIZE_SOCKET      where the daemon listens that it tells of checkpoints
)";

bool IsSocket(int fd) {
  int type = 0;
  socklen_t bytes = sizeof type;
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_SEQPACKET;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::puts("harmonaize-writer " HARMONAIZE_VERSION);
    return 0;
  }
  if (argc != 1 || !IsSocket(harmonaize::checkpoint::kWriterSocket)) {
    std::fputs("harmonaize-writer: ranks start it; 'harmonaize-writer --help' says more\n", stderr);
    return kUsageStatus;
  }
  harmonaize::Status status = harmonaize::writer::Detach();
  if (status.ok()) {
    harmonaize::writer::Writer writer{harmonaize::ControlSocket(
        harmonaize::FileDescriptor(harmonaize::checkpoint::kWriterSocket))};
    status = writer.Run();
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "harmonaize-writer: %s\n", status.message().c_str());
  return 1;
}
