#include "daemon/jobs/job_table.h"

#include <algorithm>
#include <iterator>

#include "daemon/tenant/tenant.h"
#include "src/base/saturating.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

/// Time, in seconds, for which a job that has ended can still be looked at.
constexpr double kKeptSeconds = 600;
/// Most ended jobs of one tenant that are kept: a tenant may run thousands of short ones.
constexpr ptrdiff_t kKeptForEach = 64;

}  // namespace

JobTable::Key JobTable::KeyOf(const Job& job) {
  return {job.tenant->identity.number, job.id};
}

Job* JobTable::Of(const JobIdentity& id, Tenant* tenant, const JobClaim& claim) {
  Job* job = FindById(id, tenant->identity.number);
  if (job == nullptr) {
    auto made =
        std::make_unique<Job>(Job{.id = id, .tenant = tenant, .began_seconds = UnixSeconds()});
    job = made.get();
    jobs_[{tenant->identity.number, id}] = std::move(made);
  }
  // A host may hear of a job first from a process that claims another one.
  if (claim.id == id) {
    job->name = claim.name;
    if (claim.kind != JobKind::kUnknown) job->kind = claim.kind;
  }
  return job;
}

Job* JobTable::FindById(const JobIdentity& id, uint32_t tenant) {
  const auto found = jobs_.find({tenant, id});
  return found == jobs_.end() ? nullptr : found->second.get();
}

std::vector<Job*> JobTable::FindAll(std::optional<uint32_t> tenant, std::string_view which) const {
  std::map<const Tenant*, Job*> with_id;
  std::map<const Tenant*, Job*> with_name;
  const auto first = tenant ? jobs_.lower_bound({*tenant, JobIdentity{}}) : jobs_.begin();
  for (auto it = first; it != jobs_.end(); ++it) {
    if (tenant.has_value() && it->first.first != *tenant) break;
    Job* const job = it->second.get();
    if (job->id.text() == which) with_id[job->tenant] = job;
    if (job->name.empty() || job->name != which) continue;
    Job*& last = with_name[job->tenant];
    if (last == nullptr || last->began_seconds < job->began_seconds) last = job;
  }
  std::vector<Job*> found;
  for (const auto& [whose, job] : with_id.empty() ? with_name : with_id) found.push_back(job);
  return found;
}

void JobTable::Add(Job* job) noexcept {
  ++job->communicators;
  job->ended_seconds = 0;
}

void JobTable::Remove(Job* job, const EndedCommunicators& ended) {
  EndedCommunicators& all = job->ended_communicators;
  all.count += ended.count;
  all.operations = AddUpTo(all.operations, ended.operations);
  all.bytes = AddUpTo(all.bytes, ended.bytes);
  all.ranks = std::max(all.ranks, ended.ranks);
  --job->communicators;
  EndIfEmpty(job);
}

void JobTable::Hold(Job* job, int Job::*count) noexcept {
  ++(job->*count);
  job->ended_seconds = 0;
}

void JobTable::Release(Job* job, int Job::*count) noexcept {
  --(job->*count);
  EndIfEmpty(job);
}

void JobTable::EndIfEmpty(Job* job) {
  if (job->is_here()) return;
  job->ended_seconds = UnixSeconds();
  ForgetOldestOf(*job->tenant);
}

void JobTable::ForgetOldestOf(const Tenant& tenant) {
  const uint32_t number = tenant.identity.number;
  const auto first = jobs_.lower_bound({number, JobIdentity{}});
  ptrdiff_t ended = 0;
  auto oldest = jobs_.end();
  for (auto it = first; it != jobs_.end() && it->first.first == number; ++it) {
    if (it->second->ended_seconds == 0) continue;
    ++ended;
    if (oldest == jobs_.end() || it->second->ended_seconds < oldest->second->ended_seconds) {
      oldest = it;
    }
  }
  if (ended > kKeptForEach) jobs_.erase(oldest);
}

void JobTable::ForgetOld() {
  const double now = UnixSeconds();
  std::erase_if(jobs_, [now](const auto& entry) {
    const double ended = entry.second->ended_seconds;
    return ended != 0 && ended + kKeptSeconds < now;
  });
}

}  // namespace harmonaize::daemon
