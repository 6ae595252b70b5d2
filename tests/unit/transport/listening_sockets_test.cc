#include "src/transport/listening_sockets.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace harmonaize::transport {
namespace {

NetworkAddress Address(const std::string& text) {
  return *NetworkAddress::Parse(text);
}

/// Returns the address of a socket that was opened at any port of the loopback address.
NetworkAddress Opened(ListeningSockets* sockets, FileDescriptor* socket) {
  Result<FileDescriptor> opened = sockets->Listen(Address("127.0.0.1:0"));
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  *socket = std::move(*opened);
  return BoundAddress(socket->get());
}

TEST(ListeningSockets, APortThatAnotherHasIsUnavailable) {
  ListeningSockets sockets;
  FileDescriptor taken;
  const NetworkAddress address = Opened(&sockets, &taken);
  const Status status = sockets.Listen(address).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find(address.ToString()), std::string::npos) << status.message();
  taken.Reset();
  EXPECT_TRUE(sockets.Listen(address).ok());
  EXPECT_EQ(sockets.Listen(Address("192.0.2.1:1")).status().code(), Code::kSystemError);
}

TEST(ListeningSockets, ACopyKeepsThePortAndIsFoundByTheNext) {
  ListeningSockets first;
  FileDescriptor socket;
  const NetworkAddress address = Opened(&first, &socket);
  EXPECT_TRUE(first.TakeCopies().empty()) << "nobody asks for a port of the kernel's choice again";
  socket.Reset();
  ASSERT_TRUE(first.Listen(address).ok());
  std::vector<FileDescriptor> copies = first.TakeCopies();
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(first.Listen(address).status().code(), Code::kUnavailable);
  ListeningSockets second(std::move(copies));
  int prepared = -1;
  Result<FileDescriptor> again = second.Listen(address, [&](int fd) { prepared = fd; });
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(prepared, again->get());
  EXPECT_EQ(BoundAddress(again->get()).ToString(), address.ToString());
  EXPECT_NE(fcntl(again->get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(fcntl(again->get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_TRUE(second.CloseUnused().empty());
}

TEST(ListeningSockets, WhatListensNowhereIsClosed) {
  const int no_socket = eventfd(0, EFD_CLOEXEC);
  const int datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::vector<FileDescriptor> passed_on;
  for (const int fd : {no_socket, datagrams, silent}) passed_on.emplace_back(fd);
  ListeningSockets sockets(std::move(passed_on));
  EXPECT_TRUE(sockets.CloseUnused().empty());
  for (const int fd : {no_socket, datagrams, silent}) EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

TEST(ListeningSockets, WhatNobodyAsksForIsClosed) {
  ListeningSockets first;
  FileDescriptor socket;
  const NetworkAddress address = Opened(&first, &socket);
  std::vector<FileDescriptor> passed_on;
  passed_on.push_back(std::move(socket));
  ListeningSockets second(std::move(passed_on));
  const std::vector<NetworkAddress> unused = second.CloseUnused();
  ASSERT_EQ(unused.size(), 1u);
  EXPECT_EQ(unused[0].ToString(), address.ToString());
  EXPECT_TRUE(first.Listen(address).ok()) << "the port is free";
}

}  // namespace
}  // namespace harmonaize::transport
