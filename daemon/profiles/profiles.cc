#include "daemon/profiles/profiles.h"

#include "daemon/tenant/tenant.h"
#include "src/base/random.h"

namespace harmonaize::daemon {
namespace {

/// Bytes of the daemon's memory that a ring is charged for, beside the region: the tables of one
/// process (JobProfile::Process), and the objects of a job that has rows yet.
constexpr int64_t kProfileSourceBytes = kMostProfiledCommunicators * sizeof(void*) + 4096;

}  // namespace

Result<uint32_t> Profiles::Open(Session& session, uint64_t communicator,
                                std::shared_ptr<RegionMemory> memory) {
  if (sources_.count(session.id()) > 0) {
    return InvalidUsage("this session has a ring for profiler events already");
  }
  ForgetGone();
  if (events_ == 0) return 0;
  Source source;
  HZ_ASSIGN_OR_RETURN(source.memory,
                      session.tenant().account->Take(Resource::kMemory, kProfileSourceBytes));
  Job* const job = JobOf(session, communicator);
  source.hold = JobHold(jobs_, job, &Job::profiled);
  std::shared_ptr<JobProfile>& profile = profiles_[JobTable::KeyOf(*job)];
  if (profile == nullptr) profile = std::make_shared<JobProfile>(session.tenant().account);
  Source& kept = sources_[session.id()] = std::move(source);
  kept.ring = collector_.Add(session.tenant().identity.number, std::move(memory), profile);
  return events_;
}

void Profiles::Close(uint32_t session) {
  const auto found = sources_.find(session);
  if (found == sources_.end()) return;
  collector_.Close(found->second.ring);
  sources_.erase(found);
}

std::shared_ptr<const JobProfile> Profiles::Find(const Job& job) {
  const auto found = profiles_.find(JobTable::KeyOf(job));
  return found == profiles_.end() ? nullptr : found->second;
}

std::vector<Profiles::Known> Profiles::All(std::optional<uint32_t> tenant) {
  ForgetGone();
  std::vector<Known> known;
  for (const auto& [key, profile] : profiles_) {
    if (tenant.has_value() && key.first != *tenant) continue;
    const Job* const job = jobs_->FindById(key.second, key.first);
    if (job != nullptr) known.push_back({job, profile});
  }
  return known;
}

Job* Profiles::JobOf(Session& session, uint64_t communicator) {
  const JobClaim& claim = session.job_claim();
  if (!claim.id.none()) return jobs_->Of(claim.id, &session.tenant(), claim);
  // A process of which nothing is known is a job of its own.
  const uint64_t number = communicator != 0 ? communicator : RandomNumber();
  const uint32_t tenant = session.tenant().identity.across_hosts;
  return jobs_->Of(JobOfNcclCommunicator(number, tenant), &session.tenant(), claim);
}

// A job that the table has forgotten is of no interest to people either.
void Profiles::ForgetGone() {
  std::erase_if(profiles_, [this](const auto& entry) {
    return jobs_->FindById(entry.first.second, entry.first.first) == nullptr;
  });
}

}  // namespace harmonaize::daemon
