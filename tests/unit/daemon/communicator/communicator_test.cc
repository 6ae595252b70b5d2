// One communicator of one host, without an engine: the test's thread does what the engine's does.

#include "daemon/communicator/communicator.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/host/host_limits.h"
#include "daemon/host/host_tuning.h"
#include "daemon/runtime/background.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/tenant/finished_parts.h"
#include "daemon/tenant/session_keeper.h"
#include "src/base/clock.h"
#include "src/executor/host/executor.h"
#include "src/memory/shared_memory.h"

namespace harmonaize::daemon {
namespace {

const TenantIdentity kUser{1000, 1000, 1000, "uid 1000"};
constexpr uint64_t kLateAfter = 1'000'000'000;

void ExpectIn(const std::string& part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

/// Keeps what it hears, as text.
class StateRecorder final : public CommunicatorObserver {
 public:
  void OnLate(const Communicator&, const std::string& notice) override {
    heard.push_back("late: " + notice);
  }
  void OnRecovered(const Communicator&) override { heard.emplace_back("recovered"); }
  void OnBroken(const Communicator&, const Status& why) override {
    heard.push_back("broken: " + why.message());
  }

  std::vector<std::string> heard;
};

/// Notes which sessions were to be cut off.
class NotingKeeper final : public SessionKeeper {
 public:
  Status AddSession(std::unique_ptr<Session>) override { return InternalError("not here"); }
  Session* FindSession(uint32_t) override { return nullptr; }
  void LoseSession(uint32_t, const std::string&) override {}
  void CutOff(Session&, const std::string&) override {}
  void CutOffSoon(uint32_t session, std::string why) override {
    cut_off.emplace_back(session, std::move(why));
  }
  bool TakeInPosted(Session&) override { return true; }

  std::vector<std::pair<uint32_t, std::string>> cut_off;
};

class CommunicatorTest : public ::testing::Test {
 protected:
  static constexpr int kElements = 1000;

  explicit CommunicatorTest(int ranks = 2) {
    accounts_ = std::make_shared<Accounts>(LimitsOfHost(config_, CapacityOfHost()));
    tenant_ = std::make_unique<Tenant>(kUser, accounts_->Of(kUser.number, kUser.name));
    Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
    EXPECT_TRUE(loop.ok());
    loop_ = std::move(*loop);
    Result<std::unique_ptr<Executor>> executor = Executor::Create(Executor::Options{.workers = 1});
    EXPECT_TRUE(executor.ok());
    executor_ = std::move(*executor);
    Calibration calibration;
    calibration.costs = TypicalCosts();
    tuning_ = std::make_unique<HostTuning>(
        std::move(calibration),
        HostTuning::Means{.folder = "",
                          .ask = [](const auto&) {},
                          .post = [this](auto call) { loop_->Post(std::move(call)); },
                          .write = [](const auto&) {},
                          .on_use = [](const Calibration&) {}});
    observers_.Add(&recorder_);
    for (int rank = 0; rank < ranks; ++rank) AddRank();
    communicator_ = std::make_unique<Communicator>(CommunicatorServices{.config = &config_,
                                                                        .loop = loop_.get(),
                                                                        .background = &background_,
                                                                        .work = executor_.get(),
                                                                        .tuning = tuning_.get(),
                                                                        .finished = &finished_,
                                                                        .sessions = &keeper_,
                                                                        .waiting = &waiting_,
                                                                        .observers = &observers_},
                                                   1, "test", tenant_.get(), members_);
    Result<CommunicatorHoldings> holdings = PayForCommunicator(*tenant_->account, members_.size());
    EXPECT_TRUE(holdings.ok());
    communicator_->Keep(std::move(*holdings));
    for (int rank = 0; rank < ranks; ++rank) {
      Member& member = *members_[static_cast<size_t>(rank)];
      member.communicator = communicator_.get();
      member.rank = rank;
      member.ranks = ranks;
    }
  }
  ~CommunicatorTest() override { executor_.reset(); }

  /// A rank in a session of its own, with a region for its buffers.
  void AddRank() {
    int pair[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    tenants_ends_.emplace_back(pair[0]);
    auto connection =
        std::make_shared<Connection>(ControlSocket(FileDescriptor(pair[1])),
                                     Connection::Peer{{getpid(), getuid(), getgid()}, kUser, false},
                                     FileDescriptor(), tenant_->account, Holding());
    Result<SharedMemory> segment = CreateSharedMemory("test", sizeof(SessionSegment));
    EXPECT_TRUE(segment.ok());
    Result<Holding> memory_of_session = tenant_->account->Take(Resource::kMemory, 1);
    EXPECT_TRUE(memory_of_session.ok());
    const auto number = static_cast<uint32_t>(sessions_.size() + 1);
    sessions_.push_back(std::make_unique<Session>(
        number, connection, "test", tenant_.get(), std::move(segment->mapping),
        FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        Session::Holdings{Holding(), std::move(*memory_of_session)}));
    auto memory = std::make_shared<RegionMemory>();
    Result<SharedMemory> shared = CreateSharedMemory("test", 2 * kElements * sizeof(float));
    EXPECT_TRUE(shared.ok());
    memory->mapping = std::move(shared->mapping);
    data_.push_back(reinterpret_cast<float*>(memory->mapping.data()));
    regions_.push_back(*sessions_.back()->AddRegion(std::move(memory)));
    members_.push_back(sessions_.back()->AddMember());
    posted_.push_back(0);
  }

  /// The rank posts an all-reduce out of place.
  void PostAllReduce(int rank, uint64_t count = kElements) {
    OperationDescriptor descriptor;
    descriptor.collective = Collective::kAllReduce;
    descriptor.type = DataType::kFloat32;
    descriptor.op = ReduceOperator::kSum;
    descriptor.count = count;
    Post(rank, descriptor);
  }
  void Post(int rank, OperationDescriptor descriptor) {
    const auto place = static_cast<size_t>(rank);
    descriptor.member = members_[place]->index;
    descriptor.stream = descriptor.member;
    descriptor.flags = kLastOfPosition;
    descriptor.position = ++posted_[place];
    if (!IsPointToPoint(descriptor.collective)) {
      descriptor.sequence = members_[place]->next_sequence;
    }
    descriptor.send = {0, regions_[place]};
    descriptor.receive = {kElements * sizeof(float), regions_[place]};
    const Result<PostedOperation*> part = sessions_[place]->Admit(descriptor);
    ASSERT_TRUE(part.ok()) << part.status().message();
    communicator_->Post(*part);
    if (!(*part)->stream->Arrive(*part)) return;
    (*part)->ready_ns = (*part)->arrived_ns;
    ready_.Add(*tenant_, *part);
    RunReady();
  }
  void RunReady() {
    while (!ready_.empty()) {
      ready_.TakeTurn([this](PostedOperation* part) { communicator_->OnReady(part); });
    }
  }
  /// Until nothing is executed or posted any more.
  void Run() {
    do {
      while (executor_->Help()) continue;
      while (Execution* done = executor_->TakeFinished()) done->on_finished(done);
      RunReady();
      loop_->RunPosted();
    } while (executor_->executing() || loop_->HasPosted());
    finished_.Publish();
  }
  int64_t outstanding(int rank) const {
    return sessions_[static_cast<size_t>(rank)]->outstanding();
  }
  std::string ErrorOf(int rank) const {
    return members_[static_cast<size_t>(rank)]->slot->error.Get();
  }

  Config config_;
  std::shared_ptr<Accounts> accounts_;
  std::unique_ptr<Tenant> tenant_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<HostTuning> tuning_;
  StateRecorder recorder_;
  CommunicatorObservers observers_;
  NotingKeeper keeper_;
  WaitingCount waiting_;
  ReadyParts ready_;
  FinishedParts finished_{&ready_};
  std::vector<FileDescriptor> tenants_ends_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<float*> data_;  // by rank: what it sends, then its result
  std::vector<uint32_t> regions_;
  std::vector<Member*> members_;
  std::vector<uint64_t> posted_;
  std::unique_ptr<Communicator> communicator_;
  Background background_;
};

TEST_F(CommunicatorTest, CarriesOutWhatAllRanksHavePosted) {
  for (int i = 0; i < kElements; ++i) {
    data_[0][i] = static_cast<float>(i);
    data_[1][i] = 1000;
  }
  PostAllReduce(0);
  EXPECT_FALSE(communicator_->executing());
  EXPECT_TRUE(waiting_.any());
  PostAllReduce(1);
  EXPECT_FALSE(waiting_.any());
  Run();
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(outstanding(rank), 0);
    for (int i = 0; i < kElements; ++i) ASSERT_EQ(data_[rank][kElements + i], 1000.0f + i);
  }
  EXPECT_EQ(communicator_->operations(), 1u);
  EXPECT_EQ(communicator_->bytes(), kElements * sizeof(float));
  EXPECT_TRUE(recorder_.heard.empty());
}

TEST_F(CommunicatorTest, ALateRankIsNamedAndItsComingIsHeardOf) {
  PostAllReduce(0);
  const uint64_t now = MonotonicNanoseconds();
  communicator_->ReportLate(now, kLateAfter);
  EXPECT_TRUE(recorder_.heard.empty());
  communicator_->ReportLate(now + kLateAfter, kLateAfter);
  ASSERT_EQ(recorder_.heard.size(), 1u);
  ExpectIn("for rank 1 (process ", recorder_.heard[0]);
  ExpectIn("for rank 1 (process ", members_[0]->slot->notice.Get());
  // The next report comes after twice as long a wait.
  communicator_->ReportLate(now + kLateAfter + kLateAfter / 2, kLateAfter);
  EXPECT_EQ(recorder_.heard.size(), 1u);
  communicator_->ReportLate(now + 2 * kLateAfter + kLateAfter / 2, kLateAfter);
  EXPECT_EQ(recorder_.heard.size(), 2u);
  const WaitingOperations waiting = communicator_->Waiting(now + kLateAfter);
  ASSERT_EQ(waiting.listed.size(), 1u);
  EXPECT_EQ(waiting.listed[0].missing_ranks, std::vector<int>{1});

  PostAllReduce(1);
  ASSERT_EQ(recorder_.heard.size(), 3u);
  EXPECT_EQ(recorder_.heard[2], "recovered");
  Run();
  PostAllReduce(0);
  PostAllReduce(1);
  Run();
  EXPECT_EQ(recorder_.heard.size(), 3u);
}

TEST_F(CommunicatorTest, RanksThatDisagreeAllLearnWhatEachAskedFor) {
  PostAllReduce(0);
  PostAllReduce(1, kElements / 2);
  Run();
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(outstanding(rank), 0);
    ExpectIn("the ranks disagree about operation #0", ErrorOf(rank));
    ExpectIn("rank 1 asked for", ErrorOf(rank));
  }
  EXPECT_EQ(communicator_->operations(), 0u);
  EXPECT_EQ(communicator_->state(), Communicator::State::kReady);
}

TEST_F(CommunicatorTest, WhatWaitsForARankThatLeavesFails) {
  PostAllReduce(0);
  communicator_->Leave(1);
  Run();
  EXPECT_EQ(outstanding(0), 0);
  EXPECT_FALSE(waiting_.any());
  ExpectIn("has left the communicator", ErrorOf(0));
  EXPECT_FALSE(communicator_->all_left());
  communicator_->Leave(0);
  EXPECT_TRUE(communicator_->all_left());
}

TEST_F(CommunicatorTest, BreakingEndsWhatWaitsAndWhatRuns) {
  PostAllReduce(0);
  PostAllReduce(1);  // runs
  PostAllReduce(0);  // waits, for its stream
  OperationDescriptor send;
  send.collective = Collective::kSend;
  send.root = 0;
  send.count = kElements;
  send.type = DataType::kFloat32;
  Post(1, send);
  communicator_->Break(RemoteError("rank 1 is lost"));
  communicator_->Break(RemoteError("and again"));
  Run();
  EXPECT_EQ(recorder_.heard, std::vector<std::string>{"broken: rank 1 is lost"});
  EXPECT_FALSE(communicator_->executing());
  EXPECT_FALSE(waiting_.any());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(outstanding(rank), 0);
    EXPECT_EQ(ErrorOf(rank), "rank 1 is lost");
  }
  EXPECT_EQ(communicator_->operations(), 0u);
}

TEST_F(CommunicatorTest, GivingUpCutsOffTheSessionsOfAllRanks) {
  communicator_->GiveUp(InternalError("an exception"));
  ASSERT_EQ(keeper_.cut_off.size(), 2u);
  EXPECT_EQ(keeper_.cut_off[0].first, 1u);
  EXPECT_EQ(keeper_.cut_off[1].first, 2u);
}

TEST_F(CommunicatorTest, CallsThatComeTooLateAreNotMade) {
  int calls = 0;
  communicator_->CallSoon([&] { ++calls; });
  loop_->RunPosted();
  EXPECT_EQ(calls, 1);
  communicator_->CallSoon([&] { ++calls; });
  communicator_.reset();
  loop_->RunPosted();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace harmonaize::daemon
