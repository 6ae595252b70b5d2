#include "daemon/offers/offers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/agents/agents.h"
#include "daemon/communicator/communicator.h"
#include "daemon/job_events/job_communicators.h"
#include "daemon/job_events/notice_events.h"
#include "daemon/jobs/job_table.h"
#include "daemon/offers/offer_policy.h"
#include "daemon/promises/promise.h"
#include "daemon/promises/record_keeper.h"
#include "daemon/runtime/background.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/guarded.h"
#include "daemon/tenant/rank_list.h"
#include "daemon/tenant/session_keeper.h"
#include "daemon/tenant/tenant.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

/// Answers of one tenant: some at once, and then as many as people and programs give. Each goes to
/// all hosts of the job and to the disk.
constexpr RateLimit kAnswersOfTenant{.per_second = 1, .burst = 64};

/// Time, in seconds, for which an offer outlives its job on this host. A job whose ranks begin anew
/// after a failure, or after a restart of the daemon, comes back within it.
constexpr double kJobStaysAwaySeconds = 60;

/// Time, in seconds, for which a job that has not answered an offer, or has not done what it
/// accepted, counts as one that does not want to be asked: its places were held for nothing.
constexpr double kLeftAloneSeconds = 600;

/// Time, in seconds, within which ranks have to leave for their places to count on: what is later
/// does not help who waits now.
constexpr double kSoonSeconds = 3600;

/// Returns the place of an offer that has ended in OfferCounts::ended.
size_t OutcomeOf(const Offer& offer) {
  const auto outcome =
      static_cast<size_t>(offer.state) - static_cast<size_t>(OfferState::kDeclined);
  return outcome + (offer.broken_by == OfferParty::kTenant ? 1 : 0);
}

/// Returns until when the daemon does not ask a job by itself after an offer that has ended; 0: it
/// may at once.
double QuietAfter(const Offer& offer) {
  const bool was_in_vain =
      offer.state == OfferState::kExpired ||
      (offer.state == OfferState::kBroken && offer.broken_by == OfferParty::kTenant);
  return std::max(offer.quiet_until_seconds,
                  was_in_vain ? offer.ended_seconds + kLeftAloneSeconds : 0);
}

/// Returns whether an offer and a new one of the other kind could both be about the same ranks.
bool AreAboutRanks(OfferKind a, OfferKind b) {
  return a != OfferKind::kSlowDown && b != OfferKind::kSlowDown;
}

}  // namespace

Offers::Offers(const Services& services)
    : services_(services),
      ranks_(services.by_job),
      book_(services.keeper),
      exchange_(services.relay,
                {.on_offer =
                     [this](Job&, const Offer& offer) {
                       if (book_.TakeCopy(offer) != nullptr) Watch();
                     },
                 .on_answer = [this](const std::string& id,
                                     const OfferAnswer& answer) { TakeAnswer(id, answer); },
                 .is_own = [this](const std::string& id) { return IsOwn(id); }}),
      answers_(kAnswersOfTenant),
      next_look_(services.loop) {}

void Offers::Restore() {
  book_.Restore();
  if (book_.has_live()) Watch();
}

// ---------------------------------------------------------------------------------------------
// The provider's part

Result<Offer> Offers::Make(Job& job, const OfferOrder& order) {
  const double now = UnixSeconds();
  HZ_RETURN_IF_ERROR(CheckOrder(job, order, now));
  HZ_RETURN_IF_ERROR(CheckMayAsk(job, order, now));
  Offer offer{.id = MakeOfferId(),
              .job = job.id,
              .job_name = job.name,
              .tenant = job.tenant->identity,
              .kind = order.kind,
              .terms = order.terms,
              .concession = order.concession,
              .most_rounds = order.most_rounds,
              .made_seconds = now,
              .deadline_seconds = order.deadline_seconds,
              .can_be_refused = order.can_be_refused,
              .is_enforced = order.is_enforced,
              .urgency = order.urgency,
              .purpose = order.purpose,
              .expected = order.expected,
              .notice = order.notice};
  offer.ranks_before = static_cast<int32_t>(services_.by_job->RanksHere(job).size());
  std::vector<uint32_t> sessions = ranks_.Name(job, &offer);
  HZ_ASSIGN_OR_RETURN(OfferBook::Entry* const entry, book_.AddOwn(offer));
  entry->sessions = std::move(sessions);
  Log(LogLevel::kInfo, kLogInit, "{} is offered to job '{}' of {}: {}", offer.id, job.label(),
      job.tenant->name(), OfferSentence(offer, offer.terms));
  TellOnceKept(std::nullopt, offer);
  AnswerInAdvanceFor(*entry);
  Watch();
  return entry->offer;
}

