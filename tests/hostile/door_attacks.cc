// What can be said at the front door, and how.

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "cli/daemon_document.h"
#include "src/base/file_descriptor.h"
#include "src/memory/shared_memory.h"
#include "tests/hostile/attacks.h"
#include "tests/support/hostile_names.h"

namespace harmonaize::testing {
namespace {

/// Types of messages that a draw is made from: all that there are and some beyond.
constexpr uint64_t kMessageTypes = static_cast<uint64_t>(MessageType::kOpenProfile) + 4;

std::vector<std::byte> DrawMessage(Attacker& attacker) {
  std::vector<std::byte> bytes = attacker.DrawBytes(attacker.DrawBelow(400));
  if (bytes.size() < sizeof(MessageHeader) || attacker.OneIn(3)) return bytes;
  MessageHeader header;
  header.type = static_cast<MessageType>(attacker.DrawBelow(kMessageTypes));
  header.tail_bytes = static_cast<uint32_t>(attacker.DrawBelow(64));
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

void MakeNonBlocking(const ControlSocket& socket) {
  fcntl(socket.fd(), F_SETFL, O_NONBLOCK);
}

std::vector<std::byte> DrawQuestion(Attacker& attacker) {
  ExplainRequest explain;
  explain.ranks = static_cast<int32_t>(attacker.DrawBelow(40)) - 2;
  const std::array<std::vector<std::byte>, 3> questions = {
      Encode(StatusRequest::kType, StatusRequest{}), Encode(ExplainRequest::kType, explain),
      Encode(DocumentRequest::kType, DocumentRequest{attacker.DrawBelow(100'000)})};
  return attacker.DrawOf(questions);
}

/// Sends to whoever listens at an abstract name; -1 where nobody does.
FileDescriptor ConnectAbstract(const std::string& name) {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) return {};
  return socket;
}

}  // namespace

void SendNamesThatAreNoText(Attacker& attacker) {
  const std::vector<std::string> names = HostileNames();
  while (attacker.TimeLeft()) {
    std::string name = attacker.DrawOf(names);
    if (attacker.OneIn(2)) {
      const std::vector<std::byte> bytes = attacker.DrawBytes(64);
      name.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    HelloRequest hello;
    FillField(hello.program, name);
    std::optional<HostileSession> session = attacker.Greet(hello);
    if (!session.has_value()) continue;
    JoinRequest join;
    join.id = DrawId(attacker);
    join.ranks = 1;
    FillField(join.name, name);
    if (!attacker.Ask(*session, join)) continue;
    SplitRequest split;
    split.member = session->LastReply<MemberReply>().member;
    FillField(split.name, name);
    attacker.Ask(*session, split);
    ShrinkRequest shrink;
    shrink.member = split.member;
    FillField(shrink.name, name);
    attacker.Ask(*session, shrink);
    ExplainRequest explain;
    FillField(explain.communicator, name);
    attacker.Ask(*session, explain);
    const Result<std::string> status = FetchDaemonStatus(attacker.socket_path());
    if (status.ok()) attacker.InspectDocument(*status);
  }
}

void SendAnyBytes(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<ControlSocket> socket;
    std::optional<HostileSession> session;
    if (attacker.OneIn(2)) {
      socket = attacker.Connect();
    } else {
      session = attacker.Greet();
    }
    ControlSocket* const way = session.has_value()  ? &session->socket()
                               : socket.has_value() ? &*socket
                                                    : nullptr;
    if (way == nullptr) continue;
    for (int i = 0; i < 10; ++i) {
      const std::vector<std::byte> bytes = DrawMessage(attacker);
      const int descriptor = STDERR_FILENO;
      const bool with_descriptor = attacker.OneIn(4);
      static_cast<void>(way->Send(bytes, std::span(&descriptor, with_descriptor ? 1 : 0)));
      attacker.CountBlows();
    }
    // The answers are read now and then.
    while (attacker.OneIn(2) && way->Receive(10).ok()) continue;
  }
}

void SendTooMuch(Attacker& attacker) {
  constexpr size_t kDescriptors = 200;
  while (attacker.TimeLeft()) {
    std::optional<HostileSession> session = attacker.Greet();
    if (!session.has_value()) continue;
    std::vector<std::byte> bytes =
        Encode(RegisterRegionRequest::kType, RegisterRegionRequest{.bytes = 4096});
    if (attacker.OneIn(2)) bytes.resize(kMaxControlMessageBytes + attacker.DrawBelow(100'000));
    std::vector<int> descriptors(attacker.DrawBelow(kDescriptors) + 1, session->socket().fd());
    iovec data{bytes.data(), bytes.size()};
    std::vector<std::byte> control(CMSG_SPACE(kDescriptors * sizeof(int)));
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size() * sizeof(int));
    static_cast<void>(!sendmsg(session->socket().fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT));
    attacker.CountBlows();
    static_cast<void>(session->socket().Receive(20));
    attacker.WasCutOff(*session);
  }
}

void ShutOneSide(Attacker& attacker) {
  std::vector<ControlSocket> kept;
  while (attacker.TimeLeft()) {
    std::optional<ControlSocket> socket = attacker.Connect();
    if (!socket.has_value()) continue;
    MakeNonBlocking(*socket);
    const int side = attacker.OneIn(2) ? SHUT_RD : SHUT_WR;
    const bool greets = attacker.OneIn(2);
    const std::vector<std::byte> words =
        greets ? Encode(HelloRequest::kType, HelloRequest{}) : DrawQuestion(attacker);
    if (attacker.OneIn(3)) shutdown(socket->fd(), side);
    const Result<SharedMemory> memory = CreateSharedMemory("half-closed", sizeof(SessionSegment));
    const int descriptor = memory.ok() ? memory->descriptor.get() : STDERR_FILENO;
    static_cast<void>(socket->Send(words, std::span(&descriptor, greets ? 1 : 0)));
    shutdown(socket->fd(), side);
    static_cast<void>(socket->Send(DrawQuestion(attacker)));
    attacker.CountBlows(2);
    if (attacker.OneIn(2)) static_cast<void>(socket->Receive(5));
    // Most are left to the daemon for a while.
    if (attacker.OneIn(4)) continue;
    kept.push_back(std::move(*socket));
    if (kept.size() > 100) kept.erase(kept.begin());
  }
}

void ReadNoAnswers(Attacker& attacker) {
  std::vector<ControlSocket> sockets;
  while (attacker.TimeLeft()) {
    if (sockets.size() < 40) {
      std::optional<ControlSocket> socket = attacker.Connect();
      if (socket.has_value()) {
        MakeNonBlocking(*socket);
        sockets.push_back(std::move(*socket));
      }
    }
    for (ControlSocket& socket : sockets) {
      if (socket.Send(DrawQuestion(attacker)).ok()) attacker.CountBlows();
    }
    if (sockets.size() == 40) usleep(500);
  }
}

void HandOverTheSocket(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    // In a child, so that some of them are gone before the other one begins.
    const bool stays = attacker.OneIn(2);
    const uint64_t lives_us = attacker.DrawBelow(20'000);
    const Helper owner([&] {
      std::optional<HostileSession> session = attacker.Greet();
      ControlSocket accomplice(ConnectAbstract(attacker.accomplice()));
      if (!session.has_value() || !accomplice.valid()) return;
      const int descriptors[] = {session->socket().fd()};
      static_cast<void>(accomplice.Send(DrawMessage(attacker), descriptors));
      attacker.CountBlows();
      if (!stays) return;
      for (int i = 0; i < 10; ++i) attacker.Ask(*session, CreateIdRequest{});
      usleep(static_cast<useconds_t>(lives_us));
    });
    usleep(static_cast<useconds_t>(lives_us));
  }
}

}  // namespace harmonaize::testing
