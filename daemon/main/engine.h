#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/access/engine_rooms.h"
#include "daemon/adaptation/job_advisor.h"
#include "daemon/agents/agents.h"
#include "daemon/checkpoint/checkpoint_keeper.h"
#include "daemon/checkpoint_advice/checkpoint_advisor.h"
#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator_counts.h"
#include "daemon/communicator/communicator_log.h"
#include "daemon/communicator/communicator_observer.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/config/config.h"
#include "daemon/control/control_loop.h"
#include "daemon/diagnosis/diagnosis.h"
#include "daemon/formation/membership.h"
#include "daemon/host/host_tuning.h"
#include "daemon/job_events/event_rooms.h"
#include "daemon/jobs/job_table.h"
#include "daemon/metrics/usage_ledger.h"
#include "daemon/multihost/network_operations.h"
#include "daemon/nccl_tuning/nccl_tuning.h"
#include "daemon/offers/offers.h"
#include "daemon/plans/fabrics.h"
#include "daemon/probing/probe_service.h"
#include "daemon/profiles/profiles.h"
#include "daemon/requirements/requirements_book.h"
#include "daemon/runtime/background.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/fed_executions.h"
#include "daemon/runtime/idle_wait.h"
#include "daemon/runtime/waiting_count.h"
#include "daemon/sizing/sizing.h"
#include "daemon/tenant/finished_parts.h"
#include "daemon/tenant/ready_parts.h"
#include "daemon/tenant/session_keeper.h"
#include "daemon/tenant/session_table.h"
#include "daemon/tenant/tenant_table.h"
#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/executor/host/executor.h"

namespace harmonaize::daemon {

/// The thread that carries operations from the tenants' rings to the executor and back. It owns all
/// state of the tenants, so none of that is locked; receptions hand it requests by its loop. It
/// looks at the rings of active sessions, and sleeps when there is nothing to do.
class Engine final : public EngineRooms, private SessionKeeper, private ClusterEvents {
 public:
  /// Joins the cluster at a socket of `listening`, where that has one for it.
  static Result<std::unique_ptr<Engine>> Create(
      const Config& config, Calibration calibration, std::shared_ptr<Accounts> accounts,
      std::shared_ptr<transport::ListeningSockets> listening = nullptr);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Has the events of jobs told to `bus`, which outlives the engine, and goes on with what earlier
  /// daemons announced and promised. `restart` has the daemon end and start anew; it is called on
  /// the engine's thread. Requires: called before Start; without it there are no events.
  void TellEventsTo(EventBus* bus, std::function<void()> restart);
  void Start();
  /// Ends all sessions and tells each tenant `why`, and ends the thread.
  void Stop(const std::string& why);

  /// The loop, which runs posted calls on the engine's thread. The number of calls that tenants
  /// cause is bounded: by one request and one loss for each connection.
  EventLoop& loop() override { return *loop_; }
  const Config& config() const override { return config_; }
  SessionKeeper& session_keeper() override { return *this; }
  TenantTable& tenants() override { return tenants_; }
  Membership& membership() override { return *membership_; }
  ProbeService& probes() override { return *probes_; }
  Profiles& profiles() override { return profiles_; }
  NcclTuning& nccl_tuning() override { return *nccl_tuning_; }
  const Executor& executor() const override { return *executor_; }
  const HostTuning& tuning() const override { return tuning_; }
  ReportSources report_sources() override;
  EventRooms& events() override { return *events_; }
  RequirementsBook& requirements() override { return *requirements_; }
  JobAdvisor& advisor() override { return *advisor_; }
  CheckpointAdvisor& checkpoint_advisor() override { return *checkpoint_advisor_; }
  Agents& agents() override { return *agents_; }
  Offers& offers() override { return *offers_; }
  Sizing& sizing() override { return *sizing_; }
  CheckpointKeeper& checkpoints() override { return *checkpoints_; }
  void SetPolicy(const PolicyConfig& policy) override;
  JobTable& jobs() override { return jobs_; }
  ControlLoop& control_loop() { return *control_loop_; }
  const Fabrics& fabrics() const { return fabrics_; }
  /// The observers are told what becomes of communicators.
  CommunicatorObservers& observers() { return observers_; }
  Diagnosis& diagnosis() { return *diagnosis_; }

 private:
  Engine(const Config& config, Calibration calibration, std::shared_ptr<Accounts> accounts);