Status Offers::CheckOrder(const Job& job, const OfferOrder& order, double now_seconds) {
  HZ_RETURN_IF_ERROR(CheckTerms(order.kind, order.terms, now_seconds));
  if (order.deadline_seconds <= now_seconds ||
      order.deadline_seconds > now_seconds + kMostOfferSeconds) {
    return InvalidArgument("an offer is to be answered after now, and within {:.0f} days",
                           kMostOfferSeconds / 86400);
  }
  if (order.deadline_seconds > order.terms.due_seconds) {
    return InvalidArgument("the deadline for an answer, {}, is after the time that is due, {}",
                           MomentText(static_cast<int64_t>(order.deadline_seconds)),
                           MomentText(static_cast<int64_t>(order.terms.due_seconds)));
  }
  if (!IsHere(job)) {
    return InvalidUsage(
        "job '{}' has no ranks and no agent (harmonaize run --elastic) on this host: make the "
        "offer "
        "at a host where it has some",
        job.label());
  }
  if (!TakesRanks(order.kind) && (!order.can_be_refused || order.is_enforced)) {
    return InvalidArgument(
        "a {} can be refused, and nothing of it is enforced: that is for ranks that leave",
        NameOf(order.kind));
  }
  if (order.kind == OfferKind::kGrow) return CheckPlaces(job, order.terms);
  return CheckRanks(job, order.kind, order.terms, nullptr);
}

// Where the job has an agent it has said how many ranks it would start.
Status Offers::CheckPlaces(const Job& job, const OfferTerms& terms) const {
  const std::optional<int> places = services_.agents->own().PlacesOf(job);
  if (!places.has_value() || terms.ranks <= *places) return Status::Ok();
  return InvalidUsage("the agent of job '{}' on this host starts at most {} more ranks, not {}",
                      job.label(), *places, terms.ranks);
}

// Ranks that have left since the offer was made, which is `before`, are still part of it.
Status Offers::CheckRanks(const Job& job, OfferKind kind, const OfferTerms& terms,
                          const Offer* before) const {
  if (!TakesRanks(kind)) return Status::Ok();
  std::vector<int32_t> known = services_.by_job->RanksHere(job);
  const auto here = static_cast<int32_t>(known.size());
  if (terms.ranks > (before == nullptr ? here : std::max(here, before->ranks_before))) {
    return InvalidArgument("job '{}' has {} on this host, so {} cannot leave it", job.label(),
                           RankList(known), terms.ranks);
  }
  if (before != nullptr) {
    known.insert(known.end(), before->terms.which.begin(), before->terms.which.end());
  }
  for (const int32_t rank : terms.which) {
    if (std::find(known.begin(), known.end(), rank) == known.end()) {
      return InvalidArgument("rank {} of job '{}' is not on this host, which has {}", rank,
                             job.label(), RankList(services_.by_job->RanksHere(job)));
    }
  }
  return Status::Ok();
}

Status Offers::CheckOtherTerms(const Offer& offer, const OfferTerms& terms) const {
  const Job* const job = JobOf(offer);
  if (job == nullptr) return Status::Ok();
  if (offer.kind == OfferKind::kGrow) return CheckPlaces(*job, terms);
  return CheckRanks(*job, offer.kind, terms, &offer);
}

