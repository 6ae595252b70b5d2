#include "daemon/main/engine.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "daemon/host/worker_places.h"
#include "daemon/multihost/rank_feed.h"
#include "daemon/plans/host_plan.h"
#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/pause.h"
#include "src/executor/host/cut.h"
#include "src/memory/fault_guard.h"
#include "src/topology/host/host.h"

namespace harmonaize::daemon {
namespace {

/// Descriptors taken from one ring before the next ring has its turn.
constexpr int kDescriptorsPerTurn = 64;

/// Descriptors taken from the rings of one tenant before the next tenant has its turn.
constexpr int kDescriptorsPerTenant = 256;
/// Rings of one tenant that are looked at before the next tenant has its turn.
constexpr size_t kRingsPerTenant = 64;

/// How long the engine goes without a look at sleeping sessions' doorbells while there is work, in
/// nanoseconds: a look is a system call, a round as little as a few cache misses.
constexpr uint64_t kDoorbellNanoseconds = 100'000;
/// Rounds between looks at the clock for that. No round takes longer than some of these budgets.
constexpr int kRoundsPerClock = 4;
/// The same while it looks for work: by then every look may be a system call.
constexpr int kLooksPerDoorbellCheck = 16;
/// Looks for which the engine keeps its processor although others want it. Each is a round of all
/// that could have happened, a system call among it, and so not one of Pacer's.
constexpr int kCrowdedLooks = 1;

/// For how long at most the engine does what workers could do before it looks round, beyond one
/// unit.
constexpr uint64_t kHelpNanoseconds = 20'000;

/// A session in whose ring there was nothing for this long has to ring when it comes again. Until
/// then every sleep of the engine costs two stores more, and every round a look.
constexpr uint64_t kCoolNanoseconds = 10'000'000;

/// How long the engine pauses after a round that threw: one that throws again and again must not
/// fill the log.
constexpr std::chrono::milliseconds kPauseAfterException(1);

/// For how long at most the engine deals with requests before it looks at operations again, beyond
/// one request, in nanoseconds. It is what a middling operation takes.
constexpr uint64_t kPostedNanoseconds = 100'000;

/// For how long at most the engine starts operations that are ready before it looks round, beyond a
/// turn of each tenant, in nanoseconds. The same for those that have been carried out.
constexpr uint64_t kReadyNanoseconds = 100'000;
constexpr uint64_t kFinishedNanoseconds = 100'000;
/// Operations that have been carried out between looks at the clock.
constexpr int kFinishedPerClock = 32;

// While jobs share connections each keeps so many times as many slices under way: a plan is made
// for an empty network, and who has nothing to send when its turn comes gets less than its share.
// But no more than caches hold: without that two hosts got through half as much.
constexpr int kSlicesWhenShared = 4;
constexpr uint64_t kSharedSliceBytes = uint64_t{512} << 10;

int SlicesWhenShared(const SliceCut& slice) {
  const auto fit = static_cast<int>(kSharedSliceBytes / std::max<uint64_t>(slice.bytes, 1));
  return std::clamp(fit, slice.at_once, slice.at_once * kSlicesWhenShared);
}

}  // namespace

Engine::Engine(const Config& config, Calibration calibration, std::shared_ptr<Accounts> accounts)
    : config_(config),
      calibration_(std::move(calibration)),
      accounts_(std::move(accounts)),
      started_ns_(MonotonicNanoseconds()),
      membership_(this, config_),
      recalibration_(MeansToMeasure()) {}

Result<std::unique_ptr<Engine>> Engine::Create(const Config& config, Calibration calibration,
                                               std::shared_ptr<Accounts> accounts) {
  std::unique_ptr<Engine> engine(new Engine(config, std::move(calibration), std::move(accounts)));
  HZ_ASSIGN_OR_RETURN(engine->loop_, EventLoop::Create());
  HZ_RETURN_IF_ERROR(engine->WatchForLostMemory());

  Executor::Options options;
  options.workers = static_cast<int>(std::min<int64_t>(config.workers, kMaxWorkers));
  const Host& host = ThisHost();
  options.places = config.worker_cpus.empty()
                       ? PlaceWorkers(host, options.workers, config.worker_placement)
                       : PlaceWorkersOn(host, options.workers, config.worker_cpus);
  options.cache_bytes = host.core_cache_bytes;
  options.last_level_bytes = host.last_level_cache_bytes;
  options.processors = static_cast<int>(host.processors.size());
  options.wake_up_nanoseconds = static_cast<uint64_t>(engine->calibration_.costs.wake_up_ns);
  options.wake_owner = [self = engine.get()] { self->WakeFromWorker(); };
  HZ_ASSIGN_OR_RETURN(engine->executor_, Executor::Create(std::move(options)));
  if (!config.cluster.address.empty()) HZ_RETURN_IF_ERROR(engine->JoinCluster());
  return engine;
}

Status Engine::JoinCluster() {
  HZ_ASSIGN_OR_RETURN(cluster_, Cluster::Create(config_.cluster, this));
  if (cluster_->fabric() != nullptr) own_fabric_ = fabrics_.Add(cluster_->fabric()).digest;
  control_loop_.Begin();
  HZ_RETURN_IF_ERROR(loop_->Watch(cluster_->fd(), [this] { cluster_->OnReadable(); }));
  Log(LogLevel::kInfo, kLogInit, "other daemons reach this one at {}{}", cluster_->address(),
      cluster_->host_name().empty() ? "" : " as " + cluster_->host_name());
  return Status::Ok();
}

Engine::~Engine() {
  if (thread_.joinable()) Stop("the daemon was stopped");
  FaultGuard::TellLossesTo(-1);
  // Before the executions that it may still hold.
  executor_.reset();
}

InlineChoice Engine::inline_choice() const {
  return {calibration_.costs,
          {.processors = static_cast<int>(calibration_.fingerprint.processors),
           .workers = machine().workers,
           .last_level_bytes = machine().last_level_bytes,
           .share_bytes = kSmallestShareBytes}};
}

Activity Engine::ActivityNow() const {
  Activity now;
  now.busy = executing_ > 0 || waiting_ > 0 || !network_operations_.empty() || control_loop_.busy();
  for (const auto& [id, session] : sessions_) {
    now.busy = now.busy || session->outstanding() > 0;
    now.operations += session->operations();
  }
  // The ranks count these themselves. One that lies has this host measured later, or while it is
  // busy, which the measurement notices.
  for (const auto& [id, communicator] : membership_.communicators()) {
    const InlineSegment* const segment = communicator->inline_segment();
    if (segment != nullptr) now.operations += segment->operations();
  }
  return now;
}

Recalibration::Means Engine::MeansToMeasure() {
  return {.host = calibration_.fingerprint,
          .folder = config_.state_path,
          .measure = [bytes = calibration_.fingerprint.last_level_bytes](
                         const GoOn& go_on) { return MeasureHost(bytes, go_on); },
          .ask =
              [this](std::function<void(const Activity&)> answer) {
                Post([this, answer = std::move(answer)] { answer(ActivityNow()); });
              },
          .use =
              [this](Calibration calibration) {
                Post([this, calibration = std::move(calibration)] { UseCalibration(calibration); });
              }};
}

void Engine::UseCalibration(Calibration calibration) {
  calibration_ = std::move(calibration);
  predictions_.Reset();
  executor_->SetWakeUp(static_cast<uint64_t>(calibration_.costs.wake_up_ns));
}

void Engine::CheckPrediction(HostOperation operation, double least, double most) {
  const InlineChoice choice = inline_choice();
  operation.registered = true;
  PredictionCheck::Bounds predicted;
  predicted.least = choice.OffloadSeconds(operation);
  operation.registered = false;
  predicted.most = choice.OffloadSeconds(operation);
  const PredictionCheck::Verdict verdict = predictions_.Note(predicted, {least, most});
  if (verdict == PredictionCheck::Verdict::kNone || !calibration_.sure()) return;
  // The operation is not to suffer from an exception.
  GuardedAndLogged("a doubt about the calibration", [&] {
    Doubt(verdict == PredictionCheck::Verdict::kQuick
              ? "many operations took less than a tenth of what was predicted"
              : "many operations took more than three times what was predicted");
  });
}

void Engine::Doubt(const std::string& why) {
  Log(LogLevel::kInfo, kLogTuning, "the calibration of this host is doubtful: {}", why);
  calibration_.evidence.doubts.push_back(why);
  background_.Post([folder = config_.state_path, calibration = calibration_] {
    KeepCalibration(folder, calibration);
  });
  MeasureAgainIfUnsure();
}

void Engine::MeasureAgainIfUnsure() {
  if (!config_.measure_again || calibration_.sure()) return;
  Log(LogLevel::kInfo, kLogTuning, "this host will be measured again while it is at rest");
  GuardedAndLogged("measuring this host again", [&] { recalibration_.Begin(); });
}

void Engine::Start() {
  MeasureAgainIfUnsure();
  thread_ = std::thread([this] { Run(); });
}

// Not by a call that is posted: it would wait behind all requests.
void Engine::Stop(const std::string& why) {
  stopped_why_ = why;
  // Release, with the acquire in Run.
  stopping_.store(true, std::memory_order_release);
  loop_->Wake();
  thread_.join();
}

void Engine::SayGoodbye() {
  for (const auto& [id, session] : sessions_) {
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
          EndIdleness();
          if (++rounds_ % kRoundsPerClock != 0) return;
          const uint64_t now = MonotonicNanoseconds();
          if (now < doorbells_ns_ + kDoorbellNanoseconds) return;
          doorbells_ns_ = now;
          SetCrowded();
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
  progress |= RunReady();
  PublishCompleted();
  membership_.Sweep();
  SweepSessions();
  return progress;
}

// Looks on for as long as that pays, then sleeps.
void Engine::StayIdle() {
  const uint64_t now = MonotonicNanoseconds();
  if (idleness_.since_ns == 0) BeginIdleness(now);
  if (now < idleness_.look_until_ns) {
    idleness_.pacer->Pause(now);
    // A session that has been quiet for long is heard by its doorbell alone.
    if (++idleness_.looks % kLooksPerDoorbellCheck == 0) {
      loop_->Wait(0);
      TickIfDue();
    }
    return;
  }
  idleness_.slept = true;
  Sleep();
}

void Engine::BeginIdleness(uint64_t now_ns) {
  // The workers are done after a while; when a tenant comes again nobody knows.
  WaitEstimate* estimate = executing_ > 0 ? &waits_for_workers_ : &waits_for_tenants_;
  if (!network_operations_.empty()) estimate = &waits_for_network_;
  const bool across_hosts = std::any_of(
      hot_.begin(), hot_.end(), [](const Session* session) { return session->across_hosts(); });
  uint64_t look_ns = estimate->BeginWait(static_cast<uint64_t>(calibration_.costs.wake_up_ns),
                                         across_hosts ? kSleepersAcrossHosts : kSleepersOnOneHost);
  if (config_.engine_spin_us >= 0) look_ns = static_cast<uint64_t>(config_.engine_spin_us) * 1000;
  idleness_ = {.since_ns = now_ns,
               .look_until_ns = now_ns + look_ns,
               .estimate = estimate,
               .pacer = Pacer(crowded_, kCrowdedLooks)};
}

void Engine::EndIdleness() {
  if (idleness_.since_ns == 0) return;
  idleness_.estimate->EndWait(MonotonicNanoseconds() - idleness_.since_ns, idleness_.slept);
  idleness_.since_ns = 0;
}

// By index: a session that is cut off leaves the lists.
bool Engine::PollRings() {
  bool progress = false;
  for (size_t i = 0; i < hot_tenants_.size(); ++i) progress |= PollRingsOf(*hot_tenants_[i]);
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
    if (!dealt_with) session.connection().Cut();
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
    // Before it is admitted: a part that no communicator has would never be retired, and a session
    // is kept for as long as it has parts.
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
    (*part)->member->communicator->Post(*part);
    if (!(*part)->stream->Arrive(*part)) continue;
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

// In turns, not by recursion: a stream may hold thousands of tiny operations.
bool Engine::RunReady() {
  if (ready_.empty()) return false;
  uint64_t until = 0;
  while (true) {
    ready_.TakeTurn([this](PostedOperation* part) {
      Communicator* const communicator = part->member->communicator;
      Guarded([&] { communicator->OnReady(part); },
              [&](const Status& exception) { GiveUpOn(*communicator, exception); });
    });
    if (ready_.empty()) return true;
    const uint64_t now = MonotonicNanoseconds();
    if (until == 0) until = now + kReadyNanoseconds;
    if (now >= until) return true;
  }
}

// A round of everything costs more than a small unit, and an operation may have many. But where
// tenants share, one that waits for what has ended does not wait for another one's units.
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
    GuardedAndLogged("the end of an execution", [&] { execution->on_finished(execution); });
    if (++collected % kFinishedPerClock != 0) continue;
    const uint64_t now = MonotonicNanoseconds();
    if (until == 0) until = now + kFinishedNanoseconds;
    if (now >= until) break;
  }
  return collected > 0;
}

bool Engine::RunNetwork() {
  if (cluster_ == nullptr) return false;
  bool progress = cluster_->Progress(!network_operations_.empty());
  for (const MatchedOperation* operation : network_operations_) {
    Guarded(
        [&] {
          progress |= operation->plan->port().DeliverFailures();
          progress |= operation->network->Feed();
        },
        [&](const Status& exception) { GiveUpOn(*operation->communicator, exception); });
  }
  // By index: what ends may begin and end others.
  for (size_t i = 0; i < network_operations_.size();) {
    MatchedOperation* const operation = network_operations_[i];
    if (!operation->network->done()) {
      ++i;
      continue;
    }
    network_operations_[i] = network_operations_.back();
    network_operations_.pop_back();
    --executing_;
    activity_.End(operation->job, MonotonicNanoseconds());
    Communicator* const communicator = operation->communicator;
    Guarded([&] { communicator->OnNetworkDone(operation); },
            [&](const Status& exception) { GiveUpOn(*communicator, exception); });
    progress = true;
  }
  return progress;
}

Status Engine::StartNetwork(MatchedOperation* operation, NetworkBinding binding) {
  binding.program = &operation->plan->program();
  binding.inputs = operation->inputs;
  binding.outputs = operation->outputs;
  binding.scalars = operation->scalars;
  binding.operation = operation->number;
  binding.tenant = operation->communicator->tenant().identity.across_hosts;
  binding.weight = static_cast<float>(operation->communicator->tenant().weight);
  const SliceCut& slice = operation->plan->slice();
  binding.slice_elements = std::max<uint64_t>(1, slice.bytes / DataTypeSize(binding.type));
  operation->network = operation->plan->Take();
  operation->started_ns = MonotonicNanoseconds();
  operation->job = operation->communicator->job();
  const bool shared = activity_.Start(operation->job, operation->started_ns);
  binding.slices_at_once = shared ? SlicesWhenShared(slice) : slice.at_once;
  const Status started = operation->network->Start(binding);
  if (!started.ok()) {
    activity_.End(operation->job, operation->started_ns);
    operation->plan->GiveBack(std::exchange(operation->network, nullptr));
    return started;
  }
  ++executing_;
  network_operations_.push_back(operation);
  return Status::Ok();
}

void Engine::OnMessage(transport::PeerId peer, const ClusterMessage& message) {
  Guarded(
      [&] {
        membership_.OnMessage(peer, message);
        probes_.OnMessage(peer, message);
        control_loop_.OnMessage(peer, message);
      },
      [&](const Status& exception) {
        LogException("a message of another daemon", exception);
        membership_.GiveUpOn(peer, message, exception);
      });
}

void Engine::OnPeerLost(transport::PeerId peer) {
  membership_.OnPeerLost(peer);
  probes_.OnPeerLost(peer);
  control_loop_.OnPeerLost(peer);
}

void Engine::Finish(PostedOperation* part, const Status& outcome) {
  Session& session = *part->member->session;
  if (!outcome.ok()) {
    part->member->slot->error.Set(outcome.message());
    part->stream->NoteFailure(outcome.code(), part->member->index);
  }
  EndSliceProgress(*part);
  if (part->stream->Finish(ReadyParts::ListOf(session.tenant()))) {
    unpublished_.push_back({part->stream, &session});
  }
  ready_.Note(session.tenant());
  session.Retire(part);
}

// Once a round, whatever was completed in it: first to all who look, for that is quick, then to
// those who sleep.
void Engine::PublishCompleted() {
  for (const Unpublished& one : unpublished_) one.queue->Publish();
  for (const Unpublished& one : unpublished_) {
    if (one.queue->WakeReached()) one.session->CountWake();
    one.session->PublishRetired();
  }
  unpublished_.clear();
}

// Who wakes the engine, and why none is missed: it first says that it sleeps (to the tenants, in
// their rings, and to the workers, in asleep_), then looks once more at all they may have left, and
// only then sleeps. Each of them first leaves its word and then looks whether the engine sleeps.
// All four are sequentially consistent, so at least one side sees the other.
//
// Whoever has been active of late is listened to again from the moment the engine is awake, so that
// only the first of several ranks that come at the same time has to ring.
void Engine::Sleep() {
  CoolDown();
  for (Session* session : hot_) session->SetConsumerWaiting(true);
  asleep_.store(true, std::memory_order_seq_cst);
  if (!AnythingToDo()) {
    ++sleeps_;
    loop_->Wait(SleepTimeout());
  }
  asleep_.store(false, std::memory_order_relaxed);
  for (Session* session : hot_) session->SetConsumerWaiting(false);
  TickIfDue();
}

// Sends home who has been quiet. They must ring from now on: hence the flag first, then the look.
void Engine::CoolDown() {
  const uint64_t now = MonotonicNanoseconds();
  std::erase_if(hot_, [this, now](Session* session) {
    if (now < session->active_ns + kCoolNanoseconds) return false;
    session->SetConsumerWaiting(true);
    session->hot = session->HasDescriptors();
    if (!session->hot) LetCool(*session);
    return !session->hot;
  });
  SetCrowded();
}

void Engine::SetCrowded() {
  int threads = 1;  // this one
  for (const Session* session : hot_) threads += session->ranks();
  const bool crowded = threads > static_cast<int>(calibration_.fingerprint.processors);
  for (Session* session : hot_) session->SetCrowded(crowded);
  crowded_ = crowded;
}

bool Engine::AnythingToDo() {
  return stopping_.load(std::memory_order_relaxed) || loop_->HasPosted() || !ready_.empty() ||
         CollectFinished() || (cluster_ != nullptr && !cluster_->Arm()) ||
         std::any_of(
             network_operations_.begin(), network_operations_.end(),
             [](const MatchedOperation* operation) { return operation->network->CanFeed(); }) ||
         std::any_of(hot_.begin(), hot_.end(),
                     [](Session* session) { return session->HasDescriptors(); });
}

int Engine::SleepTimeout() const {
  const bool at_rest =
      waiting_ == 0 && executing_ == 0 && dying_.empty() && !membership_.remembers_failures();
  if (at_rest && !control_loop_.busy()) return -1;
  const uint64_t now = MonotonicNanoseconds();
  if (now >= next_tick_ns_) return 0;
  return static_cast<int>((next_tick_ns_ - now) / 1'000'000) + 1;
}

void Engine::TickIfDue() {
  const uint64_t now = MonotonicNanoseconds();
  if (now < next_tick_ns_) return;
  // Often enough that a report is at most half as late again as the rank it is about.
  double interval = std::clamp(config_.late_after_seconds / 4, 0.005, 0.5);
  if (control_loop_.active()) interval = std::min(interval, LinkState::kIntervalSeconds);
  if (config_.plans.switch_every_ms > 0) {
    interval = std::min(interval, static_cast<double>(config_.plans.switch_every_ms) * 1e-3);
  }
  next_tick_ns_ = now + static_cast<uint64_t>(interval * 1e9);
  if (waiting_ > 0 || !network_operations_.empty() || membership_.remembers_failures()) {
    membership_.Tick(now);
  }
  if (!network_operations_.empty() || control_loop_.busy()) control_loop_.Tick(now);
}

void Engine::WakeFromWorker() {
  if (asleep_.load(std::memory_order_seq_cst) &&
      asleep_.exchange(false, std::memory_order_seq_cst)) {
    loop_->Wake();
  }
}

// ---------------------------------------------------------------------------------------------
// Sessions and regions

Tenant* Engine::TenantOf(const TenantIdentity& identity) {
  const auto found = tenants_.find(identity.number);
  if (found != tenants_.end()) return found->second.get();
  auto tenant = std::make_unique<Tenant>(identity, accounts_->Of(identity.number, identity.name));
  tenant->weight = WeightOf(identity.across_hosts, config_.shares);
  return tenants_.emplace(identity.number, std::move(tenant)).first->second.get();
}

Tenant* Engine::TenantAcrossHosts(uint32_t across_hosts) {
  return TenantOf({across_hosts, across_hosts, across_hosts, fmt::format("uid {}", across_hosts)});
}

Status Engine::AddSession(std::unique_ptr<Session> session) {
  Session* const added = session.get();
  // Nothing may throw between the bell's handler and the session's place.
  std::map<uint32_t, std::unique_ptr<Session>> entry;
  entry.emplace(added->id(), std::move(session));
  HZ_RETURN_IF_ERROR(loop_->WatchBell(added->doorbell(), [this, added] {
    added->AnswerSign();
    MakeHot(*added);
  }));
  sessions_.merge(entry);
  added->SetConsumerWaiting(true);
  Log(LogLevel::kDebug, kLogInit, "session {}: process {} ({}) of user {}", added->id(),
      added->process(), added->program(), added->tenant().name());
  return Status::Ok();
}

void Engine::MakeHot(Session& session) {
  if (session.hot) return;
  hot_.push_back(&session);
  std::vector<Session*>& of_tenant = session.tenant().hot.sessions;
  if (of_tenant.empty()) hot_tenants_.push_back(&session.tenant());
  of_tenant.push_back(&session);
  session.hot = true;
  session.active_ns = MonotonicNanoseconds();
  session.SetConsumerWaiting(false);
}

// Its tenant's rings are looked at without this one.
void Engine::LetCool(Session& session) {
  std::vector<Session*>& of_tenant = session.tenant().hot.sessions;
  std::erase(of_tenant, &session);
  if (of_tenant.empty()) std::erase(hot_tenants_, &session.tenant());
}

Session* Engine::FindSession(uint32_t id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

void Engine::LoseSession(uint32_t id, const std::string& why) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  // Its ranks are known to others: it must come to its place whatever throws.
  dying_.push_back(nullptr);
  dying_.back() = std::move(found->second);
  Session& session = *dying_.back();
  const LogFor log_for(session.tenant().identity);
  sessions_.erase(found);
  session.SetGone();
  loop_->Unwatch(session.doorbell());
  std::erase(hot_, &session);
  LetCool(session);
  TellLoss(session, why);
  Log(LogLevel::kDebug, kLogInit, "session {} of process {} ended", id, session.process());
}

void Engine::TellLoss(Session& session, const std::string& why) {
  membership_.LoseSession(session, why);
  session.loss_told = true;
}

void Engine::GiveUpOn(const Communicator& communicator, const Status& exception) {
  const LogFor log_for(communicator.tenant().identity);
  LogException("an operation", exception);
  for (int rank = 0; rank < communicator.ranks(); ++rank) {
    const Member* const member = communicator.member(rank);
    if (member != nullptr) CutOffSoon(member->session->id(), exception.message());
  }
}

void Engine::CutOff(Session& session, const std::string& why) {
  const LogFor log_for(session.tenant().identity);
  Log(LogLevel::kWarning, kLogInit, "session {} (process {}, {}) is cut off: {}", session.id(),
      session.process(), session.program(), why);
  session.SayGoodbye(fmt::format("it cut this process off: {}", why));
  session.connection().Cut();
  LoseSession(session.id(),
              fmt::format("(process {}) was cut off by the provider", session.process()));
}

Status Engine::WatchForLostMemory() {
  lost_memory_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!lost_memory_.valid()) return ErrnoError(errno, "cannot make an event");
  FaultGuard::TellLossesTo(lost_memory_.get());
  return loop_->Watch(lost_memory_.get(), [this] { LookForLostMemory(); });
}

