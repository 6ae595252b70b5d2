#include "daemon/checkpoint/kept_parts.h"

#include <utility>

namespace harmonaize::daemon {
namespace {

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

void KeptParts::Complete(const JobTable::Key& job, uint64_t communicator, uint64_t round) {
  const auto parts = jobs_.find(job);
  if (parts == jobs_.end()) return;
  std::vector<uint32_t> replaced;
  bool is_here = false;
  for (auto& [buffer, part] : parts->second) {
    const bool is_own = part.communicator == communicator;
    if (!is_own && part.is_orphan) replaced.push_back(buffer);
    if (!is_own || part.state == PartState::kNothing || part.round != round) continue;
    part.state = PartState::kComplete;
    is_here = true;
  }
  if (!is_here) return;
  for (const uint32_t buffer : replaced) Erase(buffer);
}

void KeptParts::LookAfter(const Look& look) {
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    ByBuffer& parts = job->second;
    const bool is_here = look.has_job(job->first);
    LookAfterJob(look, is_here, &parts);
    std::erase_if(job_of_, [&](const auto& entry) {
      return entry.second == job->first && !parts.contains(entry.first);
    });
    job = parts.empty() ? jobs_.erase(job) : std::next(job);
  }
}

void KeptParts::LookAfterJob(const Look& look, bool is_here, ByBuffer* parts) {
  NewestParts newest_parts;
  for (auto& [buffer, part] : *parts) {
    part.is_orphan = part.is_orphan || !look.has_rank(part);
    // A job may have gone before the first look.
    const bool is_new = part.job_seen_seconds == 0;
    if (is_here || is_new || !part.is_orphan) part.job_seen_seconds = look.now_seconds;
    if (!part.is_orphan || part.state == PartState::kNothing) continue;
    NewestPart& newest = newest_parts[{part.communicator, part.rank}];
    if (part.round < newest.round) continue;
    newest = {.round = part.round, .is_complete = part.state == PartState::kComplete};
  }
  std::erase_if(*parts, [&](const auto& entry) {
    const KeptPart& part = entry.second;
    const bool has_expired = look.now_seconds - part.job_seen_seconds > look.keep_seconds;
    return part.is_orphan && (has_expired || !IsNeeded(part, newest_parts));
  });
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
