// What a stranger can do at the daemon's front door, and what a stopped daemon does to its clients:
// as two users, with a real daemon between them.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "src/ipc/operator_socket.h"
#include "tests/support/daemon_process.h"
#include "tests/support/hostile_session.h"
#include "tests/support/lingering_socket.h"
#include "tests/support/other_users.h"
#include "tests/support/rank_runner.h"
#include "tests/support/sanitized.h"
#include "tests/support/stranger.h"

namespace harmonaize::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// What an honest tenant waits for at most, however busy the machine.
constexpr int kPatienceMs = 20'000;

class FrontDoor : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  }

  /// A daemon that all users reach.
  static void LetEverybodyIn(const DaemonProcess& daemon) {
    ASSERT_EQ(chmod(daemon.folder().c_str(), 0755), 0);
  }

  /// Whether a status is given to an ordinary user.
  static bool AnswersStatus(const DaemonProcess& daemon) {
    Result<ControlSocket> socket = ControlSocket::Connect(daemon.socket_path());
    return socket.ok() && socket->Send(Encode(StatusRequest::kType, StatusRequest{})).ok() &&
           socket->Receive(kPatienceMs).ok();
  }
};

TEST_F(FrontDoor, WaitsForNoDescriptorThatAStrangerSends) {
  const DaemonProcess daemon;
  LetEverybodyIn(daemon);
  std::vector<FileDescriptor> kept;
  std::vector<ControlSocket> sockets;
  const Stranger stranger([&] {
    // In the midst of a session, and instead of one. Whatever comes first, the stranger's own
    // thread of the daemon's stands still from then on.
    static HostileSession session(daemon.socket_path());
    RegisterRegionRequest request;
    request.bytes = 4096;
    for (int i = 0; i < 4; ++i) {
      Result<ControlSocket> socket = ControlSocket::Connect(daemon.socket_path());
      ASSERT_TRUE(socket.ok());
      ASSERT_TRUE(SendLingering(*socket, Encode(StatusRequest::kType, StatusRequest{}), &kept));
      sockets.push_back(std::move(*socket));
      ASSERT_TRUE(
          SendLingering(session.socket(), Encode(RegisterRegionRequest::kType, request), &kept));
    }
  });
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(AnswersStatus(daemon));
    HostileSession honest(daemon.socket_path());
    EXPECT_TRUE(honest.WaitUntilReady(honest.JoinAlone("alone")));
  }
}

// The stranger's own thread stands still, and its connections are more than it may have.
TEST_F(FrontDoor, WaitsForNoDescriptorOfConnectionsThatItRefuses) {
  const DaemonProcess daemon("[quota]\nconnections = 8\n");
  LetEverybodyIn(daemon);
  std::vector<FileDescriptor> kept;
  std::vector<ControlSocket> sockets;
  const Stranger stranger([&] {
    const auto status = Encode(StatusRequest::kType, StatusRequest{});
    for (int i = 0; i < 30; ++i) {
      Result<ControlSocket> socket = ControlSocket::Connect(daemon.socket_path());
      ASSERT_TRUE(socket.ok());
      ASSERT_TRUE(SendLingering(*socket, status, &kept));
    }
  });
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(AnswersStatus(daemon));
}

// An empty message holds descriptors, too; and who hangs up without reading why leaves an error in
// the daemon's socket, before what it has sent. The daemon is stopped until all have sent.
TEST_F(FrontDoor, WaitsForNoDescriptorOfRefusedConnectionsWhateverTheyLookLike) {
  for (const std::vector<std::byte>& message :
       {Encode(StatusRequest::kType, StatusRequest{}), std::vector<std::byte>{}}) {
    SCOPED_TRACE(message.size());
    const DaemonProcess daemon("[quota]\nconnections = 8\n");
    LetEverybodyIn(daemon);
    std::vector<FileDescriptor> kept;
    int sent[2];
    ASSERT_EQ(pipe2(sent, O_CLOEXEC), 0);
    ASSERT_EQ(kill(daemon.pid(), SIGSTOP), 0);
    std::thread resumer([&] {
      char byte = 0;
      EXPECT_EQ(read(sent[0], &byte, 1), 1);
      EXPECT_EQ(kill(daemon.pid(), SIGCONT), 0);
    });
    const Stranger stranger([&] {
      std::vector<ControlSocket> sockets;
      for (int i = 0; i < 30; ++i) {
        Result<ControlSocket> socket = ControlSocket::Connect(daemon.socket_path());
        ASSERT_TRUE(socket.ok());
        ASSERT_TRUE(SendLingering(*socket, message, &kept));
        sockets.push_back(std::move(*socket));
      }
      EXPECT_EQ(write(sent[1], "!", 1), 1);
      // The daemon has told why, and does not close at once.
      std::this_thread::sleep_for(milliseconds(100));
    });
    resumer.join();
    // By then it closes them.
    std::this_thread::sleep_for(milliseconds(300));
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(AnswersStatus(daemon));
  }
}

