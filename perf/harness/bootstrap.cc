#include "perf/harness/bootstrap.h"

#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>

namespace harmonaize::perf {
namespace {

using Clock = std::chrono::steady_clock;

// Sent first on every connection, to tell our processes from other programs that use the port.
constexpr uint32_t kMagic = 0x687a7066;  // "hzpf"
// Most bytes of one process's message to AllGather.
constexpr size_t kLargestMessage = 1 << 20;

struct Hello {
  uint32_t magic = kMagic;
  int32_t process = 0;
  int32_t processes = 0;
  uint32_t job = 0;
};

Status WaitFor(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return SystemError("timed out");
    pollfd entry{fd, events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, 1 << 30)));
    if (ready > 0) return Status::Ok();
    if (ready < 0 && errno != EINTR) return ErrnoError(errno, "poll");
  }
}

Status SendAll(int fd, const void* data, size_t bytes, Clock::time_point deadline) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(fd, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      from += sent;
      bytes -= static_cast<size_t>(sent);
    } else if (errno == EAGAIN || errno == EINTR) {
      HZ_RETURN_IF_ERROR(WaitFor(fd, POLLOUT, deadline));
    } else {
      return ErrnoError(errno, "send");
    }
  }
  return Status::Ok();
}

Status ReceiveAll(int fd, void* data, size_t bytes, Clock::time_point deadline) {
  auto* to = static_cast<char*>(data);
  while (bytes > 0) {
    HZ_RETURN_IF_ERROR(WaitFor(fd, POLLIN, deadline));
    const ssize_t got = recv(fd, to, bytes, MSG_DONTWAIT);
    if (got > 0) {
      to += got;
      bytes -= static_cast<size_t>(got);
    } else if (got == 0) {
      return RemoteError("it closed the connection, so it has ended");
    } else if (errno != EAGAIN && errno != EINTR) {
      return ErrnoError(errno, "receive");
    }
  }
  return Status::Ok();
}

// Has a deadline, because the kernel would try an address that does not answer for minutes.
Status ConnectWithin(int fd, const addrinfo& address, Clock::time_point deadline) {
  if (connect(fd, address.ai_addr, address.ai_addrlen) == 0) return Status::Ok();
  if (errno != EINPROGRESS) return ErrnoError(errno, "connect");
  HZ_RETURN_IF_ERROR(WaitFor(fd, POLLOUT, deadline));
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  return error == 0 ? Status::Ok() : ErrnoError(error, "connect");
}

struct AddressList {
  addrinfo* first = nullptr;
  ~AddressList() {
    if (first != nullptr) freeaddrinfo(first);
  }
};

Status Resolve(const Launch& launch, AddressList* list) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  const int error = getaddrinfo(launch.address.c_str(), std::to_string(launch.port).c_str(), &hints,
                                &list->first);
  if (error == 0) return Status::Ok();
  return InvalidArgument("MASTER_ADDR={}: {}", launch.address, gai_strerror(error));
}

void DisableDelay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Status Annotate(const Status& status, std::string_view what) {
  return Status(status.code(), std::string(what) + ": " + status.message());
}

}  // namespace

Status Bootstrap::Listen() {
  AddressList list;
  HZ_RETURN_IF_ERROR(Resolve(launch_, &list));
  // A peer may be gone again before it is accepted, which must not block.
  const FileDescriptor listener(
      socket(list.first->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return ErrnoError(errno, "socket");
  // A port that the previous run left in TIME_WAIT is free for this one.
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listener.get(), list.first->ai_addr, list.first->ai_addrlen) != 0 ||
      listen(listener.get(), launch_.processes) != 0) {
    return ErrnoError(errno, fmt::format("process 0 cannot listen on {}:{} for the other processes "
                                         "(set MASTER_PORT to a free port)",
                                         launch_.address, launch_.port));
  }
  return Accept(listener);
}

Status Bootstrap::Accept(const FileDescriptor& listener) {
  const auto deadline = Clock::now() + timeouts_.connect;
  sockets_.resize(static_cast<size_t>(launch_.processes));
  int missing = launch_.processes - 1;
  while (missing > 0) {
    if (!WaitFor(listener.get(), POLLIN, deadline).ok()) {
      return RemoteError("{} of {} processes did not connect to {}:{} within {} s", missing,
                         launch_.processes, launch_.address, launch_.port,
                         timeouts_.connect.count());
    }
    FileDescriptor peer(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer.valid() && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
      return ErrnoError(errno, "cannot accept the other processes' connections");
    }
    if (!peer.valid()) continue;
    // A peer that does not send our greeting within a moment is not one of ours.
    Hello hello;
    const auto soon = std::min(deadline, Clock::now() + std::chrono::seconds(5));
    if (!ReceiveAll(peer.get(), &hello, sizeof(hello), soon).ok()) continue;
    if (hello.magic != kMagic || hello.job != HashJob(launch_.job)) continue;
    const auto index = static_cast<size_t>(hello.process);
    if (hello.processes != launch_.processes || hello.process < 1 || index >= sockets_.size() ||
        sockets_[index].valid()) {
      return InvalidUsage(
          "process {} of {} came to a job of {} processes: is another job using "
          "port {}?",
          hello.process, hello.processes, launch_.processes, launch_.port);
    }
    DisableDelay(peer.get());
    HZ_RETURN_IF_ERROR(SendAll(peer.get(), &hello, sizeof(hello), deadline));
    sockets_[index] = std::move(peer);
    --missing;
  }
  return Status::Ok();
}