// Two offers about ranks of one job on one host could not tell whose ranks have come or left.
Status Offers::CheckMayAsk(const Job& job, const OfferOrder& order, double now_seconds) {
  const std::vector<const Offer*> others = book_.All([&](const Offer& one) {
    return one.job == job.id && one.tenant.number == job.tenant->identity.number && IsOwn(one.id);
  });
  for (const Offer* const other : others) {
    if (!other->has_ended() &&
        (other->kind == order.kind || AreAboutRanks(other->kind, order.kind))) {
      return InvalidUsage("job '{}' is asked already, by {} ({}); wait for its end, or withdraw it",
                          job.label(), other->id, NameOf(other->kind));
    }
    if (!order.insists && other->kind == order.kind && other->quiet_until_seconds > now_seconds) {
      return InvalidUsage(
          "job '{}' has declined {} and does not want to be asked for that again before {}; "
          "--insist asks nevertheless",
          job.label(), other->id, MomentText(static_cast<int64_t>(other->quiet_until_seconds)));
    }
  }
  return Status::Ok();
}

Result<Offer> Offers::Step(const std::string& which, const OfferStep& step) {
  HZ_ASSIGN_OR_RETURN(OfferBook::Entry* const entry, book_.FindNamed(nullptr, which));
  if (!entry->is_own) {
    return InvalidUsage("{} was made at another host of the job: change it there", entry->offer.id);
  }
  const double now = UnixSeconds();
  LookAt(*entry, now);
  HZ_ASSIGN_OR_RETURN(const Offer next, WithStep(entry->offer, step, now, RanksHere(entry->offer)));
  if (step.kind == OfferStep::Kind::kPropose) {
    HZ_RETURN_IF_ERROR(CheckOtherTerms(entry->offer, step.terms));
  }
  Change(*entry, next);
  if (step.kind == OfferStep::Kind::kPropose) AnswerInAdvanceFor(*entry);
  return entry->offer;
}

OfferBook::Entry* Offers::FindAnnounced(const Job& job, const std::string& notice) {
  OfferBook::Entry* found = nullptr;
  book_.ForEachLive([&](OfferBook::Entry& entry) {
    const bool is_of_job = entry.is_own && JobOf(entry.offer) == &job;
    if (is_of_job && entry.offer.notice == notice) found = &entry;
  });
  return found;
}

// Whoever takes the host away does so whatever the job answers, so the offer cannot be refused, and
// the daemon need not end what ends anyway.
void Offers::OnAnnounced(Job& job, const CloudNotice& notice, const std::vector<int32_t>& ranks) {
  const bool takes_ranks = notice.kind == CloudNotice::Kind::kReclaim ||
                           (notice.kind == CloudNotice::Kind::kMaintenance && !notice.survives);
  if (!takes_ranks || IsPlainDrain(notice)) return;
  OfferBook::Entry* const known = FindAnnounced(job, notice.id);
  if (notice.state == CloudNotice::State::kWithdrawn) {
    if (known != nullptr) {
      static_cast<void>(Step(known->offer.id, {.kind = OfferStep::Kind::kWithdraw}));
    }
    return;
  }
  if (notice.state != CloudNotice::State::kScheduled || !notice.not_before_seconds.has_value()) {
    return;
  }
  const auto due = static_cast<double>(*notice.not_before_seconds);
  const auto count = static_cast<int32_t>(ranks.size());
  const OfferTerms terms{.ranks = count, .due_seconds = due};
  if (known != nullptr) {
    static_cast<void>(
        Step(known->offer.id,
             {.kind = OfferStep::Kind::kPropose, .terms = terms, .deadline_seconds = due}));
    return;
  }
  const bool has_others = Described(&job).size > count;
  if (!job.terms->elastic().was_stated || !has_others || count > kMostOfferedRanks) return;
  const Result<Offer> made = Make(job, {.kind = OfferKind::kReclaim,
                                        .terms = terms,
                                        .deadline_seconds = due,
                                        .can_be_refused = false,
                                        .notice = notice.id});
  if (made.ok()) return;
  Log(LogLevel::kInfo, kLogInit, "job '{}' of {} is not asked for its ranks here: {}", job.label(),
      job.tenant->name(), made.status().message());
}