TEST_F(FrontDoor, ATenantsConnectionsAreCountedAndNotAnothers) {
  const DaemonProcess daemon("[quota]\nconnections = 8\n");
  LetEverybodyIn(daemon);
  std::vector<ControlSocket> sockets;
  const Stranger stranger([&] {
    std::string refusal;
    for (int i = 0; i < 20; ++i) {
      Result<ControlSocket> socket = ControlSocket::Connect(daemon.socket_path());
      ASSERT_TRUE(socket.ok());
      sockets.push_back(std::move(*socket));
    }
    const Result<ControlMessage> reply = sockets.back().Receive(kPatienceMs);
    ASSERT_TRUE(reply.ok()) << reply.status().message();
    const Status why = DecodeFailure(*DecodeHeader(reply->bytes), reply->bytes);
    EXPECT_NE(why.message().find("quota of 8"), std::string::npos) << why.message();
  });
  EXPECT_TRUE(AnswersStatus(daemon));
}

// A client says hello before it reads, and may be slow to read.
TEST_F(FrontDoor, WhoIsRefusedCanReadWhy) {
  const DaemonProcess daemon("[quota]\nconnections = 1\n");
  // Until nobody is there any more who asked whether the daemon answers.
  std::this_thread::sleep_for(milliseconds(300));
  const HostileSession first(daemon.socket_path());
  for (int i = 0; i < 20; ++i) {
    Result<ControlSocket> socket = ControlSocket::Connect(daemon.socket_path());
    ASSERT_TRUE(socket.ok());
    // The daemon may have refused it before.
    static_cast<void>(socket->Send(Encode(HelloRequest::kType, HelloRequest{})));
    std::this_thread::sleep_for(milliseconds(50));
    const Result<ControlMessage> reply = socket->Receive(kPatienceMs);
    ASSERT_TRUE(reply.ok()) << reply.status().message();
    const Status why = DecodeFailure(*DecodeHeader(reply->bytes), reply->bytes);
    EXPECT_NE(why.message().find("quota of 1"), std::string::npos) << why.message();
  }
}

TEST_F(FrontDoor, WhoSaysNothingIsSentAway) {
  const DaemonProcess daemon;
  Result<ControlSocket> socket = ControlSocket::Connect(daemon.socket_path());
  ASSERT_TRUE(socket.ok());
  const Result<ControlMessage> reply = socket->Receive(kPatienceMs);
  ASSERT_TRUE(reply.ok()) << reply.status().message();
  const Status why = DecodeFailure(*DecodeHeader(reply->bytes), reply->bytes);
  EXPECT_NE(why.message().find("within 5 s"), std::string::npos) << why.message();
  EXPECT_FALSE(socket->Receive(kPatienceMs).ok());
}

TEST_F(FrontDoor, AFloodOfRequestsStopsNeitherOthersNorTheEnd) {
  DaemonProcess daemon;
  LetEverybodyIn(daemon);
  std::vector<pid_t> flooders;
  for (int i = 0; i < 4; ++i) {
    flooders.push_back(StartAs(kBob, [&] {
      std::vector<ControlSocket> sockets;
      for (int j = 0; j < 50; ++j) {
        Result<ControlSocket> socket = ControlSocket::Connect(daemon.socket_path());
        if (socket.ok()) sockets.push_back(std::move(*socket));
      }
      for (ControlSocket& socket : sockets) fcntl(socket.fd(), F_SETFL, O_NONBLOCK);
      const auto explain = Encode(ExplainRequest::kType, ExplainRequest{});
      while (true) {
        for (ControlSocket& socket : sockets) static_cast<void>(socket.Send(explain));
      }
      return 0;
    }));
  }
  std::this_thread::sleep_for(milliseconds(300));
  const auto begun = steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    HostileSession honest(daemon.socket_path());
    EXPECT_TRUE(honest.WaitUntilReady(honest.JoinAlone("alone")));
  }
  EXPECT_LT(steady_clock::now() - begun, milliseconds(kPatienceMs));
  EXPECT_EQ(daemon.Stop(), 0);
  for (const pid_t flooder : flooders) {
    kill(flooder, SIGKILL);
    waitpid(flooder, nullptr, 0);
  }
}

