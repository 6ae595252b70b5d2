#pragma once

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/host/host_limits.h"
#include "daemon/main/engine.h"
#include "src/memory/shared_memory.h"

namespace harmonaize::daemon {

/// An engine, and the sessions of processes at it. The engine's thread is the test's own, until the
/// engine is started.
class EngineFixture : public ::testing::Test {
 protected:
  inline static const TenantIdentity kAlice{1000, 1000, 1000, "uid 1000"};
  inline static const TenantIdentity kBob{1001, 1001, 1001, "uid 1001"};

  /// A process, and what it sees of its session.
  struct Process {
    Session* session = nullptr;
    const SessionSegment* segment = nullptr;

    uint32_t knocks() const { return segment->header.knocks.load(); }
    MemberState state(uint32_t member) const {
      return static_cast<MemberState>(segment->members[member].state.load());
    }
    std::string error(uint32_t member) const { return segment->members[member].error.Get(); }
  };

  /// Formations time out after `formation_seconds`.
  explicit EngineFixture(const ClusterConfig& cluster = {}, double formation_seconds = 600) {
    Config config;
    config.cluster = cluster;
    config.workers = 1;
    config.formation_timeout_seconds = formation_seconds;
    Calibration calibration;
    calibration.costs = TypicalCosts();
    calibration.fingerprint.processors = 2;
    accounts_ = std::make_shared<Accounts>(LimitsOfHost(config, CapacityOfHost()));
    Result<std::unique_ptr<Engine>> made =
        Engine::Create(config, std::move(calibration), accounts_);
    EXPECT_TRUE(made.ok()) << made.status().message();
    engine_ = std::move(*made);
  }

  static ClusterConfig AloneInACluster() {
    ClusterConfig cluster;
    cluster.address = "127.0.0.1:0";
    cluster.allow_unauthenticated = true;
    return cluster;
  }

  Process Enter(const TenantIdentity& user = kAlice) {
    int pair[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    tenants_ends_.emplace_back(pair[0]);
    auto connection = std::make_shared<Connection>(
        ControlSocket(FileDescriptor(pair[1])),
        Connection::Peer{{getpid(), getuid(), getgid()}, user, false}, FileDescriptor(),
        accounts_->Of(user.number, user.name), Holding());
    Result<SharedMemory> segment = CreateSharedMemory("test", sizeof(SessionSegment));
    EXPECT_TRUE(segment.ok());
    const auto* const seen = reinterpret_cast<const SessionSegment*>(segment->mapping.data());
    const uint32_t number = ++sessions_;
    const Status added = engine_->session_keeper().AddSession(std::make_unique<Session>(
        number, connection, "test", JobClaim{}, engine_->tenants().Of(user),
        std::move(segment->mapping), FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        Session::Holdings{}));
    EXPECT_TRUE(added.ok()) << added.message();
    return {engine_->session_keeper().FindSession(number), seen};
  }
  void End(const Process& process) {
    engine_->session_keeper().LoseSession(process.session->id(), "ended", SessionEnd::kHungUp);
  }

  Membership& membership() { return engine_->membership(); }
  UniqueId IdFor(const Process& process) {
    const Result<UniqueId> id = membership().CreateId(*process.session);
    EXPECT_TRUE(id.ok()) << id.status().message();
    return id.ok() ? *id : UniqueId();
  }
  int64_t held(Resource resource, const TenantIdentity& user = kAlice) {
    return accounts_->Of(user.number, user.name)->held(resource);
  }

  std::shared_ptr<Accounts> accounts_;
  std::unique_ptr<Engine> engine_;
  std::vector<FileDescriptor> tenants_ends_;
  uint32_t sessions_ = 0;
};

}  // namespace harmonaize::daemon
