#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>

#include "daemon/access/engine_gate.h"
#include "daemon/access/reception.h"
#include "daemon/host/host_limits.h"
#include "daemon/identity/tenant_identity.h"
#include "daemon/main/engine.h"
#include "daemon/quota/holdings.h"
#include "daemon/tenant/connection.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/ipc/control_socket.h"
#include "src/memory/fault_guard.h"
#include "src/memory/missing_pages.h"
#include "src/schedule/algorithms/algorithms.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {

/// A daemon in this process: an engine with its own thread and one worker, and a reception for each
/// tenant, as a Server makes them. It only lacks the Server's listening socket. One runner serves
/// all inputs of a fuzzer, one after the other. Thread: the fuzzer's.
class EngineRunner {
 public:
  /// Amounts that all tenants together hold of the daemon.
  struct Holdings {
    std::array<int64_t, daemon::kResourceCount> amounts{};  ///< By Resource.
    size_t sessions = 0;
    size_t communicators = 0;
    bool operator==(const Holdings&) const = default;
  };

  explicit EngineRunner(const daemon::Config& config) : workers_(config.workers) {
    SetLog(LogLevel::kError, kLogAll, [](LogLevel, LogSubsystem, std::string_view) {});
    RequireOk(FaultGuard::Install(), "guards of memory");
    // As in a daemon, if the kernel permits it.
    static_cast<void>(MissingPages::Install());
    daemon::Calibration calibration;
    for (const HostCostField& field : kHostCostFields) calibration.costs.*field.value = 1000;
    calibration.fingerprint.processors = 2;
    accounts_ =
        std::make_shared<daemon::Accounts>(daemon::LimitsOfHost(config, daemon::CapacityOfHost()));
    Result<std::unique_ptr<daemon::Engine>> engine =
        daemon::Engine::Create(config, std::move(calibration), accounts_);
    RequireOk(engine.status(), "an engine");
    engine_ = std::move(*engine);
    gate_ = std::make_shared<daemon::EngineGate>(engine_.get());
    engine_->Start();
    // The engine's threads go on until the process ends, and may plan. So the process ends before
    // the table of algorithms goes.
    static_cast<void>(Algorithms());
    on_exit([](int status, void*) { _Exit(status); }, nullptr);
  }

  /// Runs `call` on the engine's thread, and waits for its end.
  void Do(const std::function<void(daemon::Engine&)>& call) {
    std::binary_semaphore done(0);
    engine_->loop().Post([&] {
      call(*engine_);
      done.release();
    });
    done.acquire();
  }

  /// Returns a connection of a process of this user, admitted as a Server admits one. It is not
  /// valid when the user has as many as its quota allows.
  ControlSocket Connect(uid_t user) {
    int pair[2] = {-1, -1};
    Require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0,
            "a connection");
    ControlSocket tenants_end{FileDescriptor(pair[0])};
    ControlSocket daemons_end{FileDescriptor(pair[1])};
    daemon::TenantIdentity tenant{user, user, user, "uid " + std::to_string(user)};
    const std::shared_ptr<daemon::Account> account = accounts_->Of(tenant.number, tenant.name);
    Result<daemon::Holding> place = account->Take(daemon::Resource::kConnections, 1);
    if (!place.ok()) return {};
    FileDescriptor process = daemons_end.PeerProcess(getpid());
    HandOver(std::make_unique<daemon::Connection>(
        std::move(daemons_end),
        daemon::Connection::Peer{{getpid(), user, user}, std::move(tenant), false},
        std::move(process), account, std::move(*place)));
    return tenants_end;
  }

  Holdings holdings() {
    Holdings now;
    Do([&](daemon::Engine& engine) {
      now.sessions = engine.report_sources().sessions->all().size();
      now.communicators = engine.report_sources().communicators->all().size();
    });
    for (size_t i = 0; i < now.amounts.size(); ++i) {
      now.amounts[i] = accounts_->host().held(static_cast<daemon::Resource>(i));
    }
    return now;
  }
  /// Waits until tenants hold this much. Other amounts after eight seconds are a finding;
  /// libFuzzer's own limit is ten.
  void AwaitHoldings(const Holdings& expected) {
    const uint64_t deadline_ns = MonotonicNanoseconds() + 8'000'000'000;
    Holdings now = holdings();
    while (now != expected && MonotonicNanoseconds() < deadline_ns) {
      std::this_thread::yield();
      now = holdings();
    }
    if (now == expected) return;
    Print("held", now);
    Print("expected", expected);
    Require(false, "nothing of the tenants is left");
  }

 private:
  void HandOver(std::unique_ptr<daemon::Connection> connection) {
    const daemon::TenantIdentity tenant = connection->tenant();
    std::shared_ptr<daemon::Reception>& reception = receptions_[tenant.number];
    if (reception != nullptr && reception->Receive(&connection)) return;
    // The previous one has closed, as it does when its tenant was away for a while.
    Result<std::shared_ptr<daemon::Reception>> opened =
        daemon::Reception::Open(gate_, tenant, {.workers = workers_});
    RequireOk(opened.status(), "a reception");
    reception = std::move(*opened);
    Require(reception->Receive(&connection), "a new reception is open");
  }

  static void Print(const char* what, const Holdings& holdings) {
    for (size_t i = 0; i < holdings.amounts.size(); ++i) {
      std::fprintf(stderr, "%s: %jd %s\n", what, intmax_t{holdings.amounts[i]},
                   ResourceName(static_cast<daemon::Resource>(i)));
    }
    std::fprintf(stderr, "%s: %zu sessions and %zu communicators of the engine's\n", what,
                 holdings.sessions, holdings.communicators);
  }

  const int64_t workers_;
  std::shared_ptr<daemon::Accounts> accounts_;
  std::unique_ptr<daemon::Engine> engine_;
  std::shared_ptr<daemon::EngineGate> gate_;
  std::map<uint32_t, std::shared_ptr<daemon::Reception>> receptions_;  // by tenant
};

}  // namespace harmonaize::fuzz