// ---------------------------------------------------------------------------------------------
// The tenant's part

void Offers::Answer(const TenantIdentity& tenant, const std::string& which,
                    const OfferAnswer& answer, OfferExchange::Answered answered) {
  if (const auto wait = answers_.Take(tenant.name, std::chrono::steady_clock::now())) {
    return answered(
        Status(Code::kInProgress, fmt::format("you answer too often; try again in {:.1f} s",
                                              std::chrono::duration<double>(*wait).count())));
  }
  const Result<OfferBook::Entry*> found = book_.FindNamed(&tenant.name, which);
  if (!found.ok()) return answered(found.status());
  OfferBook::Entry& entry = **found;
  if (entry.is_own) {
    AfterKept(tenant.number, [answered = std::move(answered), offer = AnswerOwn(entry, answer)] {
      answered(offer);
    });
    return;
  }
  // What has ended stays as it is, so the copy tells the whole truth.
  if (entry.offer.has_ended()) return answered(WithAnswer(entry.offer, answer, UnixSeconds(), 0));
  const Job* const job = JobOf(entry.offer);
  if (job == nullptr || !(services_.by_job->Has(job) || job->agents > 0)) {
    return answered(
        InvalidUsage("the job has no communicator and no agent on this host any more, so its "
                     "answer reaches nobody; answer "
                     "at a host where it runs"));
  }
  exchange_.Ask(*job, entry.offer.id, answer, std::move(answered));
  Watch();
}

Result<Offer> Offers::AnswerOwn(OfferBook::Entry& entry, const OfferAnswer& answer) {
  const double now = UnixSeconds();
  LookAt(entry, now);
  HZ_ASSIGN_OR_RETURN(const Offer next,
                      WithAnswer(entry.offer, answer, now, RanksHere(entry.offer)));
  if (next.revision == entry.offer.revision) return entry.offer;
  if (answer.kind == OfferAnswer::Kind::kCounter) {
    const bool waits = next.state == OfferState::kCountered;
    HZ_RETURN_IF_ERROR(CheckOtherTerms(entry.offer, waits ? next.counter : next.terms));
  }
  Change(entry, next);
  return entry.offer;
}

// The answer has come from another host of the job. It is kept before anybody hears what has become
// of it, as one that is given here.
void Offers::TakeAnswer(const std::string& id, const OfferAnswer& answer) {
  OfferBook::Entry* const entry = book_.Find(id);
  const Result<Offer> next = AnswerOwn(*entry, answer);
  AfterKept(entry->offer.tenant.number, [this, id, unique = answer.unique, status = next.status()] {
    const OfferBook::Entry* const answered = book_.Find(id);
    const Job* const job = answered == nullptr ? nullptr : JobOf(answered->offer);
    if (job != nullptr) exchange_.Reply(*job, answered->offer, unique, status);
  });
}

void Offers::AnswerInAdvanceFor(OfferBook::Entry& entry) {
  const Job* const job = JobOf(entry.offer);
  const int32_t size = job == nullptr ? 0 : services_.agents->own().RanksOf(*job);
  // A counter-proposal that was made so is looked at again, too: the job's size was another one
  // then.
  const bool is_open = entry.offer.state == OfferState::kOffered ||
                       (entry.offer.state == OfferState::kCountered &&
                        entry.offer.last_answer == entry.answer_in_advance);
  // A host with an agent alone learns in a moment how large the job is.
  if (job == nullptr || size == 0 || !is_open) return;
  entry.looked_at_terms = job->terms;
  entry.looked_at_size = size;
  const std::optional<OfferAnswer> answer =
      AnswerInAdvance(entry.offer, job->terms->elastic(), size, UnixSeconds());
  if (!answer.has_value()) return;
  const bool is_same = entry.offer.state == OfferState::kCountered &&
                       answer->kind == OfferAnswer::Kind::kCounter &&
                       Merged(entry.offer.terms, answer->counter) == entry.offer.counter;
  if (is_same) return;
  entry.answer_in_advance = answer->unique;
  const Result<Offer> next = AnswerOwn(entry, *answer);
  if (next.ok()) return;
  Log(LogLevel::kInfo, kLogInit, "{} is not answered in advance: {}", entry.offer.id,
      next.status().message());
}

