#include "daemon/checkpoint/kept_parts.h"

#include <utility>

namespace harmonaize::daemon {
namespace {

/// Time, in seconds, after which a copy that its host has not asked for again makes room for those
/// of a later communicator of the job: hosts ask every ten seconds.
constexpr double kCopiesForgottenSeconds = 35;

/// The newest part of a rank that has gone.
struct NewestPart {
  uint64_t round = 0;
  bool is_complete = false;
};
/// By communicator and rank.
using NewestParts = std::map<std::pair<uint64_t, int>, NewestPart>;

/// Returns whether the part of a rank that has gone may be needed. One that is not known to be
/// complete may be so all the same, if the home was lost with the word. If it is not, the one
/// before it is needed.
bool IsNeeded(const KeptPart& part, const NewestParts& newest_parts) {
  if (part.state == PartState::kNothing) return false;
  const NewestPart& newest = newest_parts.at({part.communicator, part.rank});
  return part.round == newest.round || (!newest.is_complete && part.round + 1 == newest.round);
}

}  // namespace

uint32_t KeptParts::Add(KeptPart part) {
  while (next_ == 0 || job_of_.contains(next_)) ++next_;
  const uint32_t buffer = next_++;
  job_of_.emplace(buffer, part.job);
  jobs_[part.job].emplace(buffer, std::move(part));
  return buffer;
}

KeptPart* KeptParts::Find(uint32_t buffer, uint32_t session) {
  const auto job = job_of_.find(buffer);
  if (job == job_of_.end()) return nullptr;
  KeptPart& part = jobs_.at(job->second).at(buffer);
  return part.session == session ? &part : nullptr;
}

void KeptParts::Erase(uint32_t buffer) {
  const auto job = job_of_.find(buffer);
  if (job == job_of_.end()) return;
  const auto parts = jobs_.find(job->second);
  parts->second.erase(buffer);
  if (parts->second.empty()) jobs_.erase(parts);
  job_of_.erase(job);
}

bool KeptParts::WasErased(uint32_t buffer) const {
  return buffer != 0 && buffer < next_ && !job_of_.contains(buffer);
}

void KeptParts::Complete(const JobTable::Key& job, uint64_t communicator, uint64_t round) {
  const auto parts = jobs_.find(job);
  if (parts == jobs_.end()) return;
  for (auto& [buffer, part] : parts->second) {
    const bool is_own = part.communicator == communicator && !part.is_copy;
    if (!is_own || part.state == PartState::kNothing || part.round != round) continue;
    part.state = PartState::kComplete;
  }
}

void KeptParts::DropEarlier(const JobTable::Key& job, uint64_t communicator) {
  const ByBuffer* const parts = Of(job);
  if (parts == nullptr) return;
  std::vector<uint32_t> earlier;
  bool is_here = false;
  for (const auto& [buffer, part] : *parts) {
    if (part.is_copy) continue;
    const bool is_own = part.communicator == communicator;
    is_here |= is_own && part.state == PartState::kComplete;
    if (!is_own && part.is_orphan) earlier.push_back(buffer);
  }
  if (!is_here) return;
  for (const uint32_t buffer : earlier) Erase(buffer);
}

uint64_t KeptParts::BytesLent(const JobTable::Key& job, uint64_t communicator) const {
  const ByBuffer* const parts = Of(job);
  if (parts == nullptr) return 0;
  uint64_t bytes = 0;
  for (const auto& [buffer, part] : *parts) {
    if (part.communicator == communicator && !part.is_copy) bytes += part.buffer_bytes;
  }
  return bytes;
}

void KeptParts::AddCopy(KeptPart copy) {
  std::vector<uint32_t> replaced;
  if (const ByBuffer* const parts = Of(copy.job)) {
    for (const auto& [buffer, part] : *parts) {
      if (!part.is_copy) continue;
      const bool is_same = part.communicator == copy.communicator;
      const bool is_earlier = part.rank == copy.rank && part.round <= copy.round;
      const bool is_forgotten =
          part.job_seen_seconds + kCopiesForgottenSeconds < copy.job_seen_seconds;
      if (is_same ? is_earlier : is_forgotten) replaced.push_back(buffer);
    }
  }
  copy.is_orphan = true;
  Add(std::move(copy));
  for (const uint32_t buffer : replaced) Erase(buffer);
}

KeptPart* KeptParts::FindCopy(const JobTable::Key& job, uint64_t save, int rank) {
  const auto parts = jobs_.find(job);
  if (parts == jobs_.end()) return nullptr;
  for (auto& [buffer, part] : parts->second) {
    if (part.is_copy && part.save == save && part.rank == rank) return &part;
  }
  return nullptr;
}

bool KeptParts::RefreshCopy(const JobTable::Key& job, uint64_t save, int rank, double now_seconds) {
  KeptPart* const copy = FindCopy(job, save, rank);
  if (copy == nullptr) return false;
  copy->job_seen_seconds = now_seconds;
  return true;
}

void KeptParts::LookAfter(const Look& look) {
  std::vector<uint32_t> unneeded;
  for (auto& [job, parts] : jobs_) LookAfterJob(look, look.has_job(job), &parts, &unneeded);
  for (const uint32_t buffer : unneeded) Erase(buffer);
}

void KeptParts::LookAfterJob(const Look& look, bool is_here, ByBuffer* parts,
                             std::vector<uint32_t>* unneeded) {
  NewestParts newest_parts;
  for (auto& [buffer, part] : *parts) {
    if (part.is_copy) continue;
    part.is_orphan = part.is_orphan || !look.has_rank(part);
    // A job may have gone before the first look.
    const bool is_new = part.job_seen_seconds == 0;
    if (is_here || is_new || !part.is_orphan) part.job_seen_seconds = look.now_seconds;
    if (!part.is_orphan || part.state == PartState::kNothing) continue;
    NewestPart& newest = newest_parts[{part.communicator, part.rank}];
    if (part.round < newest.round) continue;
    newest = {.round = part.round, .is_complete = part.state == PartState::kComplete};
  }
  for (const auto& [buffer, part] : *parts) {
    const bool has_expired = look.now_seconds - part.job_seen_seconds > look.keep_seconds;
    const bool is_unneeded = part.is_copy
                                 ? has_expired
                                 : part.is_orphan && (has_expired || !IsNeeded(part, newest_parts));
    if (is_unneeded) unneeded->push_back(buffer);
  }
}

const KeptParts::ByBuffer* KeptParts::Of(const JobTable::Key& job) const {
  const auto parts = jobs_.find(job);
  return parts == jobs_.end() ? nullptr : &parts->second;
}

const KeptPart* KeptParts::FindPart(const JobTable::Key& job, uint64_t save, int rank) const {
  const ByBuffer* const parts = Of(job);
  if (parts == nullptr) return nullptr;
  for (const auto& [buffer, part] : *parts) {
    if (part.state != PartState::kNothing && part.save == save && part.rank == rank) return &part;
  }
  return nullptr;
}

}  // namespace harmonaize::daemon