  Status AddSession(std::unique_ptr<Session> session) override;
  Session* FindSession(uint32_t id) override { return sessions_.Find(id); }
  void LoseSession(uint32_t id, const std::string& why, SessionEnd end) override;
  void CutOff(Session& session, const std::string& why) override;
  void CutOffSoon(uint32_t session, std::string why) override;
  bool TakeInPosted(Session& session) override;

  Status JoinCluster(std::shared_ptr<transport::ListeningSockets> listening);
  void OpenRooms();
  void BeginCheckpointAdvice();
  void BeginSizing();
  Activity ActivityNow() const;
  HostTuning::Means MeansToTune();
  void Run();
  bool RunRound();
  void StayIdle();
  IdleWait::Circumstances WhatIsAwaited() const;
  void UpdateCrowded();
  bool PollRings();
  bool PollRingsOf(Tenant& tenant);
  int DrainRing(Session& session);
  bool RunReady();
  bool Help();
  bool CollectFinished();
  void Charge(const Execution& execution);
  bool RunNetwork();
  void OnMessage(transport::PeerId peer, const ClusterMessage& message) override;
  void OnPeerLost(transport::PeerId peer) override;
  void Sleep();
  bool AnythingToDo();
  int SleepTimeout() const;
  void TickIfDue();
  void TickBy(uint64_t at_ns) { next_tick_ns_ = std::min(next_tick_ns_, at_ns); }
  void SweepSessions();
  Status WatchForLostMemory();
  void LookForLostMemory();
  void TellLoss(Session& session, const std::string& why, SessionEnd end);
  void SayGoodbye();
  void WakeFromWorker();

  const Config config_;
  const uint64_t started_ns_;
  std::unique_ptr<EventLoop> loop_;
  FileDescriptor lost_memory_;  ///< An eventfd by which FaultGuard tells of pages that are gone.
  std::unique_ptr<Executor> executor_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::string stopped_why_;    ///< Set before `stopping_`.
  int64_t rounds_ = 0;         ///< Rounds that found something to do.
  uint64_t doorbells_ns_ = 0;  ///< When sleeping sessions' doorbells were looked at last.
  /// True while the thread sleeps, or is about to: workers then wake it.
  std::atomic<bool> asleep_{false};

  CommunicatorLog communicator_log_;
  CommunicatorCounts communicator_counts_;
  CommunicatorObservers observers_;
  WaitingCount waiting_;  ///< Declared before everything that may wait.
  TenantTable tenants_;
  SessionTable sessions_;
  JobTable jobs_;
  CommunicatorRegistry communicators_;
  ReadyParts ready_;
  FinishedParts finished_{&ready_};

  std::unique_ptr<Cluster> cluster_;  ///< nullptr where the host stands alone.
  Fabrics fabrics_;
  FedExecutions sliced_;
  NetworkOperations network_operations_{&sliced_};

  uint64_t next_tick_ns_ = 0;

  IdleWait idle_wait_;
  bool crowded_ = false;
  uint64_t sleeps_ = 0;
  uint64_t sessions_cut_off_ = 0;
  /// The tenant that was charged last, by Operands::tenant; nullptr: none.
  Tenant* charged_ = nullptr;
  uint32_t charged_number_ = 0;
  // Create makes the first of these, and OpenRooms the others.
  std::optional<ControlLoop> control_loop_;
  std::optional<Membership> membership_;
  std::optional<ProbeService> probes_;
  std::optional<NcclTuning> nccl_tuning_;
  std::optional<Diagnosis> diagnosis_;
  std::unique_ptr<EventRooms> events_;  ///< TellEventsTo makes it; nullptr: nobody hears of them.
  std::optional<RequirementsBook> requirements_;  ///< Likewise: nullopt if there are no events.
  std::optional<JobAdvisor> advisor_;             ///< Likewise.
  std::optional<CheckpointAdvisor> checkpoint_advisor_;  ///< Likewise.
  std::optional<Agents> agents_;                         ///< Likewise.
  std::optional<Offers> offers_;                         ///< Likewise.
  std::optional<Sizing> sizing_;                         ///< Likewise.
  std::optional<CheckpointKeeper> checkpoints_;          ///< Likewise.
  std::optional<UsageLedger> usage_;
  Profiles profiles_{&jobs_, config_.profiler.events};
  // Declared last: their threads post to this engine.
  Background background_;
  HostTuning tuning_;
};

}  // namespace harmonaize::daemon