// ---------------------------------------------------------------------------------------------
// Telling

void Offers::Change(OfferBook::Entry& entry, Offer next) {
  const Offer before = entry.offer;
  const Job* const job = JobOf(next);
  const bool names_others = next.terms.which != before.terms.which || next.terms.which.empty();
  if (job != nullptr && !next.has_ended() && names_others) {
    entry.sessions = ranks_.Name(*job, &next);
  }
  book_.Change(entry, next);
  if (next.has_ended()) ++ended_[static_cast<size_t>(next.kind)][OutcomeOf(next)];
  Log(LogLevel::kInfo, kLogInit, "{} to job '{}' of {} is {}{}{}", next.id,
      next.job_name.empty() ? next.job.text() : next.job_name, next.tenant.name, NameOf(next.state),
      next.reason.empty() ? "" : ": ", next.reason);
  SetRateOf(next);
  TellOnceKept(before, next);
}

// A job that begins anew, as after a restart of the daemon, is told again (LookAt).
void Offers::SetRateOf(const Offer& offer) const {
  Job* const job = JobOf(offer);
  if (offer.kind != OfferKind::kSlowDown || job == nullptr) return;
  if (offer.state == OfferState::kAccepted) {
    services_.set_rate(*job, offer.terms.bytes_per_second);
  } else if (offer.has_ended()) {
    services_.set_rate(*job, 0);
  }
}

// The background's calls of one tenant run in order, so what is told is, too.
void Offers::TellOnceKept(std::optional<Offer> before, const Offer& after) {
  AfterKept(after.tenant.number,
            [this, before = std::move(before), after] { Tell(before, after); });
}

void Offers::AfterKept(uint32_t tenant, std::function<void()> call) {
  auto guarded = lifetime_.Guard(std::move(call));
  services_.background->Post(
      [flush = services_.keeper->Flusher(), loop = services_.loop, guarded = std::move(guarded)] {
        flush();
        loop->Post(guarded);
      },
      tenant);
}

void Offers::Tell(const std::optional<Offer>& before, const Offer& after) {
  Job* const job = JobOf(after);
  if (job == nullptr) return;
  for (JobEvents::News& news :
       NewsOf(before.has_value() ? &*before : nullptr, after, Described(job))) {
    services_.events->Tell(*job, std::move(news));
  }
  TellCopies(*job, after);
}

void Offers::TellCopies(const Job& job, const Offer& offer) {
  if (exchange_.Tell(job, offer)) {
    owed_.erase(offer.id);
  } else {
    owed_.insert(offer.id);
  }
}

void Offers::OnMessage(transport::PeerId peer, const ClusterMessage& message) {
  exchange_.OnMessage(peer, message);
}

void Offers::OnFormed(const Communicator& communicator, int hosts) {
  if (hosts > 1) OnTied(*communicator.job());
}

void Offers::OnTied(const Job& job) {
  book_.ForEachLive([&](OfferBook::Entry& entry) {
    if (entry.is_own && entry.offer.job == job.id && JobOf(entry.offer) == &job) {
      owed_.insert(entry.offer.id);
    }
  });
}

// ---------------------------------------------------------------------------------------------
// Watching

void Offers::Watch() {
  const Status watched = next_look_.Start(kLookEvery, [this] { Look(); });
  if (!watched.ok()) {
    Log(LogLevel::kError, kLogInit, "offers are not looked after: {}", watched.message());
  }
}

