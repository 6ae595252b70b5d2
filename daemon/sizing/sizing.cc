#include "daemon/sizing/sizing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/this_daemon.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"
#include "daemon/tenant/rank_list.h"
#include "daemon/tenant/tenant.h"
#include "src/base/clean_text.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

/// What a host has told counts for so many looks: one that is lost on the way does no harm.
constexpr double kCountsForLooks = 3.5;
/// Most offers of a host that are under way when this makes another one, of all tenants and of one.
/// Operators and clouds find room for theirs.
constexpr size_t kMostOpen = OfferBook::kMostOpen - 16;
constexpr size_t kMostOpenOfTenant = 16;
/// Longest time, in seconds, for which a look is awaited. What was lost with an exception is not.
constexpr double kAwaitsSeconds = 600;
/// Decisions that are remembered for people.
constexpr size_t kMostDecisions = 64;

/// Returns by how many ranks an offer may be taken in part: the job's own step.
int32_t LeastOf(const ElasticJob& job, const ElasticOffer& offer) {
  return std::clamp(job.bounds.step, 1, offer.ranks);
}

/// Numbers waiting jobs in their order.
std::vector<WaitingJob> Numbered(const std::vector<NewcomerJob>& waiting) {
  std::vector<WaitingJob> numbered;
  for (const NewcomerJob& job : waiting) {
    numbered.push_back({.id = numbered.size(), .ranks = job.ranks, .priority = job.priority});
  }
  return numbered;
}

}  // namespace

Sizing::Sizing(const Services& services)
    : services_(services),
      sight_(services.sight),
      book_(kCountsForLooks * services.config->look_every_seconds),
      began_seconds_(UnixSeconds()),
      began_ns_(MonotonicNanoseconds()),
      next_look_(services.loop),
      policy_(std::make_shared<ElasticPolicy>(ElasticPace{
          .settle_seconds = services.config->settle_seconds,
          .shows_after_seconds = kCountsForLooks * services.config->look_every_seconds})) {}

void Sizing::Begin() {
  counts_.enabled = services_.config->enabled;
  if (!counts_.enabled) return;
  const auto every = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(services_.config->look_every_seconds));
  const Status started = next_look_.Start(every, [this] { Look(); });
  if (!started.ok()) {
    Log(LogLevel::kError, kLogInit, "sizes of elastic jobs do not follow the load: {}",
        started.message());
    return;
  }
  Log(LogLevel::kInfo, kLogInit,
      "sizes of elastic jobs follow the load: this host has {} places, and {} decides",
      services_.sight.places,
      decides() ? "this daemon" : "the controller at " + services_.cluster->controller());
}

bool Sizing::decides() const {
  return services_.cluster == nullptr ||
         services_.cluster->controller() == services_.cluster->address();
}

/// Returns the time, in seconds since 1970, by a clock that nobody sets.
double Sizing::Now() const {
  return began_seconds_ + static_cast<double>(MonotonicNanoseconds() - began_ns_) * 1e-9;
}

void Sizing::Look() {
  GuardedAndLogged("a look at elastic jobs", [&] {
    const double now = Now();
    HostSizesMessage sizes = sight_.Look(now);
    counts_.places = sizes.places;
    counts_.free = sizes.free;
    counts_.coming = sizes.coming;
    if (!decides()) return TellController(std::move(sizes));
    book_.Take(kThisDaemon, std::move(sizes), now);
    Decide();
  });
}

// ---------------------------------------------------------------------------------------------
// Telling

void Sizing::TellController(HostSizesMessage sizes) {
  if (!controller_.has_value()) return Reach();
  services_.cluster->Send(*controller_, std::move(sizes));
}

void Sizing::Reach() {
  if (is_reaching_) return;
  is_reaching_ = true;
  services_.cluster->Reach(services_.cluster->controller(),
                           lifetime_.Guard([this](const Result<transport::PeerId>& peer) {
                             is_reaching_ = false;
                             // What went wrong is in the log; the next look tries again.
                             if (peer.ok()) controller_ = *peer;
                           }));
}

void Sizing::OnPeerLost(transport::PeerId peer) {
  if (controller_ == peer) controller_.reset();
  book_.Forget(peer);
}

void Sizing::OnMessage(transport::PeerId peer, const ClusterMessage& message) {
  if (!services_.config->enabled) return;
  if (const auto* const sizes = message.As<HostSizesMessage>()) {
    if (decides()) book_.Take(peer, *sizes, Now());
  } else if (const auto* const offer = message.As<SizeOfferMessage>()) {
    if (controller_ == peer) MakeOffer(*offer);
  }
}

// ---------------------------------------------------------------------------------------------
// Deciding

Status Sizing::SetWaiting(std::vector<NewcomerJob> waiting, double for_seconds) {
  if (!services_.config->enabled) {
    return InvalidUsage(
        "sizes do not follow the load here: set 'elastic.enabled' in the configuration");
  }
  if (!decides()) {
    return InvalidUsage("the controller at {} decides: tell its daemon which jobs wait",
                        services_.cluster->controller());
  }
  waiting_ = std::move(waiting);
  waiting_until_seconds_ = Now() + for_seconds;
  return Status::Ok();
}

