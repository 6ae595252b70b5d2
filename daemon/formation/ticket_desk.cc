#include "daemon/formation/ticket_desk.h"

#include <openssl/sha.h>

#include <algorithm>
#include <utility>

namespace harmonaize::daemon {
namespace {

/// Bytes of memory that a tenant is charged for a ticket.
constexpr int64_t kTicketBytes = 512;
/// Most ended tickets of one tenant of which the reason is remembered: people ask about the last
/// ones.
constexpr size_t kMostEndedOfTenant = 64;

/// Returns the answer to whoever may not know more, whatever is wrong.
Status NotValid() {
  return InvalidUsage(
      "the ticket is not valid: it is wrong, has expired, is used up or burnt, or is another "
      "user's, or the daemon that kept it was restarted since; a rank of the job makes a new one "
      "with hzMakeTicket");
}

Status Expired() {
  return InvalidUsage("the ticket has expired; a rank of the job makes a new one (hzMakeTicket)");
}

Status UsedUp() {
  return InvalidUsage("the ticket is used up; a rank of the job makes a new one (hzMakeTicket)");
}

}  // namespace

TicketDigest DigestOf(const Ticket& ticket) {
  static_assert(SHA256_DIGEST_LENGTH == kTicketDigestBytes);
  TicketDigest digest{};
  SHA256(ticket.secret.data(), ticket.secret.size(), digest.data());
  return digest;
}

TicketDigest DigestIn(const std::vector<uint8_t>& bytes) {
  TicketDigest digest{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), digest.size()), digest.begin());
  return digest;
}

// On one host a tenant can be more than its user; other daemons know users alone.
bool TicketDesk::IsOwner(const Order& order, const Asker& asker) {
  const bool is_other = asker.tenant != nullptr && order.made_here && asker.tenant != order.owner;
  return order.owner->identity.across_hosts == asker.user && !is_other;
}

// ---------------------------------------------------------------------------------------------
// Tickets

Status TicketDesk::Add(const Order& order, uint64_t now_ns) {
  EndExpired(now_ns);
  // Two secrets with one digest do not come from an honest daemon.
  if (tickets_.contains(order.digest)) return InvalidUsage("there is such a ticket already");
  Kept kept{.order = order, .number = next_number_};
  HZ_ASSIGN_OR_RETURN(kept.place, order.owner->account->Take(Resource::kTickets, 1));
  HZ_ASSIGN_OR_RETURN(kept.memory, order.owner->account->Take(Resource::kMemory, kTicketBytes));
  of_job_[order.job].tickets.emplace(next_number_++, order.digest);
  by_expiry_.emplace(order.expires_ns, order.digest);
  tickets_.emplace(order.digest, std::move(kept));
  return Status::Ok();
}

void TicketDesk::Burn(const JobKey& job, const Status& why, uint64_t now_ns) {
  EndExpired(now_ns);
  const auto found = of_job_.find(job);
  if (found == of_job_.end()) return;
  const std::map<uint64_t, TicketDigest> burnt = found->second.tickets;
  for (const auto& [number, digest] : burnt) End(digest, why);
}

std::vector<TicketView> TicketDesk::List(const JobKey& job, uint64_t now_ns) {
  EndExpired(now_ns);
  std::vector<TicketView> list;
  const auto found = of_job_.find(job);
  if (found == of_job_.end()) return list;
  for (const auto& [number, digest] : found->second.tickets) {
    const Kept& kept = tickets_.at(digest);
    TicketView view = kept.order.view;
    view.uses = kept.order.uses - kept.held;
    list.push_back(std::move(view));
  }
  return list;
}

void TicketDesk::RefuseWaiting(const TicketDigest& digest, const Status& why) {
  const auto of_job = of_job_.find(tickets_.at(digest).order.job);
  std::vector<NewcomerKey> refused;
  for (const auto& [turn, key] : of_job->second.waiting) {
    if (newcomers_.at(key).ticket == digest) refused.push_back(key);
  }
  for (const NewcomerKey& key : refused) {
    Drop(newcomers_.find(key), false);
    tell_(key, why);
  }
}