void Offers::Look() {
  const double now = UnixSeconds();
  book_.ForEachLive([&](OfferBook::Entry& entry) {
    if (entry.is_own) GuardedAndLogged("an offer", [&] { LookAt(entry, now); });
  });
  for (const std::string& id : std::exchange(owed_, {})) {
    OfferBook::Entry* const entry = book_.Find(id);
    const Job* const job = entry == nullptr ? nullptr : JobOf(entry->offer);
    if (job != nullptr) TellCopies(*job, entry->offer);
  }
  exchange_.GiveUpOld(now);
  book_.ForgetOldCopies(now);
  if (!book_.has_live() && !exchange_.is_waiting() && owed_.empty()) next_look_.Stop();
}

void Offers::LookAt(OfferBook::Entry& entry, double now_seconds) {
  if (entry.offer.has_ended()) return;
  if (HasGone(entry.offer, now_seconds)) {
    return Change(entry, AfterJob(entry.offer, now_seconds));
  }
  const Job* const job = JobOf(entry.offer);
  if (job == nullptr || !IsHere(*job)) return;
  SetRateOf(entry.offer);
  const int32_t here = RanksHere(entry.offer);
  const Offer next = AsOf(entry.offer, now_seconds, here);
  if (next.revision != entry.offer.revision) return Change(entry, next);
  Renumber(entry, *job);
  // A host that has come to the job learns later what that has said, and how large it is.
  const bool says_else = entry.looked_at_terms != job->terms ||
                         entry.looked_at_size != services_.agents->own().RanksOf(*job);
  if (says_else) AnswerInAdvanceFor(entry);
  if (!IsToBeEnforced(entry.offer, now_seconds, here)) return;
  Enforce(entry);
  Change(entry, AfterForce(entry.offer, now_seconds));
}

// The job may have shrunk or grown since ranks were named. After a restart of the daemon the ranks
// have other sessions: they are those with the same numbers where the job has its size again.
void Offers::Renumber(OfferBook::Entry& entry, const Job& job) {
  if (!entry.offer.takes_ranks() || !services_.by_job->HasRanksHere(&job)) return;
  const Offer before = entry.offer;
  if (entry.sessions.empty()) {
    const Communicator& largest = *services_.by_job->Largest(job);
    Offer again = entry.offer;
    const bool is_same = largest.ranks() == again.of_ranks && largest.name() == again.communicator;
    if (!is_same) again.terms.which.clear();
    entry.sessions = ranks_.Name(job, &again);
    if (is_same || entry.sessions.empty()) return;
    ++again.revision;
    book_.Change(entry, again);
    return TellOnceKept(before, again);
  }
  Offer next = ranks_.Renumbered(job, entry.offer, entry.sessions);
  if (next == entry.offer) return;
  ++next.revision;
  // Numbers of a counter-proposal are those of ranks before; some of as many are named instead.
  next.counter.which.clear();
  book_.Change(entry, next);
  TellOnceKept(before, next);
}

// Returns whether the job has been away for long enough that it does not come back.
bool Offers::HasGone(const Offer& offer, double now_seconds) {
  const Job* const job = JobOf(offer);
  if (job != nullptr && IsHere(*job)) {
    gone_since_.erase(offer.id);
    return false;
  }
  const double since = gone_since_.emplace(offer.id, now_seconds).first->second;
  if (now_seconds - since < kJobStaysAwaySeconds) return false;
  gone_since_.erase(offer.id);
  return true;
}

// A process is ended whole: where it has several ranks, all of them go.
void Offers::Enforce(const OfferBook::Entry& entry) {
  const Job& job = *JobOf(entry.offer);
  int32_t too_many = RanksHere(entry.offer) - entry.offer.RanksAfter();
  std::vector<int32_t> here = services_.by_job->RanksHere(job);
  std::reverse(here.begin(), here.end());
  const Communicator* const largest = services_.by_job->Largest(job);
  std::map<uint32_t, int32_t> ranks_of;  // by session
  std::vector<uint32_t> order = entry.sessions;
  for (const int32_t rank : here) {
    const Member* const member = largest->member(rank);
    if (member == nullptr) continue;
    ++ranks_of[member->session->id()];
    order.push_back(member->session->id());
  }
  for (const uint32_t session : order) {
    const auto found = ranks_of.find(session);
    if (too_many <= 0) break;
    if (found == ranks_of.end()) continue;
    too_many -= found->second;
    ranks_of.erase(found);
    services_.sessions->CutOffSoon(
        session, fmt::format("was to leave by {} ({})",
                             MomentText(static_cast<int64_t>(entry.offer.terms.due_seconds)),
                             entry.offer.id));
  }
}

