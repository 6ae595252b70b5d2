#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator_log.h"
#include "daemon/communicator/communicator_observer.h"
#include "daemon/config/config.h"
#include "daemon/control/control_loop.h"
#include "daemon/formation/membership.h"
#include "daemon/host/host_tuning.h"
#include "daemon/multihost/network_operations.h"
#include "daemon/plans/fabrics.h"
#include "daemon/probing/probe_service.h"
#include "daemon/runtime/background.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/idle_wait.h"
#include "daemon/runtime/waiting_count.h"
#include "daemon/tenant/ready_parts.h"
#include "daemon/tenant/session_table.h"
#include "daemon/tenant/tenant_table.h"
#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/executor/host/executor.h"

namespace harmonaize::daemon {

/// The thread that carries operations from the tenants' rings to the executor and back. It owns all
/// that tenants have here, so nothing of that is locked; the server thread hands it requests with
/// Post. It looks at the rings of active sessions, and sleeps when there is nothing to do.
class Engine final : private ClusterEvents {
 public:
  static Result<std::unique_ptr<Engine>> Create(const Config& config, Calibration calibration,
                                                std::shared_ptr<Accounts> accounts);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void Start();
  /// Ends all sessions, telling each tenant `why`, and the thread.
  void Stop(const std::string& why);
  /// Runs `call` on the engine's thread. Any thread. What tenants cause in this way is bounded: by
  /// one request and one loss for each connection.
  void Post(std::function<void()> call) { loop_->Post(std::move(call)); }

  // All that follows belongs to the engine's thread.

  Status AddSession(std::unique_ptr<Session> session);
  /// nullptr once it is gone.
  Session* FindSession(uint32_t id) { return sessions_.Find(id); }
  /// The process has ended or hung up; `why` completes "rank 3 ...".
  void LoseSession(uint32_t id, const std::string& why);
  /// Ends a session whose tenant did what no client does.
  void CutOff(Session& session, const std::string& why);
  /// The same, once what is under way now has been dealt with.
  void CutOffSoon(uint32_t session, std::string why);
  /// Ends, soon, the sessions of this communicator's ranks on this host. An exception interrupted
  /// one of its operations, and the state of the operation's parts is unknown.
  void GiveUpOn(const Communicator& communicator, const Status& exception);

  /// Takes in all that the session has posted so far, before a request that must not overtake it.
  /// False when it was cut off over that; the session is gone then.
  bool TakeInPosted(Session& session);

  /// Removes a region from the session: at once, or when no operation uses it any more.
  Status RemoveRegion(Session& session, uint32_t region);

  Membership& membership() { return membership_; }
  const SessionTable::Sessions& sessions() const { return sessions_.all(); }
  const TenantTable& tenants() const { return tenants_; }
  TenantTable& tenants() { return tenants_; }
  const Executor& executor() const { return *executor_; }
  Executor& executor() { return *executor_; }
  const Machine& machine() const { return executor_->machine(); }
  const HostTuning& tuning() const { return tuning_; }
  const Calibration& calibration() const { return tuning_.calibration(); }
  /// Between the inline and the offload path, by this host's calibration.
  InlineChoice inline_choice() const { return tuning_.Choice(machine()); }
  const Config& config() const { return config_; }
  uint64_t started_ns() const { return started_ns_; }
  /// How often the thread has gone to sleep.
  uint64_t sleeps() const { return sleeps_; }

  /// nullptr where the configuration names no address: then this host stands alone.
  Cluster* cluster() { return cluster_.get(); }
  const Cluster* cluster() const { return cluster_.get(); }
  Fabrics& fabrics() { return fabrics_; }
  /// The digest of the provider's fabric, by which this daemon's rails are numbered; 0 without one.
  uint64_t own_fabric() const { return own_fabric_; }
  Background& background() { return background_; }
  ProbeService& probes() { return probes_; }
  const ControlLoop& control_loop() const { return control_loop_; }
  ControlLoop& control_loop() { return control_loop_; }