// The ticket can be used no more.
void TicketDesk::End(const TicketDigest& digest, const Status& why) {
  RefuseWaiting(digest, why);
  const auto found = tickets_.find(digest);
  const Order order = found->second.order;
  Remember(digest, order, why);
  by_expiry_.erase({order.expires_ns, digest});
  of_job_.at(order.job).tickets.erase(found->second.number);
  tickets_.erase(found);
  ForgetIfEmpty(order.job);
}

void TicketDesk::Remember(const TicketDigest& digest, const Order& order, const Status& why) {
  const uint32_t tenant = order.owner->identity.number;
  std::deque<TicketDigest>& of_tenant = ended_of_tenant_[tenant];
  of_tenant.push_back(digest);
  ended_[digest] = {tenant, order.owner->identity.across_hosts, why};
  if (of_tenant.size() <= kMostEndedOfTenant) return;
  ended_.erase(of_tenant.front());
  of_tenant.pop_front();
}

void TicketDesk::EndExpired(uint64_t now_ns) {
  while (!by_expiry_.empty() && by_expiry_.begin()->first <= now_ns) {
    End(TicketDigest(by_expiry_.begin()->second), Expired());
  }
}

void TicketDesk::ForgetIfEmpty(const JobKey& job) {
  const auto found = of_job_.find(job);
  if (found != of_job_.end() && found->second.empty()) of_job_.erase(found);
}

// ---------------------------------------------------------------------------------------------
// Newcomers

bool TicketDesk::IsOwner(const Ended& ended, const Asker& asker) {
  return ended.user == asker.user &&
         (asker.tenant == nullptr || asker.tenant->identity.number == ended.tenant);
}

bool TicketDesk::Knows(const TicketDigest& digest, const Asker& asker) const {
  const auto kept = tickets_.find(digest);
  if (kept != tickets_.end()) return IsOwner(kept->second.order, asker);
  const auto ended = ended_.find(digest);
  return ended != ended_.end() && IsOwner(ended->second, asker);
}

// Returns why a ticket that cannot be used is refused.
Status TicketDesk::WhyNot(const TicketDigest& digest, const Asker& asker) const {
  const auto found = ended_.find(digest);
  return found != ended_.end() && IsOwner(found->second, asker) ? found->second.why : NotValid();
}

Result<TicketDesk::JobKey> TicketDesk::Check(const TicketDigest& digest, const Asker& asker,
                                             uint64_t now_ns) {
  EndExpired(now_ns);
  const auto found = tickets_.find(digest);
  if (found == tickets_.end()) return WhyNot(digest, asker);
  if (!IsOwner(found->second.order, asker)) return NotValid();
  if (found->second.order.job.second != asker.job) {
    return InvalidUsage(
        "the ticket is for another job of yours: name the job whose rank has made it");
  }
  return found->second.order.job;
}

Status TicketDesk::Come(const NewcomerKey& key, const TicketDigest& digest, const Asker& asker,
                        uint64_t now_ns) {
  HZ_RETURN_IF_ERROR(Check(digest, asker, now_ns).status());
  Kept& kept = tickets_.at(digest);
  if (newcomers_.contains(key)) return InvalidUsage("the newcomer waits already");
  if (kept.held >= kept.order.uses) {
    return InvalidUsage(
        "all uses of the ticket are held by newcomers that have come before; a rank of the job "
        "makes another one (hzMakeTicket)");
  }
  Newcomer newcomer{.ticket = digest, .job = kept.order.job, .turn = next_number_++};
  HZ_ASSIGN_OR_RETURN(newcomer.place, kept.order.owner->account->Take(Resource::kNewcomers, 1));
  newcomer.waiting = WaitingHold(waiting_);
  of_job_.at(newcomer.job).waiting.emplace(newcomer.turn, key);
  newcomers_.emplace(key, std::move(newcomer));
  ++kept.held;
  return Status::Ok();
}

int TicketDesk::Waiting(const JobKey& job, uint64_t now_ns) {
  EndExpired(now_ns);
  const auto found = of_job_.find(job);
  return found == of_job_.end() ? 0 : static_cast<int>(found->second.waiting.size());
}