// What a tenant's thread uses of the processors for connections and requests counts as the engine's
// time for them does.
TEST_F(FrontDoor, AFloodTakesAShareOfAProcessor) {
  const DaemonProcess daemon;
  LetEverybodyIn(daemon);
  const std::map<pid_t, long> before = daemon.ThreadTicks();
  std::vector<pid_t> flooders;
  for (int i = 0; i < 4; ++i) {
    flooders.push_back(StartAs(kBob, [&] {
      Result<ControlSocket> socket = ControlSocket::Connect(daemon.socket_path());
      if (!socket.ok()) return 1;
      // Once it has a document, its pieces come from the tenant's thread alone.
      bool sent = socket->Send(Encode(StatusRequest::kType, StatusRequest{})).ok();
      while (sent && socket->Receive(kPatienceMs).ok()) {
        sent = socket->Send(Encode(DocumentRequest::kType, DocumentRequest{})).ok();
      }
      return 1;
    }));
  }
  constexpr int kSeconds = 4;
  std::this_thread::sleep_for(std::chrono::seconds(kSeconds));
  long used = 0;
  for (const auto& [thread, ticks] : daemon.ThreadTicks()) {
    if (!before.contains(thread)) used += ticks;
  }
  for (const pid_t flooder : flooders) {
    kill(flooder, SIGKILL);
    waitpid(flooder, nullptr, 0);
  }
  EXPECT_GT(used, 0);
  // A quarter, what it may use at once, and half as much again for what was begun.
  const double seconds = static_cast<double>(used) / static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_LT(seconds, 1.5 * (0.25 * kSeconds + 0.25));
}

TEST_F(FrontDoor, ATenantThatHasGoneLeavesNoDescriptors) {
  const DaemonProcess daemon;
  LetEverybodyIn(daemon);
  const HostileSession honest(daemon.socket_path());
  std::this_thread::sleep_for(milliseconds(300));
  const int before = daemon.OpenDescriptors();
  {
    const Stranger stranger([&] { static HostileSession session(daemon.socket_path()); });
    EXPECT_GT(daemon.OpenDescriptors(), before);
  }
  // Its thread goes a second later, and all that is left of it when somebody else connects.
  for (int i = 0; i < 300 && daemon.OpenDescriptors() > before; ++i) {
    EXPECT_TRUE(AnswersStatus(daemon));
    std::this_thread::sleep_for(milliseconds(100));
  }
  EXPECT_LE(daemon.OpenDescriptors(), before);
}

TEST_F(FrontDoor, ATenantThatHasGoneLeavesNoMemory) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer keeps freed memory";
  const DaemonProcess daemon;
  LetEverybodyIn(daemon);
  HostileSession honest(daemon.socket_path());
  const long before = daemon.ResidentKilobytes();
  constexpr long kMegabyte = 1024;
  {
    const Stranger stranger([&] {
      // Operations for which the other rank never comes, up to the quota.
      static HostileSession session(daemon.socket_path());
      static HostileSession peer(daemon.socket_path());
      const BufferReference buffer{0, session.RegisterRegion(4096)};
      const uint32_t member = session.Join("greedy", 2, 0);
      peer.Join("greedy", 2, 1);
      ASSERT_TRUE(session.WaitUntilReady(member));
      const SubmissionRing& ring = session.segment().ring;
      for (uint64_t i = 0; i < 60'000; ++i) {
        while (ring.tail.load() - ring.head.load() >= kRingEntries) usleep(100);
        session.Post(HostileSession::AllReduceOf(member, i, buffer, buffer));
      }
      while (ring.tail.load() != ring.head.load()) usleep(100);
    });
    EXPECT_GT(daemon.ResidentKilobytes(), before + 40 * kMegabyte);
    // Something that comes after it in memory, and stays.
    EXPECT_TRUE(honest.WaitUntilReady(honest.JoinAlone("stays")));
  }
  for (int i = 0; i < 300 && daemon.ResidentKilobytes() > before + 24 * kMegabyte; ++i) {
    std::this_thread::sleep_for(milliseconds(100));
  }
  EXPECT_LE(daemon.ResidentKilobytes(), before + 24 * kMegabyte);
}

