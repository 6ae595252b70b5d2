// Whatever allocation fails while the engine serves a request, that request or its session ends,
// and the engine goes on serving others.

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/access/requests.h"
#include "daemon/host/host_limits.h"
#include "daemon/main/engine.h"
#include "src/base/log.h"
#include "tests/unit/replaced_new.h"

namespace harmonaize::daemon {
namespace {

const TenantIdentity kTenant{1000, 1000, 1000, "uid 1000"};

/// A tenant process, with both ends of its connection in this one.
struct Guest {
  uint32_t session = 0;
  std::shared_ptr<Connection> daemon_end;
  ControlSocket own_end;
};

class NoMemoryTest : public ::testing::Test {
 protected:
  NoMemoryTest() {
    SetLog(LogLevel::kError, kLogAll, [](LogLevel, LogSubsystem, std::string_view) {});
    Config config;
    config.workers = 1;
    Calibration calibration;
    for (const HostCostField& field : kHostCostFields) calibration.costs.*field.value = 1000;
    calibration.fingerprint.processors = 2;
    accounts_ = std::make_shared<Accounts>(LimitsOfHost(config, CapacityOfHost()));
    Result<std::unique_ptr<Engine>> made =
        Engine::Create(config, std::move(calibration), accounts_);
    EXPECT_TRUE(made.ok()) << made.status().message();
    engine_ = std::move(*made);
    engine_->Start();
  }
  ~NoMemoryTest() override { SetLog(LogLevel::kWarning, kLogAll, nullptr); }

  /// Runs `call` on the engine's thread, and waits for its end.
  void OnEngine(const std::function<void()>& call) {
    std::promise<void> done;
    engine_->loop().Post([&] {
      call();
      done.set_value();
    });
    done.get_future().wait();
  }

  Guest Enter() {
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    Guest guest;
    guest.session = ++sessions_;
    guest.own_end = ControlSocket(FileDescriptor(pair[0]));
    const std::shared_ptr<Account> account = accounts_->Of(kTenant.number, kTenant.name);
    guest.daemon_end = std::make_shared<Connection>(
        ControlSocket(FileDescriptor(pair[1])),
        Connection::Peer{{getpid(), getuid(), getgid()}, kTenant, false}, FileDescriptor(), account,
        Holding());
    Result<SharedMemory> segment = CreateSharedMemory("test", sizeof(SessionSegment));
    EXPECT_TRUE(segment.ok());
    Result<Holding> place = account->Take(Resource::kSessions, 1);
    EXPECT_TRUE(place.ok());
    Session::Holdings holdings{std::move(*place), Holding()};
    Status added;
    OnEngine([&] {
      added = engine_->session_keeper().AddSession(std::make_unique<Session>(
          guest.session, guest.daemon_end, "test", JobClaim{}, engine_->tenants().Of(kTenant),
          std::move(segment->mapping), FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
          std::move(holdings)));
    });
    EXPECT_TRUE(added.ok()) << added.message();
    return guest;
  }
  /// Ends the session, as a reception does when the connection has ended.
  void Leave(const Guest& guest) {
    OnEngine(
        [&] { engine_->session_keeper().LoseSession(guest.session, "left", SessionEnd::kHungUp); });
  }

  /// Has the engine answer one request under whatever `before` sets up.
  void Serve(
      const Guest& guest, const ControlMessage& message,
      const std::function<void()>& before = [] {}) {
    OnEngine([&] {
      before();
      AnswerRequest(*engine_, guest.session, guest.daemon_end, message, {});
      unlimited_ = AllocationsLeft() != 0;
      one_failed_ = OneAllocationFailed();
      LimitAllocations(-1);
      FailOneAllocation(-1);
    });
  }
  template <typename Reply>
  Result<Reply> ReplyTo(const Guest& guest) {
    HZ_ASSIGN_OR_RETURN(const ControlMessage reply, NextMessage(guest));
    HZ_ASSIGN_OR_RETURN(const MessageHeader header, DecodeHeader(reply.bytes));
    HZ_RETURN_IF_ERROR(DecodeFailure(header, reply.bytes));
    return DecodeBody<Reply>(header, reply.bytes);
  }
  static Result<ControlMessage> NextMessage(const Guest& guest) {
    return const_cast<Guest&>(guest).own_end.Receive(10000);
  }

  template <typename Request>
  static ControlMessage Message(const Request& request) {
    return {Encode(Request::kType, request), {}};
  }
  ControlMessage JoinMessage(int ranks, int rank) const {
    JoinRequest join;
    join.id = MakeNamedId("meeting-" + std::to_string(meeting_));
    join.ranks = ranks;
    join.rank = rank;
    return Message(join);
  }

