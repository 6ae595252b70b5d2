#include "src/ipc/control_socket.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "src/ipc/socket_folder.h"

// Since Linux 6.5; glibc 2.36 does not define it.
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace harmonaize {
namespace {

Result<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return InvalidArgument("the socket path '{}' must have 1 to {} bytes", path,
                           sizeof address.sun_path - 1);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

Result<FileDescriptor> ConnectTo(const sockaddr_un& address, int type, int within_ms,
                                 int* error_number) {
  FileDescriptor fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError(errno, "cannot make a socket");
  *error_number = 0;
  // A listener that no longer accepts fills its queue, and the kernel would wait for room.
  const timeval patience{within_ms / 1000, within_ms % 1000 * 1000};
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    *error_number = errno;
  }
  return fd;
}

std::vector<FileDescriptor> TakeDescriptors(msghdr* message) {
  std::vector<FileDescriptor> taken;
  for (cmsghdr* c = CMSG_FIRSTHDR(message); c != nullptr; c = CMSG_NXTHDR(message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      taken.emplace_back(fd);
    }
  }
  return taken;
}

}  // namespace

Result<ControlSocket> ControlSocket::Connect(const std::string& path, int type, int within_ms) {
  HZ_ASSIGN_OR_RETURN(sockaddr_un address, AddressOf(path));
  int error_number = 0;
  HZ_ASSIGN_OR_RETURN(FileDescriptor fd, ConnectTo(address, type, within_ms, &error_number));
  if (error_number == EAGAIN) {
    return Unavailable(
        "the Harmonaize daemon at {} takes no connections, and so many wait that there is no room "
        "for one more: is it stopped?",
        path);
  }
  if (error_number != 0) {
    const bool forbidden = error_number == EACCES || error_number == EPERM;
    return Unavailable("{} at {} ({})",
                       forbidden ? "this user may not connect to the Harmonaize daemon"
                                 : "no Harmonaize daemon listens",
                       path, std::strerror(error_number));
  }
  return ControlSocket(std::move(fd));
}

Status ControlSocket::Send(std::span<const std::byte> bytes, std::span<const int> descriptors) {
  if (bytes.size() > kMaxControlMessageBytes || descriptors.size() > kMaxDescriptorsPerMessage) {
    return InternalError("a control message of {} bytes with {} descriptors is too large",
                         bytes.size(), descriptors.size());
  }
  iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptorsPerMessage * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(c), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent;
  do {
    sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(bytes.size())) return Status::Ok();
  return RemoteError("cannot send over the control socket: {}", std::strerror(errno));
}

Result<ControlMessage> ControlSocket::Receive(int timeout_ms) {
  pollfd waiting{fd_.get(), POLLIN, 0};
  int ready;
  do {
    ready = poll(&waiting, 1, timeout_ms);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) return Status(Code::kInProgress, "nothing came over the control socket");

  ControlMessage message;
  message.bytes.resize(kMaxControlMessageBytes);
  iovec data{message.bytes.data(), message.bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptorsPerMessage * sizeof(int))];
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t received;
  bool reset = false;
  do {
    received = recvmsg(fd_.get(), &header, MSG_CMSG_CLOEXEC);
    // The kernel reports once that the other side closed without reading all that was sent.
    // Messages that it had sent before are still to be read.
  } while (received < 0 &&
           (errno == EINTR || (errno == ECONNRESET && !std::exchange(reset, true))));
  if (received < 0) return RemoteError("the control socket broke: {}", std::strerror(errno));
  message.descriptors = TakeDescriptors(&header);
  if (received == 0) return RemoteError("the other side closed the control socket");
  if ((header.msg_flags & MSG_TRUNC) != 0) {
    return RemoteError("a control message was longer than the protocol allows");
  }
  if ((header.msg_flags & MSG_CTRUNC) != 0) {
    message.descriptors_status = SystemError(
        "a control message came without all of its descriptors: its receiver is out of file "
        "descriptors (Too many open files; `ulimit -n`, LimitNOFILE), or it had more than {}",
        kMaxDescriptorsPerMessage);
  }
  message.bytes.resize(static_cast<size_t>(received));
  return message;
}

Result<PeerCredentials> ControlSocket::Peer() const {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return ErrnoError(errno, "cannot learn who is at the other end of the control socket");
  }
  return PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
}

FileDescriptor ControlSocket::PeerProcess(pid_t number) const {
  int process = -1;
  socklen_t length = sizeof process;
  if (getsockopt(fd_.get(), SOL_SOCKET, SO_PEERPIDFD, &process, &length) == 0) {
    return FileDescriptor(process);
  }
  if (errno != ENOPROTOOPT) return {};
  return FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, number, 0)));
}

bool ControlSocket::HasUnread() const {
  int bytes = 0;
  return ioctl(fd_.get(), SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

bool ControlSocket::PeerGone() const {
  pollfd waiting{fd_.get(), POLLRDHUP, 0};
  return poll(&waiting, 1, 0) > 0 && (waiting.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0;
}

Result<FileDescriptor> ListenAt(const std::string& path, mode_t socket_mode, int type) {
  HZ_ASSIGN_OR_RETURN(sockaddr_un address, AddressOf(path));
  HZ_RETURN_IF_ERROR(MakeSocketFolder(path));

  int error_number = 0;
  HZ_RETURN_IF_ERROR(
      ConnectTo(address, type, ControlSocket::kConnectWithinMs, &error_number).status());
  if (error_number == 0) {
    return InvalidUsage(
        "a daemon is already listening at {}; stop it first, or give this one another socket with "
        "--socket",
        path);
  }
  if (error_number == ECONNREFUSED) unlink(path.c_str());

  FileDescriptor fd(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoError(errno, "cannot make a socket");
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return ErrnoError(errno, fmt::format("cannot bind the socket {}", path));
  }
  if (chmod(path.c_str(), socket_mode) != 0 || listen(fd.get(), SOMAXCONN) != 0) {
    return ErrnoError(errno, fmt::format("cannot listen at {}", path));
  }
  return fd;
}

}  // namespace harmonaize