TEST_F(FrontDoor, UniqueIdsOfOneTenantAreNotAnothers) {
  const DaemonProcess daemon("[quota]\nunique_ids = 100\n");
  LetEverybodyIn(daemon);
  const Stranger stranger([&] {
    static HostileSession session(daemon.socket_path());
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(session.Ask(CreateIdRequest{}).ok());
    const Status refused = session.Ask(CreateIdRequest{});
    EXPECT_NE(refused.message().find("quota of 100"), std::string::npos) << refused.message();
  });
  HostileSession honest(daemon.socket_path());
  EXPECT_TRUE(honest.Ask(CreateIdRequest{}).ok());
}

// A rank that gets nothing from a split makes the daemon remember that it has called.
TEST_F(FrontDoor, WhatFormsCountsAsItsTenants) {
  const DaemonProcess daemon("[quota]\nunique_ids = 100\n");
  LetEverybodyIn(daemon);
  const Stranger stranger([&] {
    static HostileSession session(daemon.socket_path());
    const uint32_t member = session.Join("split", 2, 0);
    session.Join("split", 2, 1);
    ASSERT_TRUE(session.WaitUntilReady(member));
    SplitRequest split;
    split.member = member;
    split.has_color = 0;
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(session.Ask(split).ok());
    Status refused = session.Ask(split);
    EXPECT_NE(refused.message().find("quota of 100"), std::string::npos) << refused.message();
    refused = session.TryJoin(MakeNamedId("alone"), 2, 0).status();
    EXPECT_NE(refused.message().find("quota of 100"), std::string::npos) << refused.message();
  });
  HostileSession honest(daemon.socket_path());
  EXPECT_TRUE(honest.TryJoin(MakeNamedId("alone"), 2, 0).ok());
}

// What nobody reads lies in the kernel's memory, at the daemon's cost.
TEST_F(FrontDoor, WhoAsksOnWithoutReadingIsCutOff) {
  const DaemonProcess daemon;
  Result<ControlSocket> socket = ControlSocket::Connect(daemon.socket_path());
  ASSERT_TRUE(socket.ok());
  const std::vector<std::byte> question = Encode(StatusRequest::kType, StatusRequest{});
  ASSERT_TRUE(socket->Send(question).ok());
  for (int i = 0; i < 2000 && !socket->PeerGone(); ++i) {
    static_cast<void>(socket->Send(question));
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(socket->PeerGone());
  // The answers that were sent can still be read: one, as none was sent while it was unread.
  EXPECT_TRUE(socket->Receive(kPatienceMs).ok());
  EXPECT_EQ(socket->Receive(kPatienceMs).status().code(), Code::kRemoteError);
}

TEST_F(FrontDoor, AConnectionCountsUntilItsLastAnswerIsReadOrGone) {
  const DaemonProcess daemon("[quota]\nconnections = 8\n");
  LetEverybodyIn(daemon);
  const Stranger stranger([&] {
    static std::vector<ControlSocket> sockets;
    const std::vector<std::byte> question = Encode(StatusRequest::kType, StatusRequest{});
    for (int i = 0; i < 8; ++i) {
      Result<ControlSocket> socket = ControlSocket::Connect(daemon.socket_path());
      ASSERT_TRUE(socket.ok());
      while (!socket->PeerGone()) {
        static_cast<void>(socket->Send(question));
        std::this_thread::sleep_for(milliseconds(1));
      }
      sockets.push_back(std::move(*socket));
    }
    // All eight have been cut off, and none was read.
    const Status refused = HostileSession::TryOpen(daemon.socket_path()).status();
    EXPECT_NE(refused.message().find("quota of 8"), std::string::npos) << refused.message();
    EXPECT_TRUE(sockets.front().Receive(kPatienceMs).ok());
    sockets.pop_back();
    const auto deadline = steady_clock::now() + milliseconds(kPatienceMs);
    int let_in = 0;
    std::vector<HostileSession> sessions;
    while (let_in < 2 && steady_clock::now() < deadline) {
      Result<HostileSession> session = HostileSession::TryOpen(daemon.socket_path());
      if (session.ok()) {
        ++let_in;
        sessions.push_back(std::move(*session));
      }
      std::this_thread::sleep_for(milliseconds(10));
    }
    EXPECT_EQ(let_in, 2);
    EXPECT_FALSE(HostileSession::TryOpen(daemon.socket_path()).ok());
  });
  EXPECT_TRUE(AnswersStatus(daemon));
}

TEST_F(FrontDoor, OnTheTenantsSocketRootIsATenantLikeAnyOther) {
  const DaemonProcess daemon;
  LetEverybodyIn(daemon);
  const Stranger stranger([&] {
    HelloRequest hello;
    SetFieldText(hello.program, "secret-name-of-bob");
    static HostileSession session(daemon.socket_path(), hello);
    // The operators' socket is not his.
    EXPECT_FALSE(ControlSocket::Connect(daemon.folder() + "/operator.sock").ok());
  });
  const auto status_at = [](const std::string& path) {
    Result<ControlSocket> socket = ControlSocket::Connect(path);
    EXPECT_TRUE(socket.ok()) << socket.status().message();
    EXPECT_TRUE(socket->Send(Encode(StatusRequest::kType, StatusRequest{})).ok());
    const Result<ControlMessage> reply = socket->Receive(kPatienceMs);
    EXPECT_TRUE(reply.ok());
    return std::string(reinterpret_cast<const char*>(reply->bytes.data()), reply->bytes.size());
  };
  EXPECT_EQ(status_at(daemon.socket_path()).find("secret-name-of-bob"), std::string::npos);
  const std::string operators = OperatorSocketPath(daemon.socket_path());
  EXPECT_NE(status_at(operators).find("secret-name-of-bob"), std::string::npos);
  struct stat found {};
  ASSERT_EQ(stat(operators.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0007, 0u);
}

// ---------------------------------------------------------------------------------------------
// A daemon that is stopped

TEST(StoppedDaemon, IsNamedToWhoWaitsForIt) {
  const DaemonProcess daemon;
  setenv("HARMONAIZE_DAEMON_TIMEOUT", "2", 1);
  setenv("HARMONAIZE_INLINE", "0", 1);  // operations that need no daemon do not miss it
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t communicator = nullptr;
    EXPECT_NCCL(JoinNamed("stopped", 2, rank, &communicator));
    std::vector<float> data(1 << 20);
    const auto all_reduce = [&] {
      return ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclSum, communicator,
                           nullptr);
    };
    EXPECT_NCCL(all_reduce());
    if (rank == 0) kill(daemon.pid(), SIGSTOP);
    ncclResult_t result = ncclSuccess;
    for (int i = 0; i < 100 && result == ncclSuccess; ++i) result = all_reduce();
    EXPECT_EQ(result, ncclRemoteError);
    const std::string why = ncclGetLastError(communicator);
    EXPECT_NE(why.find("which is stopped"), std::string::npos) << why;
    EXPECT_NE(why.find("has not answered for 2 s"), std::string::npos) << why;
    EXPECT_EQ(ncclCommAbort(communicator), ncclSuccess);
    return 0;
  });
  unsetenv("HARMONAIZE_DAEMON_TIMEOUT");
  unsetenv("HARMONAIZE_INLINE");
  kill(daemon.pid(), SIGCONT);
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