  /// Two ranks of two processes, the second of which makes the request that the test is about.
  struct Pair {
    Guest first;
    Guest second;
    uint32_t member = kNoMember;
  };
  Pair MeetUp() {
    ++meeting_;
    Pair pair{Enter(), Enter()};
    Serve(pair.first, JoinMessage(2, 0));
    EXPECT_TRUE(ReplyTo<MemberReply>(pair.first).ok());
    Serve(pair.second, JoinMessage(2, 1));
    const Result<MemberReply> joined = ReplyTo<MemberReply>(pair.second);
    EXPECT_TRUE(joined.ok());
    if (joined.ok()) pair.member = joined->member;
    return pair;
  }

  void ExpectServing() {
    const Guest guest = Enter();
    ++meeting_;
    Serve(guest, JoinMessage(1, 0));
    EXPECT_TRUE(ReplyTo<MemberReply>(guest).ok());
    Serve(guest, Message(StatusRequest{}));
    EXPECT_TRUE(ReplyTo<DocumentReply>(guest).ok());
    Leave(guest);
  }

  /// Makes the request again and again, and each time another allocation fails: that one alone, or
  /// all from there on.
  void FailEveryAllocationOf(const std::function<ControlMessage(uint32_t member)>& request) {
    for (const bool alone : {true, false}) {
      int after = 0;
      for (bool failed = true; failed && after < 3000; ++after) {
        const Pair pair = MeetUp();
        Serve(pair.second, request(pair.member),
              [&] { alone ? FailOneAllocation(after) : LimitAllocations(after); });
        failed = alone ? one_failed_ : !unlimited_;
        // The tenant gets an answer, or the end of the connection; it is not left waiting.
        const Result<ControlMessage> reply = NextMessage(pair.second);
        EXPECT_NE(reply.status().code(), Code::kInProgress) << "after " << after;
        ExpectServing();
        Leave(pair.second);
        Leave(pair.first);
        if (HasFatalFailure() || HasNonfatalFailure()) return;
      }
      EXPECT_GT(after, 1);
      EXPECT_LT(after, 3000);
      ExpectNothingLeft();
    }
  }

  /// Checks that no session or communicator has stayed behind.
  void ExpectNothingLeft() {
    size_t communicators = 1;
    int64_t sessions = 1;
    for (int tries = 0; tries < 1000 && communicators + static_cast<size_t>(sessions) > 0;
         ++tries) {
      usleep(1000);
      OnEngine([&] {
        communicators = engine_->report_sources().communicators->all().size();
        sessions = engine_->tenants().Of(kTenant)->account->held(Resource::kSessions);
      });
    }
    EXPECT_EQ(communicators, 0u);
    EXPECT_EQ(sessions, 0);
  }

  std::shared_ptr<Accounts> accounts_;
  std::unique_ptr<Engine> engine_;
  uint32_t sessions_ = 0;
  int meeting_ = 0;
  bool unlimited_ = true;
  bool one_failed_ = false;
};

TEST_F(NoMemoryTest, Join) {
  FailEveryAllocationOf([this](uint32_t) {
    ++meeting_;
    return JoinMessage(1, 0);
  });
}

TEST_F(NoMemoryTest, JoinOfOthers) {
  FailEveryAllocationOf([this](uint32_t) {
    ++meeting_;
    return JoinMessage(2, 0);
  });
}

TEST_F(NoMemoryTest, Split) {
  FailEveryAllocationOf([](uint32_t member) {
    SplitRequest split;
    split.member = member;
    return Message(split);
  });
}

TEST_F(NoMemoryTest, Shrink) {
  FailEveryAllocationOf([](uint32_t member) {
    ShrinkRequest shrink;
    shrink.member = member;
    const int32_t excluded[] = {0};
    return ControlMessage{Encode(MessageType::kShrink, shrink, std::as_bytes(std::span(excluded))),
                          {}};
  });
}

TEST_F(NoMemoryTest, LeaveAndAbort) {
  FailEveryAllocationOf([](uint32_t member) {
    LeaveRequest leave;
    leave.member = member;
    return Message(leave);
  });
  FailEveryAllocationOf([](uint32_t member) {
    AbortRequest abort;
    abort.member = member;
    return Message(abort);
  });
}

// A request that only reads does not cost its tenant the session. (Only its first allocations fail
// here: the JSON library allocates in destructors, too, where nothing can be done about a failure.)
TEST_F(NoMemoryTest, WhoOnlyAskedMayAskAgain) {
  const Guest guest = Enter();
  for (const int after : {0, 1, 2}) {
    Serve(guest, Message(StatusRequest{}), [&] { FailOneAllocation(after); });
    EXPECT_EQ(ReplyTo<DocumentReply>(guest).status().code(), Code::kSystemError) << after;
    Serve(guest, Message(ExplainRequest{}), [&] { FailOneAllocation(after); });
    EXPECT_EQ(ReplyTo<DocumentReply>(guest).status().code(), Code::kSystemError) << after;
  }
  Serve(guest, Message(StatusRequest{}));
  EXPECT_TRUE(ReplyTo<DocumentReply>(guest).ok());
  Leave(guest);
}

}  // namespace
}  // namespace harmonaize::daemon
