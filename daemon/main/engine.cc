#include "daemon/main/engine.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"
#include "daemon/tenant/rank_feed.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/looking.h"
#include "src/executor/host/cut.h"
#include "src/memory/fault_guard.h"

namespace harmonaize::daemon {
namespace {

/// Most descriptors taken from one ring before the next ring has its turn.
constexpr int kDescriptorsPerTurn = 64;

/// Most descriptors taken from the rings of one tenant before the next tenant has its turn.
constexpr int kDescriptorsPerTenant = 256;
/// Most rings of one tenant that are looked at before the next tenant has its turn.
constexpr size_t kRingsPerTenant = 64;

/// Time, in nanoseconds, between looks at sleeping sessions' doorbells while there is work. A look
/// is a system call, and a round may be as little as a few cache misses.
constexpr uint64_t kDoorbellNanoseconds = 100'000;
/// Rounds between looks at the clock for kDoorbellNanoseconds. No round takes longer than some of
/// these budgets.
constexpr int kRoundsPerClock = 4;
/// Idle looks between looks at the doorbells: every idle look may be a system call, too.
constexpr int kLooksPerDoorbellCheck = 16;
/// Longest time, in nanoseconds, that the engine does the workers' work before it looks round,
/// beyond one unit.
constexpr uint64_t kHelpNanoseconds = 20'000;

/// Pause, in milliseconds, after a round that threw: a round that throws again and again must not
/// fill the log.
constexpr std::chrono::milliseconds kPauseAfterException(1);

/// Longest time, in nanoseconds, that the engine deals with requests before it looks at operations
/// again, beyond one request. A middling operation takes as long.
constexpr uint64_t kPostedNanoseconds = 100'000;

/// Longest time, in nanoseconds, that the engine starts ready operations before it looks round,
/// beyond a turn of each tenant.
constexpr uint64_t kReadyNanoseconds = 100'000;
/// Longest time, in nanoseconds, that the engine ends executed operations before it looks round,
/// beyond kFinishedPerClock of them.
constexpr uint64_t kFinishedNanoseconds = 100'000;
/// Executed operations that are ended between looks at the clock.
constexpr int kFinishedPerClock = 32;

}  // namespace

Engine::~Engine() {
  if (thread_.joinable()) Stop("the daemon was stopped");
  FaultGuard::TellLossesTo(-1);
  // The executor goes before the executions that it may still hold.
  executor_.reset();
}

Activity Engine::ActivityNow() const {
  Activity now;
  now.busy = executor_->executing() || waiting_.any() || !network_operations_.empty() ||
             control_loop_->busy();
  for (const auto& [id, session] : sessions_.all()) {
    now.busy = now.busy || session->outstanding() > 0;
    now.operations += session->operations();
  }
  // The ranks count inline operations themselves. A rank that lies has this host measured later, or
  // while it is busy, which the measurement notices.
  for (const auto& [id, communicator] : communicators_.all()) {
    const InlineSegment* const segment = communicator->inline_segment();
    if (segment != nullptr) now.operations += segment->operations();
  }
  return now;
}

void Engine::SetPolicy(const PolicyConfig& policy) {
  tenants_.SetPolicy(policy);
  requirements_->SetPolicy(policy);
}

void Engine::Start() {
  tuning_.MeasureAgainIfUnsure();
  thread_ = std::thread([this] { Run(); });
}

// Sets a flag, since a posted call would wait behind all requests.
void Engine::Stop(const std::string& why) {
  stopped_why_ = why;
  // Release, with the acquire in Run.
  stopping_.store(true, std::memory_order_release);
  loop_->Wake();
  thread_.join();
  if (events_ != nullptr) {
    GuardedAndLogged("what is promised", [this] { events_->records().Flush(); });
  }
  const Status kept = Caught([this] { return usage_->KeepNow(); });
  if (!kept.ok()) {
    Log(LogLevel::kWarning, kLogInit, "what tenants have used is not kept: {}", kept.message());
  }
}

void Engine::SayGoodbye() {
  if (events_ != nullptr) events_->TellOfEnd();
  for (const auto& [id, session] : sessions_.all()) {
    session->SayGoodbye(stopped_why_);
    session->connection().Cut();
  }
}

// ---------------------------------------------------------------------------------------------
// The loop

void Engine::Run() {
  while (!stopping_.load(std::memory_order_acquire)) {
    Guarded(
        [this] {
          if (!RunRound()) return StayIdle();
          idle_wait_.End();
          if (++rounds_ % kRoundsPerClock != 0) return;
          const uint64_t now = MonotonicNanoseconds();
          if (now < doorbells_ns_ + kDoorbellNanoseconds) return;
          doorbells_ns_ = now;
          UpdateCrowded();
          loop_->Wait(0);
          TickIfDue();
        },
        [](const Status& exception) {
          // An exception that one tenant can cause is caught closer to that tenant.
          std::this_thread::sleep_for(kPauseAfterException);
          LogException("a round of the engine", exception);
        });
  }
  GuardedAndLogged("the end of all sessions", [this] { SayGoodbye(); });
}

bool Engine::RunRound() {
  bool progress = loop_->RunPosted(kPostedNanoseconds);
  progress |= PollRings();
  progress |= RunReady();
  progress |= Help();
  progress |= CollectFinished();
  progress |= RunNetwork();
  progress |= sliced_.Run();
  progress |= RunReady();
  finished_.Publish();
  membership_->Sweep();
  SweepSessions();
  return progress;
}

// Goes on looking for work for as long as that pays, then sleeps.
void Engine::StayIdle() {
  const uint64_t now = MonotonicNanoseconds();
  if (!idle_wait_.begun()) idle_wait_.Begin(now, WhatIsAwaited());
  if (!idle_wait_.Look(now)) return Sleep();
  // A session that has been quiet for long is heard by its doorbell alone.
  if (idle_wait_.looks() % kLooksPerDoorbellCheck != 0) return;
  loop_->Wait(0);
  TickIfDue();
}

IdleWait::Circumstances Engine::WhatIsAwaited() const {
  // The workers are done after a while, but nobody knows when a tenant comes again.
  IdleWait::For awaited =
      executor_->executing() ? IdleWait::For::kWorkers : IdleWait::For::kTenants;
  if (!network_operations_.empty()) awaited = IdleWait::For::kNetwork;
  const bool keeps_looking = requirements_.has_value() && requirements_->duties().keeps_looking;
  return {.awaited = awaited,
          .wake_up_ns = static_cast<uint64_t>(tuning_.calibration().costs.wake_up_ns),
          .sleepers = sessions_.AnyAcrossHosts() ? kSleepersAcrossHosts : kSleepersOnOneHost,
          .look_us = keeps_looking ? static_cast<int64_t>(kLongLookNanoseconds / 1000)
                                   : config_.engine_spin_us,
          .crowded = crowded_};
}

// Goes by index, since a session that is cut off leaves the lists.
bool Engine::PollRings() {
  bool progress = false;
  const std::vector<Tenant*>& tenants = sessions_.hot_tenants();
  for (size_t i = 0; i < tenants.size(); ++i) progress |= PollRingsOf(*tenants[i]);
  return progress;
}

bool Engine::PollRingsOf(Tenant& tenant) {
  HotSessions& hot = tenant.hot;
  int taken = 0;
  const size_t rings = std::min(hot.sessions.size(), kRingsPerTenant);
  for (size_t i = 0; i < rings && taken < kDescriptorsPerTenant && !hot.sessions.empty(); ++i) {
    Session& session = *hot.sessions[hot.next++ % hot.sessions.size()];
    const bool dealt_with =
        Guarded([&] { taken += DrainRing(session); },
                [&](const Status& exception) { CutOff(session, exception.message()); });
    if (!dealt_with) session.connection().CutSoon();
  }
  return taken > 0;
}

// Returns how many descriptors were taken.
int Engine::DrainRing(Session& session) {
  const LogFor log_for(session.tenant().identity);
  OperationDescriptor descriptor;
  int taken = 0;
  while (taken < kDescriptorsPerTurn && session.TakeDescriptor(&descriptor)) {
    ++taken;
    // The quota comes before Admit: a part that no communicator has would never be retired, and a
    // session is kept for as long as it has parts.
    if (session.outstanding() >= config_.quota.outstanding_operations) {
      CutOff(session, fmt::format("more than {} operations in flight, which is the provider's "
                                  "quota for one process",
                                  config_.quota.outstanding_operations));
      return taken;
    }
    Result<PostedOperation*> part = session.Admit(descriptor);
    if (!part.ok()) {
      CutOff(session, part.status().message());
      return taken;
    }
    session.active_ns = (*part)->arrived_ns;
    const bool has_stream = (*part)->stream != nullptr;
    (*part)->member->communicator->Post(*part);
    if (!has_stream || !(*part)->stream->Arrive(*part)) continue;
    (*part)->ready_ns = (*part)->arrived_ns;
    ready_.Add(session.tenant(), *part);
  }
  if (taken > 0) session.FreeTaken();
  if (session.ring_broken()) CutOff(session, "a submission ring whose tail makes no sense");
  return taken;
}

bool Engine::TakeInPosted(Session& session) {
  const uint32_t id = session.id();
  while (FindSession(id) != nullptr) {
    if (DrainRing(session) == 0) break;
  }
  return FindSession(id) != nullptr;
}

// Starts operations in turns, not by recursion: a stream may hold thousands of tiny operations.
bool Engine::RunReady() {
  if (ready_.empty()) return false;
  uint64_t until = 0;
  while (true) {
    ready_.TakeTurn([](PostedOperation* part) {
      Communicator* const communicator = part->member->communicator;
      Guarded([&] { communicator->OnReady(part); },
              [&](const Status& exception) { communicator->GiveUp(exception); });
    });
    if (ready_.empty()) return true;
    const uint64_t now = MonotonicNanoseconds();
    if (until == 0) until = now + kReadyNanoseconds;
    if (now >= until) return true;
  }
}

// Does several units at once, since a round of everything costs more than a small unit, and an
// operation may have many. But if tenants share the executor, it stops when an execution has ended,
// so that its tenant does not wait for another tenant's units.
bool Engine::Help() {
  if (!executor_->Help()) return executor_->AwaitRanks();
  const bool shared = executor_->shared();
  const uint64_t until = MonotonicNanoseconds() + kHelpNanoseconds;
  while (!(shared && executor_->any_finished()) && executor_->Help()) {
    if (MonotonicNanoseconds() >= until) break;
  }
  return true;
}

bool Engine::CollectFinished() {
  int collected = 0;
  uint64_t until = 0;
  while (Execution* execution = executor_->TakeFinished()) {
    Charge(*execution);
    GuardedAndLogged("the end of an execution", [&] { execution->on_finished(execution); });
    if (++collected % kFinishedPerClock != 0) continue;
    const uint64_t now = MonotonicNanoseconds();
    if (until == 0) until = now + kFinishedNanoseconds;
    if (now >= until) break;
  }
  return collected > 0;
}

// Charges a tenant for the time of the executor's threads that an execution has taken.
void Engine::Charge(const Execution& execution) {
  const uint32_t number = execution.bound().tenant;
  // Most executions in a row are of one tenant, and no tenant ever goes.
  if (charged_ == nullptr || charged_number_ != number) {
    charged_ = tenants_.OfWork(number);
    charged_number_ = number;
  }
  if (charged_ != nullptr) charged_->worked_ns += execution.worked_nanoseconds();
}

bool Engine::RunNetwork() {
  if (cluster_ == nullptr) return false;
  const bool busy = !network_operations_.empty();
  if (busy && checkpoints_.has_value()) {
    IdleLink& link = checkpoints_->others().idle_link();
    if (link.is_watched()) link.NoteBusy(MonotonicNanoseconds());
  }
  return cluster_->Progress(busy);
}

void Engine::OnMessage(transport::PeerId peer, const ClusterMessage& message) {
  Guarded(
      [&] {
        if (diagnosis_->OnMessage(peer, message)) return;
        membership_->OnMessage(peer, message);
        if (events_ != nullptr) events_->job_events().OnMessage(peer, message);
        if (requirements_.has_value()) requirements_->OnMessage(peer, message);
        if (agents_.has_value()) agents_->OnMessage(peer, message);
        if (offers_.has_value()) offers_->OnMessage(peer, message);
        if (sizing_.has_value()) sizing_->OnMessage(peer, message);
        if (checkpoints_.has_value()) checkpoints_->OnMessage(peer, message);
        probes_->OnMessage(peer, message);
        nccl_tuning_->OnMessage(peer, message);
        control_loop_->OnMessage(peer, message);
      },
      [&](const Status& exception) {
        LogException("a message of another daemon", exception);
        membership_->GiveUpOn(peer, message, exception);
      });
}

void Engine::OnPeerLost(transport::PeerId peer) {
  diagnosis_->OnPeerLost(peer);
  membership_->OnPeerLost(peer);
  if (checkpoint_advisor_.has_value()) checkpoint_advisor_->OnPeerLost();
  if (agents_.has_value()) agents_->OnPeerLost(peer);
  if (sizing_.has_value()) sizing_->OnPeerLost(peer);
  if (checkpoints_.has_value()) checkpoints_->OnPeerLost(peer);
  probes_->OnPeerLost(peer);
  nccl_tuning_->OnPeerLost(peer);
  control_loop_->OnPeerLost(peer);
}

// How the engine is woken, and why no wake-up is missed: the engine first says that it sleeps (to
// the tenants in their rings, to the workers in asleep_), then looks once more at all they may have
// left, and only then sleeps. Tenants and workers first leave their word, and then look whether the
// engine sleeps. All four are sequentially consistent, so at least one side sees the other.
//
// The engine listens to active sessions again from the moment it is awake, so only the first of
// several ranks that come at the same time has to ring.
void Engine::Sleep() {
  sessions_.CoolDown(MonotonicNanoseconds());
  UpdateCrowded();
  sessions_.SetConsumerWaiting(true);
  asleep_.store(true, std::memory_order_seq_cst);
  if (!AnythingToDo()) {
    ++sleeps_;
    loop_->Wait(SleepTimeout());
  }
  asleep_.store(false, std::memory_order_relaxed);
  sessions_.SetConsumerWaiting(false);
  TickIfDue();
}

void Engine::UpdateCrowded() {
  crowded_ = sessions_.UpdateCrowded(tuning_.calibration().fingerprint.processors);
}

bool Engine::AnythingToDo() {
  return stopping_.load(std::memory_order_relaxed) || loop_->HasPosted() || !ready_.empty() ||
         CollectFinished() || (cluster_ != nullptr && !cluster_->Arm()) || sliced_.AnyToDo() ||
         sessions_.AnyHasDescriptors();
}

int Engine::SleepTimeout() const {
  const bool at_rest = !waiting_.any() && !executor_->executing() && network_operations_.empty() &&
                       !sessions_.any_gone() && !membership_->remembers_failures();
  if (at_rest && !control_loop_->busy()) return -1;
  const uint64_t now = MonotonicNanoseconds();
  if (now >= next_tick_ns_) return 0;
  return static_cast<int>((next_tick_ns_ - now) / 1'000'000) + 1;
}

void Engine::TickIfDue() {
  const uint64_t now = MonotonicNanoseconds();
  if (now < next_tick_ns_) return;
  // A quarter of late_after_seconds, within bounds, so that a report comes not much later than its
  // rank.
  double late_after = config_.late_after_seconds;
  if (requirements_.has_value()) {
    late_after = std::min(late_after, requirements_->duties().late_after_seconds);
  }
  double interval = std::clamp(late_after / 4, 0.005, 0.5);
  if (control_loop_->active()) interval = std::min(interval, LinkState::kIntervalSeconds);
  if (config_.plans.switch_every_ms > 0) {
    interval = std::min(interval, static_cast<double>(config_.plans.switch_every_ms) * 1e-3);
  }
  next_tick_ns_ = now + static_cast<uint64_t>(interval * 1e9);
  if (waiting_.any() || !network_operations_.empty() || membership_->remembers_failures()) {
    // It knows why ranks are late before these are told of.
    diagnosis_->Tick(now);
    membership_->Tick(now);
  }
  if (!network_operations_.empty() || control_loop_->busy()) control_loop_->Tick(now);
  usage_->KeepIfDue(now);
}

void Engine::WakeFromWorker() {
  if (asleep_.load(std::memory_order_seq_cst) &&
      asleep_.exchange(false, std::memory_order_seq_cst)) {
    loop_->Wake();
  }
}

// ---------------------------------------------------------------------------------------------
// Sessions and regions

Status Engine::AddSession(std::unique_ptr<Session> session) {
  Session* const added = session.get();
  // Numbers come round after 2^32 sessions.
  if (FindSession(added->id()) != nullptr) {
    return InvalidUsage("number {} is that of another session: connect again", added->id());
  }
  added->set_on_region_gone([](const Member& member, uint32_t region) {
    member.communicator->TellRegionGone(member.rank, region);
  });
  // Nothing may throw between the watch of the bell and the session's place in the table.
  SessionTable::Sessions entry;
  entry.emplace(added->id(), std::move(session));
  HZ_RETURN_IF_ERROR(loop_->WatchBell(added->doorbell(), [this, added] {
    added->AnswerSign();
    if (added->TellsInlineWaits()) diagnosis_->ExpectWaits();
    sessions_.MakeHot(*added);
  }));
  sessions_.Add(&entry);
  added->SetConsumerWaiting(true);
  Log(LogLevel::kDebug, kLogInit, "session {}: process {} ({}) of user {}", added->id(),
      added->process(), added->program(), added->tenant().name());
  return Status::Ok();
}

void Engine::LoseSession(uint32_t id, const std::string& why, SessionEnd end) {
  Session* const session = sessions_.MarkGone(id);
  if (session == nullptr) return;
  const LogFor log_for(session->tenant().identity);
  loop_->Unwatch(session->doorbell());
  TellLoss(*session, why, end);
  Log(LogLevel::kDebug, kLogInit, "session {} of process {} ended", id, session->process());
}

void Engine::TellLoss(Session& session, const std::string& why, SessionEnd end) {
  profiles_.Close(session.id());
  nccl_tuning_->LoseSession(session.id());
  membership_->LoseSession(session, why, end);
  session.loss_told = true;
}

void Engine::CutOff(Session& session, const std::string& why) {
  const LogFor log_for(session.tenant().identity);
  Log(LogLevel::kWarning, kLogInit, "session {} (process {}, {}) is cut off: {}", session.id(),
      session.process(), session.program(), why);
  ++sessions_cut_off_;
  session.SayGoodbye(fmt::format("it cut this process off: {}", why));
  session.connection().CutSoon();
  LoseSession(session.id(),
              fmt::format("(process {}) was cut off by the provider", session.process()),
              SessionEnd::kCutOff);
}

Status Engine::WatchForLostMemory() {
  lost_memory_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!lost_memory_.valid()) return ErrnoError(errno, "cannot make an event");
  FaultGuard::TellLossesTo(lost_memory_.get());
  return loop_->Watch(lost_memory_.get(), [this] { LookForLostMemory(); });
}

// Cuts sessions off at once, because operations under way go on meanwhile and fill memory of the
// daemon's own.
void Engine::LookForLostMemory() {
  uint64_t losses = 0;
  if (read(lost_memory_.get(), &losses, sizeof losses) < 0) return;
  for (const auto& [id, session] : sessions_.all()) {
    if (session->HasLostMemory()) CutOffSoon(id, kMemoryIsGone);
  }
}

void Engine::CutOffSoon(uint32_t session, std::string why) {
  loop_->Post([this, session, why = std::move(why)] {
    if (Session* found = FindSession(session)) CutOff(*found, why);
  });
}

void Engine::SweepSessions() {
  if (!sessions_.any_gone()) return;
  sessions_.Sweep([this](Session& session) {
    const LogFor log_for(session.tenant().identity);
    GuardedAndLogged("the end of a session",
                     [&] { TellLoss(session, "was lost", SessionEnd::kCutOff); });
  });
}

}  // namespace harmonaize::daemon