// At once, because operations under way go on meanwhile and fill memory of the daemon's own.
void Engine::LookForLostMemory() {
  uint64_t losses = 0;
  if (read(lost_memory_.get(), &losses, sizeof losses) < 0) return;
  for (const auto& [id, session] : sessions_) {
    if (session->HasLostMemory()) CutOffSoon(id, kMemoryIsGone);
  }
}

void Engine::CutOffSoon(uint32_t session, std::string why) {
  Post([this, session, why = std::move(why)] {
    if (Session* found = FindSession(session)) CutOff(*found, why);
  });
}

void Engine::SweepSessions() {
  if (dying_.empty()) return;
  for (auto session = dying_.begin(); session != dying_.end();) {
    if (!(*session)->loss_told) {
      const LogFor log_for((*session)->tenant().identity);
      GuardedAndLogged("the end of a session", [&] { TellLoss(**session, "was lost"); });
    }
    if ((*session)->outstanding() > 0 || (*session)->ranks() > 0) {
      ++session;
      continue;
    }
    session = dying_.erase(session);
  }
}

Status Engine::RemoveRegion(Session& session, uint32_t id) {
  Region* region = session.FindRegion(id);
  if (region == nullptr) return InvalidArgument("region {} is not registered", id);
  // Its tenant's reception unmaps it.
  auto remove = [&session, id] { session.RemoveRegion(id); };
  if (region->idle()) {
    remove();
  } else {
    region->SetOnIdle(std::move(remove));
  }
  return Status::Ok();
}

}  // namespace harmonaize::daemon