// Takes a newcomer out, and gives the use that it holds back, unless it has used it.
void TicketDesk::Drop(std::map<NewcomerKey, Newcomer>::iterator newcomer, bool used) {
  const Newcomer gone = std::move(newcomer->second);
  newcomers_.erase(newcomer);
  const auto of_job = of_job_.find(gone.job);
  if (of_job != of_job_.end()) of_job->second.waiting.erase(gone.turn);
  const auto ticket = tickets_.find(gone.ticket);
  if (ticket != tickets_.end()) {
    --ticket->second.held;
    if (used && --ticket->second.order.uses == 0) return End(TicketDigest(gone.ticket), UsedUp());
  }
  ForgetIfEmpty(gone.job);
}

uint64_t TicketDesk::Leave(const NewcomerKey& key) {
  const auto found = newcomers_.find(key);
  if (found == newcomers_.end()) return 0;
  const uint64_t parent = found->second.parent;
  // The others of the admission go with its failure.
  if (parent == 0) Drop(found, false);
  return parent;
}

std::vector<uint64_t> TicketDesk::LeaveAllOf(transport::PeerId peer) {
  std::vector<NewcomerKey> gone;
  for (auto one = newcomers_.lower_bound({peer, 0});
       one != newcomers_.end() && one->first.peer == peer; ++one) {
    gone.push_back(one->first);
  }
  std::set<uint64_t> parents;
  for (const NewcomerKey& key : gone) parents.insert(Leave(key));
  parents.erase(0);
  return {parents.begin(), parents.end()};
}

// ---------------------------------------------------------------------------------------------
// Admissions

std::optional<int> TicketDesk::Admitted(uint64_t parent) const {
  const auto found = admissions_.find(parent);
  if (found == admissions_.end() || !found->second.failed.ok()) return std::nullopt;
  return found->second.ranks;
}

void TicketDesk::Admit(uint64_t parent, const JobKey& job, const UniqueId& id, int first_rank,
                       int count, uint64_t until_ns) {
  Admission admission{.newcomers = {}, .ranks = first_rank + count, .until_ns = until_ns};
  auto& waiting = of_job_.at(job).waiting;
  for (int i = 0; i < count; ++i) {
    const NewcomerKey key = waiting.begin()->second;
    newcomers_.at(key).parent = parent;
    waiting.erase(waiting.begin());
    admission.newcomers.push_back(key);
  }
  admissions_[parent] = admission;
  for (int i = 0; i < count; ++i) {
    const size_t index = static_cast<size_t>(i);
    tell_(admission.newcomers[index], JobPlace{id, admission.ranks, first_rank + i});
  }
}

void TicketDesk::EndAdmission(uint64_t parent, const Status& outcome) {
  const auto found = admissions_.find(parent);
  if (found == admissions_.end() || !found->second.failed.ok()) return;
  const std::vector<NewcomerKey> newcomers = std::exchange(found->second.newcomers, {});
  found->second.failed = outcome;
  if (outcome.ok()) admissions_.erase(found);
  for (const NewcomerKey& key : newcomers) {
    const auto newcomer = newcomers_.find(key);
    if (newcomer != newcomers_.end()) Drop(newcomer, outcome.ok());
  }
}

Status TicketDesk::CheckGrowth(uint64_t parent, int ranks, uint64_t now_ns) const {
  const auto found = admissions_.find(parent);
  if (found == admissions_.end()) return Status::Ok();
  const Admission& admission = found->second;
  if (admission.ranks != ranks || admission.until_ns < now_ns) return Status::Ok();
  return admission.failed;
}

void TicketDesk::ForgetParent(uint64_t parent) {
  EndAdmission(parent, InvalidUsage("the communicator that was to grow is gone"));
  admissions_.erase(parent);
}

std::vector<uint64_t> TicketDesk::Tick(uint64_t now_ns) {
  EndExpired(now_ns);
  std::vector<uint64_t> late;
  for (const auto& [parent, admission] : admissions_) {
    if (admission.failed.ok() && admission.until_ns <= now_ns) late.push_back(parent);
  }
  return late;
}

}  // namespace harmonaize::daemon