  // For communicators.

  void Start(Execution* execution) {
    ++executing_;
    executor_->Start(execution);
  }
  void Cancel(Execution* execution, const Status& why) { executor_->Cancel(execution, why); }
  /// One that Start has started was taken back.
  void NoteExecuted() { --executing_; }
  NetworkOperations& network_operations() { return network_operations_; }
  /// The observers are told what becomes of communicators.
  CommunicatorObservers& observers() { return observers_; }
  /// Completes a part: tells its tenant, moves its stream on, takes the part back.
  void Finish(PostedOperation* part, const Status& outcome);
  /// Communicator::ReportLate is called then, if something waits.
  void TickBy(uint64_t at_ns) { next_tick_ns_ = std::min(next_tick_ns_, at_ns); }
  /// As HostTuning's.
  void CheckPrediction(const HostOperation& operation, double least, double most) {
    tuning_.CheckPrediction(operation, least, most, machine());
  }
  /// What waits for a rank: while there is any, the engine looks for late ones.
  WaitingCount& waiting() { return waiting_; }

 private:
  Engine(const Config& config, Calibration calibration, std::shared_ptr<Accounts> accounts);

  Status JoinCluster();
  Activity ActivityNow() const;
  HostTuning::Means MeansToTune();
  void Run();
  bool RunRound();
  void StayIdle();
  IdleWait::Circumstances WhatIsAwaited() const;
  void PublishCompleted();
  void UpdateCrowded();
  bool PollRings();
  bool PollRingsOf(Tenant& tenant);
  int DrainRing(Session& session);
  bool RunReady();
  bool Help();
  bool CollectFinished();
  bool RunNetwork();
  void OnMessage(transport::PeerId peer, const ClusterMessage& message) override;
  void OnPeerLost(transport::PeerId peer) override;
  void Sleep();
  bool AnythingToDo();
  int SleepTimeout() const;
  void TickIfDue();
  void SweepSessions();
  Status WatchForLostMemory();
  void LookForLostMemory();
  void TellLoss(Session& session, const std::string& why);
  void SayGoodbye();
  void WakeFromWorker();

  const Config config_;
  const uint64_t started_ns_;
  std::unique_ptr<EventLoop> loop_;
  FileDescriptor lost_memory_;  ///< An event: FaultGuard tells of pages that are gone.
  std::unique_ptr<Executor> executor_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::string stopped_why_;    ///< Set before `stopping_`.
  int64_t rounds_ = 0;         ///< That found something to do.
  uint64_t doorbells_ns_ = 0;  ///< When sleeping sessions' doorbells were looked at last.
  /// True while the thread sleeps, or is about to: workers then wake it.
  std::atomic<bool> asleep_{false};

  CommunicatorLog communicator_log_;
  CommunicatorObservers observers_;
  WaitingCount waiting_;  ///< Before all that may wait.
  TenantTable tenants_;
  SessionTable sessions_;
  Membership membership_;

  std::unique_ptr<Cluster> cluster_;
  Fabrics fabrics_;
  uint64_t own_fabric_ = 0;
  NetworkOperations network_operations_{
      [this](const Communicator& communicator, const Status& exception) {
        GiveUpOn(communicator, exception);
      }};

  // Queues that have come further than their tenants know.
  struct Unpublished {
    StreamQueue* queue;
    Session* session;
  };
  std::vector<Unpublished> unpublished_;

  ReadyParts ready_;
  int64_t executing_ = 0;
  uint64_t next_tick_ns_ = 0;

  IdleWait idle_wait_;
  bool crowded_ = false;
  uint64_t sleeps_ = 0;
  ProbeService probes_{this};
  ControlLoop control_loop_{this};
  // Last: what these run posts to this engine.
  Background background_;
  HostTuning tuning_;
};

}  // namespace harmonaize::daemon
