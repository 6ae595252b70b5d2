#include "daemon/profiles/job_profile.h"

#include <algorithm>

#include "src/base/clean_text.h"
#include "src/base/saturating.h"
#include "src/ipc/messages.h"

namespace harmonaize::daemon {
namespace {

/// Bytes of the daemon's memory that a row, and a communicator without rows, are charged for: the
/// objects, and what the allocator and the trees add.
constexpr int64_t kProfileRowBytes = sizeof(ProfileRow) + 128;
constexpr int64_t kCommunicatorProfileBytes = sizeof(CommunicatorProfile) + 256;

/// The row of what finds no row of its own.
constexpr ProfileRowKey kRestOfProfileRows = {ProfileKind::kGroup, ProfileFunction::kOther,
                                              ProfileAlgorithm::kOther, ProfileProtocol::kOther,
                                              false};

void Increase(uint64_t* sum, uint64_t by) {
  *sum = AddUpTo(*sum, by);
}

}  // namespace

void ProfileRow::Add(uint64_t duration_ns, uint64_t moved_bytes) {
  Increase(&events, 1);
  Increase(&bytes, moved_bytes);
  Increase(&total_ns, duration_ns);
  largest_ns = std::max(largest_ns, duration_ns);
  const auto bound = std::upper_bound(kProfileBounds.begin(), kProfileBounds.end(), duration_ns);
  Increase(&histogram[static_cast<size_t>(bound - kProfileBounds.begin())], 1);
}

void ProfileRow::Merge(const ProfileRow& other) {
  Increase(&events, other.events);
  Increase(&bytes, other.bytes);
  Increase(&total_ns, other.total_ns);
  largest_ns = std::max(largest_ns, other.largest_ns);
  for (size_t i = 0; i < histogram.size(); ++i) Increase(&histogram[i], other.histogram[i]);
}

void JobProfile::BeginProcess() {
  const std::lock_guard lock(mutex_);
  ++processes_;
}

void JobProfile::Add(Process* process, std::span<const ProfileWords> records, uint64_t lost,
                     ProfileCounts* counts) {
  const std::lock_guard lock(mutex_);
  for (const ProfileWords& words : records) AddRecord(process, words, counts);
  Increase(&lost_, lost);
  Increase(&counts->lost, lost);
}

void JobProfile::EndProcess(Process* process) {
  const std::lock_guard lock(mutex_);
  --processes_;
  for (CommunicatorProfile* communicator : process->communicators_) Leave(communicator);
  process->communicators_.clear();
}

ProfileReport JobProfile::Report() const {
  const std::lock_guard lock(mutex_);
  ProfileReport report{.events = events_,
                       .lost = lost_,
                       .malformed = malformed_,
                       .merged_communicators = merged_communicators_,
                       .processes = processes_,
                       .others = others_};
  for (const auto& [key, communicator] : communicators_) {
    report.communicators.push_back(*communicator);
  }
  return report;
}

void JobProfile::AddRecord(Process* process, const ProfileWords& words, ProfileCounts* counts) {
  if (const auto begun = CheckedProfiledCommunicator(words)) return Begin(process, *begun);
  const auto record = CheckedProfileRecord(words);
  if (!record.has_value()) {
    Increase(&malformed_, 1);
    Increase(&counts->malformed, 1);
    return;
  }
  auto& known = process->communicators_;
  const size_t index = record->communicator;
  CommunicatorProfile* const named = index < known.size() ? known[index] : nullptr;
  AddEvent(named == nullptr ? &others_ : named, *record, counts);
}

// The kernels of a collective come with its record, because one for each of them would be thirty
// times as many.
void JobProfile::AddEvent(CommunicatorProfile* communicator, const ProfileRecord& record,
                          ProfileCounts* counts) {
  ProfileRowKey key{record.kind, record.function, record.algorithm, record.protocol,
                    (record.flags & kTimedByKernels) != 0};
  RowOf(communicator, key)->Add(record.duration_ns, record.bytes);
  Increase(&events_, 1);
  Increase(&counts->events[static_cast<size_t>(record.kind)], 1);
  if (record.kernels == 0 || record.kind == ProfileKind::kKernel) return;
  key.kind = ProfileKind::kKernel;
  key.timed_by_kernels = true;
  ProfileRow kernels{.events = record.kernels,
                     .total_ns = record.kernels_ns,
                     .largest_ns = record.longest_kernel_ns};
  // Only their sum is told: all count as long as their mean.
  const uint64_t mean = record.kernels_ns / record.kernels;
  const auto bound = std::upper_bound(kProfileBounds.begin(), kProfileBounds.end(), mean);
  kernels.histogram[static_cast<size_t>(bound - kProfileBounds.begin())] = record.kernels;
  RowOf(communicator, key)->Merge(kernels);
  Increase(&counts->events[static_cast<size_t>(ProfileKind::kKernel)], record.kernels);
}

void JobProfile::Begin(Process* process, const ProfiledCommunicator& found) {
  auto& known = process->communicators_;
  if (known.size() <= found.communicator) known.resize(found.communicator + size_t{1}, nullptr);
  // The index may have stood for another one before; and a plugin says more of one once it knows.
  Leave(std::exchange(known[found.communicator], nullptr));
  CommunicatorProfile* const communicator = FindOrMake(found);
  if (communicator == nullptr) return;
  ++communicator->processes;
  ended_communicators_.erase(std::exchange(communicator->ended, 0));
  known[found.communicator] = communicator;
}

void JobProfile::Leave(CommunicatorProfile* communicator) {
  if (communicator == nullptr || --communicator->processes > 0) return;
  communicator->ended = ++ended_;
  ended_communicators_[ended_] = communicator;
}

/// Returns nullptr if there is no place for it.
CommunicatorProfile* JobProfile::FindOrMake(const ProfiledCommunicator& found) {
  const Key key{found.id, CleanFieldText(found.name)};
  const auto there = communicators_.find(key);
  if (there != communicators_.end()) return there->second.get();
  const bool has_place = communicators_.size() < kMostCommunicators || MakeRoom();
  if (!has_place || !Pay(kCommunicatorProfileBytes)) {
    Increase(&merged_communicators_, 1);
    return nullptr;
  }
  auto made = std::make_unique<CommunicatorProfile>(CommunicatorProfile{
      .id = found.id, .name = key.second, .ranks = found.ranks, .hosts = found.hosts});
  return communicators_.emplace(key, std::move(made)).first->second.get();
}

// Adds the communicator that ended first to the others.
bool JobProfile::MakeRoom() {
  if (ended_communicators_.empty()) return false;
  const CommunicatorProfile& oldest = *ended_communicators_.begin()->second;
  ended_communicators_.erase(ended_communicators_.begin());
  for (const auto& [key, row] : oldest.rows) RowOf(&others_, key)->Merge(row);
  const auto unpaid = static_cast<int64_t>(oldest.rows.count(kRestOfProfileRows));
  free_bytes_ += kCommunicatorProfileBytes +
                 (static_cast<int64_t>(oldest.rows.size()) - unpaid) * kProfileRowBytes;
  Increase(&merged_communicators_, 1);
  communicators_.erase(Key{oldest.id, oldest.name});
  return true;
}

ProfileRow* JobProfile::RowOf(CommunicatorProfile* communicator, const ProfileRowKey& key) {
  auto& rows = communicator->rows;
  const auto found = rows.find(key);
  if (found != rows.end()) return &found->second;
  // The last row is that of the rest. Its memory is taken in any case.
  const bool fits = rows.size() + 1 < kMostRows && Pay(kProfileRowBytes);
  return &rows[fits ? key : kRestOfProfileRows];
}

bool JobProfile::Pay(int64_t bytes) {
  if (free_bytes_ >= bytes) {
    free_bytes_ -= bytes;
    return true;
  }
  if (memory_.amount() > 0) return memory_.Add(bytes).ok();
  Result<Holding> first = account_->Take(Resource::kMemory, bytes);
  if (!first.ok()) return false;
  memory_ = std::move(*first);
  return true;
}

}  // namespace harmonaize::daemon
