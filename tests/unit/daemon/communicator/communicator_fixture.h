#pragma once

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/communicator/communicator.h"
#include "daemon/config/config.h"
#include "daemon/host/host_limits.h"
#include "daemon/host/host_tuning.h"
#include "daemon/jobs/job_table.h"
#include "daemon/runtime/background.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/fed_executions.h"
#include "daemon/tenant/finished_parts.h"
#include "daemon/tenant/session_keeper.h"
#include "src/base/clock.h"
#include "src/executor/host/executor.h"
#include "src/memory/shared_memory.h"

namespace harmonaize::daemon {

inline const TenantIdentity kUser{1000, 1000, 1000, "uid 1000"};
inline void ExpectIn(const std::string& part, const std::string& text) {
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
  void LoseSession(uint32_t, const std::string&, SessionEnd) override {}
  void CutOff(Session&, const std::string&) override {}
  void CutOffSoon(uint32_t session, std::string why) override {
    cut_off.emplace_back(session, std::move(why));
  }
  bool TakeInPosted(Session&) override { return true; }

  std::vector<std::pair<uint32_t, std::string>> cut_off;
};

/// One communicator, without an engine: the test's thread does what the engine's does.
class CommunicatorFixture : public ::testing::Test {
 protected:
  static constexpr int kElements = 1000;

  CommunicatorFixture() {
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
  }

  CommunicatorServices Services() {
    return {.config = &config_,
            .loop = loop_.get(),
            .background = &background_,
            .work = executor_.get(),
            .sliced = &sliced_,
            .tuning = tuning_.get(),
            .finished = &finished_,
            .sessions = &keeper_,
            .waiting = &waiting_,
            .observers = &observers_};
  }

  /// Makes the communicator; `here` has its ranks on this host.
  void Make(int ranks, const std::vector<int>& here) {
    members_.resize(static_cast<size_t>(ranks));
    data_.resize(members_.size());
    regions_.resize(members_.size());
    posted_.resize(members_.size());
    for (const int rank : here) AddRank(rank);
    communicator_ = std::make_unique<Communicator>(Services(), 1, "test", tenant_.get(), members_);
    job_.tenant = tenant_.get();
    communicator_->SetJob(&job_);
    Result<CommunicatorHoldings> holdings = PayForCommunicator(*tenant_->account, members_.size());
    EXPECT_TRUE(holdings.ok());
    communicator_->Keep(std::move(*holdings));
    for (const int rank : here) {
      Member& member = *members_[static_cast<size_t>(rank)];
      member.communicator = communicator_.get();
      member.rank = rank;
      member.ranks = ranks;
    }
  }
  ~CommunicatorFixture() override { executor_.reset(); }

  /// A rank in a session of its own, with a region for its buffers.
  void AddRank(int rank) {
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
        number, connection, "test", JobClaim{}, tenant_.get(), std::move(segment->mapping),
        FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        Session::Holdings{Holding(), std::move(*memory_of_session)}));
    auto memory = std::make_shared<RegionMemory>();
    Result<SharedMemory> shared = CreateSharedMemory("test", 2 * kElements * sizeof(float));
    EXPECT_TRUE(shared.ok());
    memory->mapping = std::move(shared->mapping);
    const auto place = static_cast<size_t>(rank);
    data_[place] = reinterpret_cast<float*>(memory->mapping.data());
    regions_[place] = *sessions_.back()->AddRegion(std::move(memory));
    members_[place] = sessions_.back()->AddMember();
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
  /// The rank posts a send.
  void PostSend(int rank, int peer) {
    OperationDescriptor descriptor;
    descriptor.collective = Collective::kSend;
    descriptor.root = peer;
    descriptor.type = DataType::kFloat32;
    descriptor.count = kElements;
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
      sliced_.Run();
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
  FedExecutions sliced_;
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
  Job job_{.id = JobIdentity{.bytes = {1}}};
  std::unique_ptr<Communicator> communicator_;
  Background background_;
};

}  // namespace harmonaize::daemon
