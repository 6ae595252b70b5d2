#include "daemon/requirements/requirements_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/job_events/job_communicators.h"
#include "daemon/jobs/job_table.h"
#include "daemon/runtime/background.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/measure.h"

namespace harmonaize::daemon {
namespace {

/// A minute's worth of changes may be made at once, and as many in each minute after that.
constexpr RateLimit kMinutes{.per_second = 1.0 / 60, .burst = 1};
/// How many jobs of one tenant may change as often as one job may.
constexpr double kJobsThatChange = 8;
/// Time, in nanoseconds, after which the engine serves others again while communicators are told of
/// other terms, or jobs are granted anew by another policy. One of them may take longer: some
/// tenths of a millisecond, with as many overrides as there may be.
constexpr uint64_t kTurnNanoseconds = 300'000;
/// Time after which statements are sent again to a daemon that did not take them.
constexpr std::chrono::seconds kSendAgainAfter{1};
/// Most communicators of a job whose floors a grant looks at: the engine serves nobody else
/// meanwhile.
constexpr size_t kFloorsLookedAt = 64;
/// Memory that a job's requirements take, for each byte of their text: trees of small nodes.
constexpr int64_t kMemoryOfTextByte = 8;

bool SaysAnyFloor(const Requirements& granted) {
  return granted.values.contains("collectives.bandwidth_floor") ||
         std::any_of(granted.overrides.begin(), granted.overrides.end(),
                     [](const RequirementTable& one) { return one.contains("bandwidth_floor"); });
}

/// Adds what was asked of the name and the kind of a job, if it has begun with others.
void AddKeptNames(const Job& job, const Requirements& stated, std::vector<Shortfall>* shortfalls) {
  const std::pair<const char*, std::string> has[] = {{"job.name", job.name},
                                                     {"job.kind", JobKindName(job.kind)}};
  for (const auto& [key, kept] : has) {
    const auto asked = stated.values.find(key);
    if (asked == stated.values.end()) continue;
    const auto& text = std::get<std::string>(asked->second);
    if (text == kept) continue;
    shortfalls->push_back({key, fmt::format("\"{}\"", text),
                           kept.empty() ? "" : fmt::format("\"{}\"", kept),
                           "a job keeps what its first process has said of this"});
  }
}

}  // namespace

/// What a message of another daemon says.
struct RequirementsBook::Parsed {
  std::deque<uint64_t> abouts;
  Statements statements;
};

RequirementsBook::RequirementsBook(Services services, PolicyConfig policy)
    : services_(std::move(services)),
      policy_(std::make_shared<const PolicyConfig>(std::move(policy))),
      changes_(kMinutes),
      inbox_(services_.background),
      retry_(services_.loop) {}

// ---------------------------------------------------------------------------------------------
// What tenants say

Status RequirementsBook::State(Job& job, const Requirements& statement) {
  HZ_RETURN_IF_ERROR(CheckHere(job));
  const Entry* const known = Find(job);
  if (Says(known == nullptr ? Requirements{} : *known->stated, statement)) return Status::Ok();
  HZ_RETURN_IF_ERROR(CheckPace(job));
  Statements statements = known == nullptr ? Statements() : known->statements;
  statements.Take(statement, statements.Next());
  HZ_RETURN_IF_ERROR(Take(job, std::move(statements)));
  Spread(job, {});
  return Status::Ok();
}

Status RequirementsBook::Forget(Job& job) {
  HZ_RETURN_IF_ERROR(CheckHere(job));
  const Entry* const known = Find(job);
  if (known == nullptr || *known->stated == Requirements{}) return Status::Ok();
  HZ_RETURN_IF_ERROR(CheckPace(job));
  Statements statements = known->statements;
  statements.Forget(statements.Next());
  HZ_RETURN_IF_ERROR(Take(job, std::move(statements)));
  Spread(job, {});
  return Status::Ok();
}

// Returns nullptr if nothing was said of the job and nothing is granted by default.
const RequirementsBook::Entry* RequirementsBook::Find(const Job& job) const {
  const auto found = entries_.find(&job);
  return found == entries_.end() ? nullptr : &found->second;
}

RequirementsView RequirementsBook::View(const Job& job) const {
  const Entry none;
  const Entry* const found = Find(job);
  const Entry& entry = found == nullptr ? none : *found;
  std::vector<Shortfall> more = RefusedFloors(job, entry.grant->granted);
  AddKeptNames(job, *entry.stated, &more);
  return {.job = job.id.text(),
          .name = job.name,
          .changes = entry.changes,
          .stated = entry.stated,
          .grant = entry.grant,
          .more_shortfalls = std::move(more)};
}

std::vector<Shortfall> RequirementsBook::RefusedFloors(const Job& job,
                                                       const Requirements& granted) const {
  std::vector<Shortfall> refused;
  if (!services_.floor_of || !SaysAnyFloor(granted)) return refused;
  std::vector<uint64_t> ids = services_.by_job->IdsOf(job);
  if (ids.size() > kFloorsLookedAt) ids.resize(kFloorsLookedAt);
  for (const uint64_t id : ids) {
    const Communicator* const communicator = services_.communicators->FindById(id);
    if (communicator == nullptr) continue;
    const double floor = job.terms->SharingOf(communicator->name()).floor_bytes_per_second;
    const Status holds = floor > 0 ? services_.floor_of(*communicator) : Status::Ok();
    if (holds.ok()) continue;
    refused.push_back(
        {"collectives.bandwidth_floor", fmt::format("\"{}\"", FormatMeasure(Measure::kRate, floor)),
         "", fmt::format("communicator '{}': {}", communicator->label(), holds.message())});
  }
  return refused;
}

GrantBasis RequirementsBook::BasisFor(const TenantIdentity& tenant) const {
  return {.policy = {policy_, &policy_->For(tenant.across_hosts)}, .host = services_.host_means()};
}

Grant RequirementsBook::WouldGrant(const TenantIdentity& tenant,
                                   const Requirements& statement) const {
  return BasisFor(tenant).For(statement);
}

bool RequirementsBook::IsHere(const Job& job) const {
  return services_.by_job->Has(&job) || job.agents > 0;
}

Status RequirementsBook::CheckHere(const Job& job) const {
  if (IsHere(job)) return Status::Ok();
  return InvalidUsage(
      "job '{}' has no communicator and no agent on this host; requirements are said of jobs that "
      "run",
      job.label());
}

Status RequirementsBook::CheckPace(const Job& job) {
  const TenantIdentity& tenant = job.tenant->identity;
  const auto in_a_minute =
      static_cast<double>(policy_->For(tenant.across_hosts).changes_per_minute);
  if (in_a_minute <= 0)
    return InvalidUsage("the provider's policy allows no changes of requirements");
  const auto now = std::chrono::steady_clock::now();
  const std::string whose = std::to_string(tenant.number);
  const auto wait = changes_.TakeAll({{whose + " " + job.id.text(), 1 / in_a_minute},
                                      {whose, 1 / (in_a_minute * kJobsThatChange)}},
                                     now);
  if (!wait) return Status::Ok();
  return Status(
      Code::kInProgress,
      fmt::format("requirements change too often (the provider's policy allows {:g} changes a "
                  "minute); try again in {:.1f} s",
                  in_a_minute, std::chrono::duration<double>(*wait).count()));
}

// Has the tenant pay for so many bytes, where it pays for less.
Status RequirementsBook::Pay(const Job& job, int64_t bytes, Holding* memory) {
  const int64_t more = bytes - memory->amount();
  if (more <= 0) return Status::Ok();
  if (memory->amount() > 0) return memory->Add(more);
  HZ_ASSIGN_OR_RETURN(*memory, job.tenant->account->Take(Resource::kMemory, bytes));
  return Status::Ok();
}

// Replaces what is known of the job, if its tenant's memory suffices.
Status RequirementsBook::Take(Job& job, Statements statements) {
  auto stated = std::make_shared<const Requirements>(statements.All());
  const auto bytes = kMemoryOfTextByte * static_cast<int64_t>(RequirementsText(*stated).size());
  const bool is_new = !entries_.contains(&job);
  Entry& entry = entries_[&job];
  const Status paid = Pay(job, bytes, &entry.memory);
  if (!paid.ok()) {
    if (is_new) entries_.erase(&job);
    return paid;
  }
  entry.statements = std::move(statements);
  entry.stated = std::move(stated);
  Renew(job, entry);
  SumUpDuties();
  return Status::Ok();
}

// ---------------------------------------------------------------------------------------------
// What follows

// Grants anew, and has what is new take effect. The caller sums up the duties after that.
void RequirementsBook::SetRateCeiling(Job& job, double bytes_per_second) {
  const auto known = entries_.find(&job);
  const double before = known == entries_.end() ? 0 : known->second.rate_ceiling;
  if (before == bytes_per_second || !IsHere(job)) return;
  Entry& entry = entries_[&job];
  entry.rate_ceiling = bytes_per_second;
  Renew(job, entry);
}

// A ceiling of the job's own goes by the same rules as the policy's cap, which floors keep to, too.
void RequirementsBook::Renew(Job& job, Entry& entry) {
  GrantBasis basis = BasisFor(job.tenant->identity);
  if (entry.rate_ceiling > 0) {
    TenantPolicy policy = *basis.policy;
    const bool is_capped = policy.most_bandwidth_cap > 0;
    policy.most_bandwidth_cap =
        is_capped ? std::min(policy.most_bandwidth_cap, entry.rate_ceiling) : entry.rate_ceiling;
    basis.policy = std::make_shared<const TenantPolicy>(std::move(policy));
  }
  entry.grant = std::make_shared<const Grant>(basis.For(*entry.stated));
  const Grant& grant = *entry.grant;
  if (grant.granted == job.terms->granted() && grant.keeps_looking == job.terms->may_look()) {
    return;
  }
  ++entry.changes;
  job.terms = std::make_shared<const JobTerms>(grant.granted, grant.keeps_looking);
  const LogFor log_for(job.tenant->identity);
  Log(LogLevel::kInfo, kLogInit,
      "job '{}' has other requirements: change {}, {} of them not as asked", job.label(),
      entry.changes, grant.shortfalls.size());
  TellCommunicators(job);
  if (services_.on_terms) services_.on_terms(job);
}

void RequirementsBook::TellCommunicators(const Job& job) {
  const bool is_posted = !to_tell_.empty();
  for (const uint64_t id : services_.by_job->IdsOf(job)) {
    to_tell_.Add(job.tenant->identity.number, id);
  }
  if (!is_posted && !to_tell_.empty()) {
    services_.loop->Post(lifetime_.Guard([this] { TellSome(); }));
  }
}

void RequirementsBook::TellSome() {
  const uint64_t until_ns = MonotonicNanoseconds() + kTurnNanoseconds;
  do {
    const auto next = to_tell_.Next();
    if (!next.has_value()) return;
    Communicator* const communicator = services_.communicators->FindById(next->second);
    if (communicator == nullptr) continue;
    GuardedAndLogged("other terms", [communicator] { communicator->OnTermsChanged(); });
  } while (MonotonicNanoseconds() < until_ns);
  if (!to_tell_.empty()) services_.loop->Post(lifetime_.Guard([this] { TellSome(); }));
}

void RequirementsBook::SetPolicy(PolicyConfig policy) {
  policy_ = std::make_shared<const PolicyConfig>(std::move(policy));
  const bool is_posted = !to_renew_.empty();
  for (const auto& [key, job] : services_.jobs->all()) {
    if (IsHere(*job)) to_renew_.Add(key.first, key.second);
  }
  if (!is_posted) RenewSome();
}

void RequirementsBook::RenewSome() {
  const uint64_t until_ns = MonotonicNanoseconds() + kTurnNanoseconds;
  do {
    const auto next = to_renew_.Next();
    if (!next.has_value()) break;
    Job* const job = services_.jobs->FindById(next->second, next->first);
    if (job == nullptr || !IsHere(*job)) continue;
    // A job about which nothing was said has the defaults, and the bounds.
    const bool is_known = entries_.contains(job);
    if (!is_known && WouldGrant(job->tenant->identity, {}).granted == Requirements{}) continue;
    Renew(*job, entries_[job]);
  } while (MonotonicNanoseconds() < until_ns);
  SumUpDuties();
  if (!to_renew_.empty()) services_.loop->Post(lifetime_.Guard([this] { RenewSome(); }));
}

// The engine looks at the sum in each of its rounds.
void RequirementsBook::SumUpDuties() {
  duties_ = {};
  for (const auto& [job, entry] : entries_) {
    duties_.keeps_looking |= entry.grant->keeps_looking;
    const double asked = job->terms->faults().late_after_seconds;
    if (asked > 0) duties_.late_after_seconds = std::min(duties_.late_after_seconds, asked);
  }
}

void RequirementsBook::OnFormed(const Communicator& communicator, int /*hosts*/) {
  Job& job = *communicator.job();
  const auto known = entries_.find(&job);
  if (known == entries_.end()) {
    if (WouldGrant(job.tenant->identity, {}).granted == Requirements{}) return;
    // Something holds by default.
    Renew(job, entries_[&job]);
    SumUpDuties();
    return;
  }
  if (communicator.host_group() == nullptr || known->second.statements.empty()) return;
  // The other daemons hear of the communicator in the same call of the engine.
  services_.loop->Post(lifetime_.Guard([this, id = communicator.id()] {
    const Communicator* const formed = services_.communicators->FindById(id);
    if (formed == nullptr) return;
    const auto of_job = entries_.find(formed->job());
    if (of_job == entries_.end()) return;
    const RequirementsDigestMessage digest{.about = 0, .digest = DigestOf(*of_job->first)};
    if (!services_.relay->SendBy(*formed, digest)) SendLater(*formed->job());
  }));
}

void RequirementsBook::OnEnded(const Communicator& communicator) {
  Job* const job = communicator.job();
  if (!IsHere(*job)) Drop(*job);
}

void RequirementsBook::OnTied(Job& job) {
  const auto known = entries_.find(&job);
  if (known != entries_.end() && !known->second.statements.empty()) SendLater(job);
}

void RequirementsBook::Drop(Job& job) {
  owed_.erase(&job);
  if (entries_.erase(&job) == 0) return;
  job.terms = std::make_shared<const JobTerms>();
  SumUpDuties();
}

// ---------------------------------------------------------------------------------------------
// Other hosts

RequirementsMessage RequirementsBook::MessageOf(const Statements& statements) {
  RequirementsMessage message{.about = 0,
                              .forgotten_number = statements.forgotten().number,
                              .forgotten_unique = statements.forgotten().unique};
  for (const auto& [stamp, statement] : statements.ByStamp()) {
    const std::string text = RequirementsText(statement);
    message.statements.push_back({stamp.number, stamp.unique, {text.begin(), text.end()}});
  }
  return message;
}

void RequirementsBook::Spread(Job& job, const JobRelay::CameBy& came_by) {
  const Entry* const entry = Find(job);
  if (entry == nullptr) return;
  if (!services_.relay->Spread(job, MessageOf(entry->statements), came_by)) SendLater(job);
}

// Sends again what a daemon did not take, since too much of the tenant's waited for it.
void RequirementsBook::SendLater(Job& job) {
  owed_.insert(&job);
  const Status started = retry_.Start(kSendAgainAfter, [this] { SendWhatIsOwed(); });
  if (!started.ok()) Log(LogLevel::kWarning, kLogInit, "requirements: {}", started.message());
}

void RequirementsBook::SendWhatIsOwed() {
  for (Job* const job : std::exchange(owed_, {})) Spread(*job, {});
  if (owed_.empty()) retry_.Stop();
}

void RequirementsBook::OnMessage(transport::PeerId peer, const ClusterMessage& message) {
  if (const auto* const statements = message.As<RequirementsMessage>()) {
    OnStatements(peer, *statements);
  } else if (const auto* const digest = message.As<RequirementsDigestMessage>()) {
    OnDigest(peer, *digest);
  } else if (const auto* const asked = message.As<AskRequirementsMessage>()) {
    OnAsked(peer, *asked);
  }
}

uint64_t RequirementsBook::DigestOf(const Job& job) const {
  const Entry* const entry = Find(job);
  return entry == nullptr ? Statements().Digest() : entry->statements.Digest();
}

// A communicator forms often, and documents are long: they are sent where they are not known.
void RequirementsBook::OnDigest(transport::PeerId peer, const RequirementsDigestMessage& message) {
  const std::optional<JobWay> way = services_.relay->ToldOf(message.about, peer);
  if (!way.has_value() || DigestOf(*way->job) == message.digest) return;
  // What is lost here is asked for by way of the next communicator.
  static_cast<void>(services_.relay->Reply(*way, peer, AskRequirementsMessage{}));
}

void RequirementsBook::OnAsked(transport::PeerId peer, const AskRequirementsMessage& message) {
  const std::optional<JobWay> way = services_.relay->ToldOf(message.about, peer);
  if (!way.has_value()) return;
  const Entry* const entry = Find(*way->job);
  if (entry == nullptr) return;
  const bool taken = services_.relay->Reply(*way, peer, MessageOf(entry->statements));
  if (!taken) SendLater(*way->job);
}

// Documents are read apart from the engine's thread. Those of one tenant keep their order.
void RequirementsBook::OnStatements(transport::PeerId peer, const RequirementsMessage& message) {
  const std::optional<JobWay> way = services_.relay->ToldOf(message.about, peer);
  if (!way.has_value()) return;
  const StatementInbox::Sender sender{
      .peer = peer, .tenant = way->job->tenant->identity.number, .job = way->job->id};
  const auto take =
      lifetime_.Guard([this, sender](const Parsed& parsed) { OnParsed(sender, parsed); });
  inbox_.Put(sender, message, [take, loop = services_.loop](const StatementInbox::Received& one) {
    auto parsed = std::make_shared<Parsed>();
    parsed->abouts = one.abouts;
    parsed->statements.Forget({one.message.forgotten_number, one.message.forgotten_unique});
    for (const StatedRequirements& stated : one.message.statements) {
      // A newer daemon may know keys that this one does not: the statement is left out then.
      const std::string text(stated.document.begin(), stated.document.end());
      const Result<Requirements> read = ParseRequirements(text, "another daemon");
      if (read.ok()) parsed->statements.Take(*read, {stated.number, stated.unique});
    }
    loop->Post([take, parsed] { take(*parsed); });
  });
}

void RequirementsBook::OnParsed(const StatementInbox::Sender& sender, const Parsed& parsed) {
  inbox_.Tidy(sender);
  // Some of the ways may have ended in the meantime.
  std::optional<JobWay> way;
  for (const uint64_t about : parsed.abouts) {
    way = services_.relay->ToldOf(about, sender.peer);
    if (way.has_value()) break;
  }
  if (!way.has_value()) return;
  Job& job = *way->job;
  const auto known = entries_.find(&job);
  Statements statements = known == entries_.end() ? Statements() : known->second.statements;
  bool is_new = statements.Forget(parsed.statements.forgotten());
  for (const auto& [stamp, statement] : parsed.statements.ByStamp()) {
    is_new |= statements.Take(statement, stamp);
  }
  if (!is_new) return;
  const Status taken = Take(job, std::move(statements));
  if (!taken.ok()) {
    const LogFor log_for(job.tenant->identity);
    Log(LogLevel::kWarning, kLogInit, "requirements of job '{}' are not taken here: {}",
        job.label(), taken.message());
    return;
  }
  Spread(job, {way, sender.peer});
}

}  // namespace harmonaize::daemon