// The policy takes up to 100 ms at a thousand hosts, for which no operation may wait, and no plan.
void Sizing::Decide() {
  const double now = Now();
  if (now < deciding_until_seconds_) return;
  if (now > waiting_until_seconds_) waiting_.clear();
  const auto look = std::make_shared<const SizingLook>(
      book_.Look(now, Numbered(waiting_), services_.most_of_tenant));
  look_ = look;
  if (look->jobs.empty()) return;
  if (thread_ == nullptr) thread_ = std::make_unique<Background>();
  deciding_until_seconds_ = now + kAwaitsSeconds;
  auto decided = lifetime_.Guard([this, look](const std::vector<ElasticOffer>& offers) {
    deciding_until_seconds_ = 0;
    GuardedAndLogged("offers to elastic jobs", [&] { OnDecided(*look, offers); });
  });
  thread_->Post([policy = policy_, look, loop = services_.loop, decided = std::move(decided)] {
    std::vector<ElasticOffer> offers;
    GuardedAndLogged("the policy of elastic jobs", [&] { offers = policy->Decide(look->world); });
    loop->Post([decided, offers = std::move(offers)] { decided(offers); });
  });
}

void Sizing::OnDecided(const SizingLook& look, const std::vector<ElasticOffer>& offers) {
  std::map<uint64_t, size_t> places;
  for (size_t i = 0; i < look.jobs.size(); ++i) places.emplace(look.world.jobs[i].id, i);
  for (const ElasticOffer& offer : offers) {
    const auto found = places.find(offer.job);
    if (found == places.end()) continue;
    const ElasticJob& job = look.world.jobs[found->second];
    Ask(look.hosts[offer.host], look.jobs[found->second], offer, LeastOf(job, offer));
  }
}

void Sizing::Ask(const SizingLook::Host& host, const SizedJob& job, const ElasticOffer& offer,
                 int32_t least) {
  const SizingConfig& config = *services_.config;
  const double due =
      config.answer_within_seconds +
      (offer.grows ? config.notice_seconds : std::max(config.notice_seconds, job.notice_seconds));
  SizeOfferMessage message{
      .job = EncodeJob(job.id),
      .user = job.user,
      .group = job.group,
      .grows = offer.grows,
      .ranks = std::min(offer.ranks, kMostOfferedRanks),
      .least = std::min(least, kMostOfferedRanks),
      .answer_seconds = config.answer_within_seconds,
      .due_seconds = due,
      .latest_due_seconds = due + config.notice_seconds,
      .why = offer.why,
      .expected_step_seconds = job.knows_speed ? offer.expected_step_seconds : 0,
      .confidence = job.knows_speed ? offer.confidence : 0,
      .is_urgent = IsUrgent(offer.reason)};
  if (!IsSound(message)) return;
  Log(LogLevel::kInfo, kLogInit, "job '{}' of {} is to {} {} at {}: {}", job.label, job.tenant,
      offer.grows ? "be offered" : "be asked for", CountedRanks(message.ranks), host.name,
      offer.why);
  decisions_.push_front({.at_seconds = Now(),
                         .job = job.label,
                         .tenant = job.tenant,
                         .host = host.name,
                         .grows = offer.grows,
                         .ranks = message.ranks,
                         .why = offer.why,
                         .expected_step_seconds = message.expected_step_seconds,
                         .confidence = message.confidence});
  if (decisions_.size() > kMostDecisions) decisions_.pop_back();
  ++(offer.grows ? counts_.grows : counts_.reclaims);
  if (host.peer == kThisDaemon) return MakeOffer(message);
  services_.cluster->Send(host.peer, message);
}

// The controller knows what this host has told a while ago. It may have offered the same places
// twice since.
int32_t Sizing::RanksToOffer(const Job& job, const SizeOfferMessage& message) const {
  const std::map<const Job*, OfferStanding> standings = services_.offers->Standings();
  size_t open = 0;
  size_t of_tenant = 0;
  for (const auto& [other, standing] : standings) {
    open += standing.is_asked;
    of_tenant += standing.is_asked && other->tenant == job.tenant;
  }
  if (open >= kMostOpen || of_tenant >= kMostOpenOfTenant) return 0;
  if (!message.grows) return message.ranks;
  const int32_t fitting = std::min(message.ranks, sight_.FreePlaces(standings));
  return fitting - fitting % message.least;
}

void Sizing::MakeOffer(const SizeOfferMessage& message) {
  Job* const job = sight_.Find(message);
  if (job == nullptr) return;  // it has gone meanwhile
  const int32_t ranks = RanksToOffer(*job, message);
  if (ranks == 0) return;  // the next look finds what can be
  const LogFor log_for(job->tenant->identity);
  const double now = UnixSeconds();
  OfferOrder order{
      .kind = message.grows ? OfferKind::kGrow : OfferKind::kReclaim,
      .terms = {.ranks = ranks, .due_seconds = std::ceil(now + message.due_seconds)},
      .deadline_seconds = std::ceil(now + message.answer_seconds),
      .concession = {.least_ranks = message.least,
                     .latest_due_seconds = std::ceil(now + message.latest_due_seconds)},
      .urgency = message.is_urgent ? OfferUrgency::kHigh : OfferUrgency::kLow,
      .purpose = CleanText(message.why, kMostOfferTextBytes),
      .expected = {.step_seconds = std::min(message.expected_step_seconds, kMostForecastSeconds),
                   .confidence = message.confidence}};
  const Result<Offer> made = services_.offers->Make(*job, order);
  if (made.ok()) return;
  Log(LogLevel::kInfo, kLogInit, "job '{}' of {} is not made the offer that was decided on: {}",
      job->label(), job->tenant->name(), made.status().message());
}

SizingReport Sizing::Report() const {
  const bool enabled = services_.config->enabled;
  return {.enabled = enabled,
          .decides = enabled && decides(),
          .controller = services_.cluster == nullptr ? "" : services_.cluster->controller(),
          .look = look_,
          .waiting = waiting_,
          .decisions = {decisions_.begin(), decisions_.end()}};
}

}  // namespace harmonaize::daemon