// ---------------------------------------------------------------------------------------------
// Looking up

// Numbers of containers differ after a restart, so a tenant is who has the name.
Job* Offers::JobOf(const Offer& offer) const {
  Job* const job = services_.jobs->FindById(offer.job, offer.tenant.number);
  return job != nullptr && job->tenant->identity.name == offer.tenant.name ? job : nullptr;
}

bool Offers::IsHere(const Job& job) const {
  return services_.by_job->HasRanksHere(&job) || job.agents > 0;
}

int32_t Offers::RanksHere(const Offer& offer) const {
  const Job* const job = JobOf(offer);
  return job == nullptr ? 0 : static_cast<int32_t>(services_.by_job->RanksHere(*job).size());
}

OfferedJob Offers::Described(const Job* job) const {
  if (job == nullptr) return {};
  return {.ranks_here = services_.by_job->RanksHere(*job),
          .size = services_.agents->own().RanksOf(*job)};
}

std::vector<Offer> Offers::All(const TenantIdentity* tenant) const {
  std::vector<Offer> offers;
  for (const Offer* const offer : book_.All([tenant](const Offer& one) {
         return tenant == nullptr || one.tenant.name == tenant->name;
       })) {
    offers.push_back(*offer);
  }
  return offers;
}

Result<Offer> Offers::Find(const TenantIdentity* tenant, const std::string& which) {
  HZ_ASSIGN_OR_RETURN(const OfferBook::Entry* const entry,
                      book_.FindNamed(tenant == nullptr ? nullptr : &tenant->name, which));
  return entry->offer;
}

std::vector<pid_t> Offers::ProcessesToLeave(const Job& job, double within_seconds) {
  std::vector<pid_t> processes;
  const double until = UnixSeconds() + within_seconds;
  book_.ForEachLive([&](OfferBook::Entry& entry) {
    const Offer& offer = entry.offer;
    const bool is_due = offer.takes_ranks() && offer.state == OfferState::kAccepted &&
                        offer.terms.due_seconds < until;
    if (!entry.is_own || !is_due || JobOf(offer) != &job) return;
    for (const uint32_t id : entry.sessions) {
      const Session* const session = services_.sessions->FindSession(id);
      if (session != nullptr) processes.push_back(session->process());
    }
  });
  return processes;
}

std::map<const Job*, OfferStanding> Offers::Standings() const {
  const double now = UnixSeconds();
  std::map<const Job*, OfferStanding> standings;
  book_.VisitOwn([&](const Offer& offer) {
    const Job* const job = JobOf(offer);
    if (job == nullptr || offer.kind == OfferKind::kSlowDown) return;
    OfferStanding& standing = standings[job];
    if (offer.has_ended()) {
      standing.quiet_until_seconds = std::max(standing.quiet_until_seconds, QuietAfter(offer));
      return;
    }
    standing.is_asked = true;
    const int32_t to_come = offer.RanksAfter() - RanksHere(offer);
    if (to_come > 0) standing.promised_places += to_come;
    if (offer.terms.due_seconds < now + kSoonSeconds)
      standing.leaving_ranks -= std::min(0, to_come);
  });
  return standings;
}

OfferCounts Offers::Counts() const {
  OfferCounts counts{.ended = ended_};
  book_.VisitOwn([&](const Offer& offer) {
    if (offer.has_ended()) return;
    ++counts.open[static_cast<size_t>(offer.kind)][static_cast<size_t>(offer.state)];
  });
  return counts;
}

bool Offers::IsOwn(const std::string& id) {
  const OfferBook::Entry* const entry = book_.Find(id);
  return entry != nullptr && entry->is_own;
}

}  // namespace harmonaize::daemon