TEST(StoppedDaemon, IsNamedToWhoGreetsIt) {
  const DaemonProcess daemon;
  setenv("HARMONAIZE_DAEMON_TIMEOUT", "1", 1);
  kill(daemon.pid(), SIGSTOP);
  const std::vector<int> statuses = RunAsProcesses(1, [&](int) {
    ncclUniqueId id;
    EXPECT_NE(ncclGetUniqueId(&id), ncclSuccess);
    const std::string why = ncclGetLastError(nullptr);
    EXPECT_NE(why.find("which is stopped"), std::string::npos) << why;
    EXPECT_NE(why.find("its greeting"), std::string::npos) << why;
    return 0;
  });
  unsetenv("HARMONAIZE_DAEMON_TIMEOUT");
  kill(daemon.pid(), SIGCONT);
  EXPECT_EQ(statuses, (std::vector<int>{0}));
}

// Ranks that wait for a late one ask the daemon now and then whether it is alive; it is.
TEST(StoppedDaemon, IsNotTakenForOneThatWaits) {
  const DaemonProcess daemon;
  setenv("HARMONAIZE_DAEMON_TIMEOUT", "1", 1);
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t communicator = nullptr;
    EXPECT_NCCL(JoinNamed("late", 2, rank, &communicator));
    std::vector<float> data(size_t{4} << 20);
    if (rank == 0) sleep(4);
    EXPECT_NCCL(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclSum,
                              communicator, nullptr));
    EXPECT_NCCL(ncclCommDestroy(communicator));
    return 0;
  });
  unsetenv("HARMONAIZE_DAEMON_TIMEOUT");
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

}  // namespace
}  // namespace harmonaize::testing
