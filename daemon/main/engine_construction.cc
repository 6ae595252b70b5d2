#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "daemon/config/policy.h"
#include "daemon/host/worker_places.h"
#include "daemon/main/engine.h"
#include "daemon/provider_store/provider_store.h"
#include "daemon/sizing/host_places.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/topology/host/host.h"

// How an engine is put together: its parts, and what each is told of the others.
namespace harmonaize::daemon {
namespace {

/// Returns the store that the provider has; nullptr: none.
std::shared_ptr<const ProviderStore> ProviderStoreOf(const Config& config) {
  if (config.checkpoint.store.empty()) return nullptr;
  return std::make_shared<const ProviderStore>(ProviderStore::Settings{
      .folder = config.checkpoint.store,
      .keep = static_cast<uint32_t>(config.checkpoint.store_keep),
      .keep_seconds = config.checkpoint.store_keep_seconds,
      .most_bytes_per_second = static_cast<uint64_t>(config.checkpoint.store_bytes_per_second),
      .most_bytes_of_user = static_cast<uint64_t>(config.quota.stored_bytes)});
}

/// Part of the silence after which a daemon is lost, from which on the diagnosis calls it
/// unreachable: late enough for a daemon that is busy, and before everything fails.
constexpr double kSilentPart = 0.6;
/// The most of that silence, in seconds: people want to know within five.
constexpr double kMostSilentSeconds = 3;

}  // namespace

Engine::Engine(const Config& config, Calibration calibration, std::shared_ptr<Accounts> accounts)
    : config_(config),
      started_ns_(MonotonicNanoseconds()),
      tenants_(std::move(accounts), FindTenants(config_.shares, config_.tenants)),
      tuning_(std::move(calibration), MeansToTune()) {
  observers_.Add(&communicator_log_);
  observers_.Add(&communicator_counts_);
}

Result<std::unique_ptr<Engine>> Engine::Create(
    const Config& config, Calibration calibration, std::shared_ptr<Accounts> accounts,
    std::shared_ptr<transport::ListeningSockets> listening) {
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
  options.wake_up_nanoseconds =
      static_cast<uint64_t>(engine->tuning_.calibration().costs.wake_up_ns);
  options.wake_owner = [self = engine.get()] { self->WakeFromWorker(); };
  HZ_ASSIGN_OR_RETURN(engine->executor_, Executor::Create(std::move(options)));
  engine->control_loop_.emplace(ControlLoop::Services{
      .config = &engine->config_,
      .loop = engine->loop_.get(),
      .fabrics = &engine->fabrics_,
      .communicators = &engine->communicators_,
      .tick_by = [self = engine.get()](uint64_t at_ns) { self->TickBy(at_ns); }});
  if (!config.cluster.address.empty())
    HZ_RETURN_IF_ERROR(engine->JoinCluster(std::move(listening)));
  engine->OpenRooms();
  return engine;
}

// Makes the parts that refer to the others.
void Engine::OpenRooms() {
  diagnosis_.emplace(Diagnosis::Services{
      .late_after_ns = static_cast<uint64_t>(config_.late_after_seconds * 1e9),
      .silent_ns = static_cast<uint64_t>(
          std::min(config_.cluster.dead_after_seconds * kSilentPart, kMostSilentSeconds) * 1e9),
      .loop = loop_.get(),
      .communicators = &communicators_,
      .waiting = &waiting_,
      .cluster = cluster_.get()});
  observers_.Add(&*diagnosis_);
  const HostServices hosts{{.config = &config_,
                            .loop = loop_.get(),
                            .background = &background_,
                            .work = executor_.get(),
                            .sliced = &sliced_,
                            .tuning = &tuning_,
                            .finished = &finished_,
                            .sessions = this,
                            .waiting = &waiting_,
                            .observers = &observers_,
                            .explainer = &*diagnosis_},
                           cluster_.get(),
                           &fabrics_,
                           &network_operations_,
                           &*control_loop_,
                           nullptr,
                           [this](uint64_t at_ns) { TickBy(at_ns); }};
  membership_.emplace(MembershipServices{.hosts = hosts,
                                         .communicators = &communicators_,
                                         .jobs = &jobs_,
                                         .tenants = &tenants_,
                                         .sessions = &sessions_});
  observers_.Add(&membership_->communicator_observer());
  probes_.emplace(ProbeService::Services{.config = &config_,
                                         .loop = loop_.get(),
                                         .background = &background_,
                                         .cluster = cluster_.get()});
  nccl_tuning_.emplace(NcclTuning::Services{
      .config = &config_,
      .cluster = cluster_.get(),
      .fabrics = &fabrics_,
      .background = &background_,
      .loop = loop_.get(),
      .look_at_traffic = [this](uint64_t now_ns) { control_loop_->Tick(now_ns); }});
  control_loop_->Serve(
      {.homes = [this] { return nccl_tuning_->ActiveHomes(); },
       .on_rates = [this](const EdgeRates& rates,
                          uint64_t now_ns) { nccl_tuning_->OnRates(rates, now_ns); }});
  usage_.emplace(UsageLedger::Services{.tenants = &tenants_,
                                       .communicators = &communicators_,
                                       .background = &background_,
                                       .state_path = config_.state_path});
}

ReportSources Engine::report_sources() {
  return {.config = &config_,
          .started_ns = started_ns_,
          .sleeps = sleeps_,
          .sessions_cut_off = sessions_cut_off_,
          .executor = executor_.get(),
          .tuning = &tuning_,
          .tenants = &tenants_,
          .sessions = &sessions_,
          .communicators = &communicators_,
          .jobs = &jobs_,
          .forming = &membership_->forming(),
          .cluster = cluster_.get(),
          .control_loop = &*control_loop_,
          .counts = &communicator_counts_,
          .diagnosis = &*diagnosis_,
          .announcements = events_ == nullptr ? nullptr : &events_->announcements(),
          .drain = events_ == nullptr ? nullptr : &events_->drain(),
          .agents = agents_.has_value() ? &*agents_ : nullptr,
          .offers = offers_.has_value() ? &*offers_ : nullptr,
          .sizing = sizing_.has_value() ? &*sizing_ : nullptr,
          .profiles = &profiles_,
          .nccl_tuning = &*nccl_tuning_,
          .usage = &*usage_};
}

Status Engine::JoinCluster(std::shared_ptr<transport::ListeningSockets> listening) {
  HZ_ASSIGN_OR_RETURN(cluster_,
                      Cluster::Create(config_.cluster, this, loop_.get(), std::move(listening)));
  if (cluster_->fabric() != nullptr) fabrics_.SetOwn(cluster_->fabric());
  control_loop_->Begin(cluster_.get());
  HZ_RETURN_IF_ERROR(loop_->Watch(cluster_->fd(), [this] { cluster_->OnReadable(); }));
  if (cluster_->listens()) {
    Log(LogLevel::kInfo, kLogInit, "other daemons reach this one at {}{}", cluster_->address(),
        cluster_->host_name().empty() ? "" : " as " + cluster_->host_name());
  }
  return Status::Ok();
}

HostTuning::Means Engine::MeansToTune() {
  return {.folder = config_.state_path,
          .measure_again = config_.measure_again,
          .ask =
              [this](std::function<void(const Activity&)> answer) {
                loop_->Post([this, answer = std::move(answer)] { answer(ActivityNow()); });
              },
          .post = [this](std::function<void()> call) { loop_->Post(std::move(call)); },
          .write = [this](std::function<void()> call) { background_.Post(std::move(call)); },
          .on_use =
              [this](const Calibration& calibration) {
                executor_->SetWakeUp(static_cast<uint64_t>(calibration.costs.wake_up_ns));
              }};
}

void Engine::TellEventsTo(EventBus* bus, std::function<void()> restart) {
  events_ = std::make_unique<EventRooms>(EventRooms::Services{.bus = bus,
                                                              .state_path = config_.state_path,
                                                              .background = &background_,
                                                              .loop = loop_.get(),
                                                              .cluster = cluster_.get(),
                                                              .communicators = &communicators_,
                                                              .jobs = &jobs_,
                                                              .sessions = &sessions_,
                                                              .membership = &*membership_,
                                                              .waiting = &waiting_,
                                                              .observers = &observers_,
                                                              .diagnosis = &*diagnosis_,
                                                              .restart = std::move(restart)});
  PolicyConfig policy = FindPolicyTenants(config_.policy, config_.tenants);
  tenants_.SetPolicy(policy);
  requirements_.emplace(RequirementsBook::Services{
                            .loop = loop_.get(),
                            .background = &background_,
                            .communicators = &communicators_,
                            .by_job = &events_->job_communicators(),
                            .relay = &events_->relay(),
                            .jobs = &jobs_,
                            .host_means =
                                [this] {
                                  return HostMeans{
                                      .workers = std::min<int64_t>(config_.workers, kMaxWorkers),
                                      .most_floor = control_loop_->MostFloor()};
                                },
                            .floor_of =
                                [this](const Communicator& communicator) {
                                  return control_loop_->FloorOf(communicator);
                                },
                            .on_terms = [this](Job& job) { checkpoint_advisor_->OnTerms(job); }},
                        std::move(policy));
  observers_.Add(&*requirements_);
  advisor_.emplace(JobAdvisor::Services{.by_job = &events_->job_communicators(),
                                        .events = &events_->job_events()});
  observers_.Add(&*advisor_);
  BeginCheckpointAdvice();
  agents_.emplace(AgentServices{.cluster = cluster_.get(),
                                .attachments = &events_->attachments(),
                                .by_job = &events_->job_communicators(),
                                .relay = &events_->relay(),
                                .jobs = &jobs_,
                                .tickets = &membership_->ticket_home(),
                                .on_tied =
                                    [this](Job& job) {
                                      requirements_->OnTied(job);
                                      offers_->OnTied(job);
                                    }},
                  loop_.get(), [this](Job& job) { requirements_->Drop(job); });
  membership_->tickets().SetTies(
      {.job_of = [this](
                     uint64_t about,
                     transport::PeerId peer) { return events_->attachments().JobOf(about, peer); },
       .way_to = [this](const Job& job) -> std::optional<TicketClient::Way> {
         std::optional<TicketClient::Way> way;
         events_->attachments().VisitOf(job, [&](Job*, uint64_t agent, transport::PeerId peer) {
           way = TicketClient::Way{.about = agent, .peer = peer, .tenant = job.tenant};
         });
         return way;
       }});
  observers_.Add(&*agents_);
  offers_.emplace(Offers::Services{.events = &events_->job_events(),
                                   .relay = &events_->relay(),
                                   .agents = &*agents_,
                                   .by_job = &events_->job_communicators(),
                                   .jobs = &jobs_,
                                   .keeper = &events_->records(),
                                   .background = &background_,
                                   .loop = loop_.get(),
                                   .sessions = this,
                                   .set_rate = [this](Job& job, double bytes_per_second) {
                                     requirements_->SetRateCeiling(job, bytes_per_second);
                                   }});
  observers_.Add(&*offers_);
  events_->announcements().SetListener(
      [this](Job& job, const CloudNotice& notice, const std::vector<int32_t>& ranks) {
        offers_->OnAnnounced(job, notice, ranks);
      });
  offers_->Restore();
  checkpoints_.emplace(CheckpointKeeper::Services{.cluster = cluster_.get(),
                                                  .communicators = &communicators_,
                                                  .jobs = &jobs_,
                                                  .events = &events_->job_events(),
                                                  .sessions = this,
                                                  .tenants = &tenants_,
                                                  .loop = loop_.get(),
                                                  .store = ProviderStoreOf(config_),
                                                  .keep_seconds = config_.checkpoint.keep_seconds});
  observers_.Add(&*checkpoints_);
  BeginSizing();
}

void Engine::BeginCheckpointAdvice() {
  checkpoint_advisor_.emplace(CheckpointAdvisor::Services{.by_job = &events_->job_communicators(),
                                                          .events = &events_->job_events(),
                                                          .progress = &*advisor_,
                                                          .book = &events_->promises(),
                                                          .keeper = &events_->records(),
                                                          .tenants = &tenants_,
                                                          .cluster = cluster_.get(),
                                                          .loop = loop_.get()});
  checkpoint_advisor_->Restore();
  observers_.Add(&*checkpoint_advisor_);
  events_->job_events().SetListener([this](Job& job, const Event& event, bool began_here) {
    checkpoint_advisor_->OnEvent(job, event, began_here);
  });
}

void Engine::BeginSizing() {
  const auto processors = static_cast<int64_t>(ThisHost().processors.size());
  const int64_t places = config_.sizing.places;
  sizing_.emplace(
      Sizing::Services{.config = &config_.sizing,
                       .cluster = cluster_.get(),
                       .loop = loop_.get(),
                       .offers = &*offers_,
                       .sight = {.cluster = cluster_.get(),
                                 .communicators = &communicators_,
                                 .by_job = &events_->job_communicators(),
                                 .jobs = &jobs_,
                                 .advisor = &*advisor_,
                                 .agents = &*agents_,
                                 .offers = &*offers_,
                                 .places = places > 0 ? places : PlacesOfHost(processors)},
                       .most_of_tenant = [this](uint32_t user) {
                         return tenants_.policy().For(user).most_elastic_ranks;
                       }});
  sizing_->Begin();
}

}  // namespace harmonaize::daemon