Status Bootstrap::Greet(int root, std::chrono::steady_clock::time_point deadline) const {
  DisableDelay(root);
  Hello hello;
  hello.process = launch_.process;
  hello.processes = launch_.processes;
  hello.job = HashJob(launch_.job);
  HZ_RETURN_IF_ERROR(SendAll(root, &hello, sizeof(hello), deadline));
  Hello answer;
  HZ_RETURN_IF_ERROR(ReceiveAll(root, &answer, sizeof(answer), deadline));
  if (answer.magic == kMagic && answer.process == launch_.process) return Status::Ok();
  return InvalidUsage("something else answers there");
}

Status Bootstrap::ConnectToRoot() {
  AddressList list;
  HZ_RETURN_IF_ERROR(Resolve(launch_, &list));
  const auto deadline = Clock::now() + timeouts_.connect;
  Status last;
  do {
    FileDescriptor fd(socket(list.first->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.valid()) return ErrnoError(errno, "socket");
    last = ConnectWithin(fd.get(), *list.first, deadline);
    if (last.ok()) last = Greet(fd.get(), deadline);
    if (last.ok()) {
      sockets_.push_back(std::move(fd));
      return Status::Ok();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // process 0 may still be starting
  } while (Clock::now() < deadline);
  return RemoteError(
      "process {} could not reach process 0 at {}:{} within {} s ({}); are "
      "MASTER_ADDR and MASTER_PORT the same for all processes?",
      launch_.process, launch_.address, launch_.port, timeouts_.connect.count(), last.message());
}

Result<std::unique_ptr<Bootstrap>> Bootstrap::Connect(const Launch& launch, Timeouts timeouts) {
  std::unique_ptr<Bootstrap> bootstrap(new Bootstrap(launch, timeouts));
  if (launch.processes > 1) {
    HZ_RETURN_IF_ERROR(launch.process == 0 ? bootstrap->Listen() : bootstrap->ConnectToRoot());
  }
  return bootstrap;
}

Status Bootstrap::Send(int process, std::string_view message) {
  const int fd = sockets_[static_cast<size_t>(process)].get();
  const auto deadline = Clock::now() + timeouts_.exchange;
  const auto length = static_cast<uint32_t>(message.size());
  Status status = SendAll(fd, &length, sizeof(length), deadline);
  if (status.ok()) status = SendAll(fd, message.data(), message.size(), deadline);
  return status.ok() ? status : Annotate(status, fmt::format("to process {}", process));
}

Result<std::string> Bootstrap::Receive(int process) {
  const int fd = sockets_[static_cast<size_t>(process)].get();
  const auto deadline = Clock::now() + timeouts_.exchange;
  uint32_t length = 0;
  Status status = ReceiveAll(fd, &length, sizeof(length), deadline);
  // Process 0 answers with everybody's messages in one, each after its length.
  const size_t limit = (kLargestMessage + sizeof(length)) * static_cast<size_t>(launch_.processes);
  if (status.ok() && length > limit) {
    status =
        InternalError("announced a message of {} bytes; at most {} are possible", length, limit);
  }
  std::string message(status.ok() ? length : 0, '\0');
  if (status.ok()) status = ReceiveAll(fd, message.data(), length, deadline);
  if (status.ok()) return message;
  return Annotate(status, fmt::format("process {}", process));
}

Result<std::vector<std::string>> Bootstrap::AllGather(std::string_view mine) {
  if (mine.size() > kLargestMessage) return InvalidArgument("{} bytes are too many", mine.size());
  const auto count = static_cast<size_t>(launch_.processes);
  std::vector<std::string> all(count);
  all[static_cast<size_t>(launch_.process)] = mine;
  if (count == 1) return all;
  if (launch_.process == 0) {
    std::string packed;
    for (int process = 0; process < launch_.processes; ++process) {
      const auto index = static_cast<size_t>(process);
      if (process > 0) {
        HZ_ASSIGN_OR_RETURN(all[index], Receive(process));
      }
      const auto length = static_cast<uint32_t>(all[index].size());
      packed.append(reinterpret_cast<const char*>(&length), sizeof(length));
      packed += all[index];
    }
    for (int process = 1; process < launch_.processes; ++process) {
      HZ_RETURN_IF_ERROR(Send(process, packed));
    }
    return all;
  }
  HZ_RETURN_IF_ERROR(Send(0, mine));
  HZ_ASSIGN_OR_RETURN(std::string packed, Receive(0));
  std::string_view rest = packed;
  for (std::string& message : all) {
    uint32_t length = 0;
    if (rest.size() < sizeof(length)) return InternalError("process 0 sent a torn message");
    std::memcpy(&length, rest.data(), sizeof(length));
    rest.remove_prefix(sizeof(length));
    if (rest.size() < length) return InternalError("process 0 sent a torn message");
    message = rest.substr(0, length);
    rest.remove_prefix(length);
  }
  return all;
}

Status Bootstrap::Barrier() {
  return AllGather("").status();
}

}  // namespace harmonaize::perf
