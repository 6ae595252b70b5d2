#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/quota/holdings.h"
#include "src/ipc/profile_record.h"

namespace harmonaize::daemon {

/// Upper bounds, in nanoseconds, of the durations that a histogram tells apart: from 1 microsecond
/// on in steps of four, which tell a kernel's launch from a short and from a long collective. The
/// last bucket has what is longer.
inline constexpr std::array<uint64_t, 11> kProfileBounds = {
    1'000,     4'000,      16'000,     64'000,      256'000,      1'024'000,
    4'096'000, 16'384'000, 65'536'000, 262'144'000, 1'048'576'000};

/// What events had in common.
struct ProfileRowKey {
  ProfileKind kind = ProfileKind::kGroup;
  ProfileFunction function = ProfileFunction::kNone;
  ProfileAlgorithm algorithm = ProfileAlgorithm::kNone;
  ProfileProtocol protocol = ProfileProtocol::kNone;
  bool timed_by_kernels = false;  ///< See kTimedByKernels.

  auto operator<=>(const ProfileRowKey&) const = default;
};

/// Statistics of some events. The numbers are those of a tenant, so sums end at the largest number.
struct ProfileRow {
  uint64_t events = 0;
  uint64_t bytes = 0;
  uint64_t total_ns = 0;
  uint64_t largest_ns = 0;
  std::array<uint64_t, kProfileBounds.size() + 1> histogram{};  ///< Events by their duration.

  void Add(uint64_t duration_ns, uint64_t moved_bytes);
  void Merge(const ProfileRow& other);
};

/// Statistics of an NCCL communicator, as far as its processes are on this host.
struct CommunicatorProfile {
  uint64_t id = 0;  ///< NCCL's hash of its id; 0: not known.
  std::string name = {};
  int32_t ranks = 0;   ///< 0: not known.
  int32_t hosts = 0;   ///< 0: not known.
  int processes = 0;   ///< Processes here that have it now.
  uint64_t ended = 0;  ///< Its turn among those that have ended; 0: it has not.
  std::map<ProfileRowKey, ProfileRow> rows = {};
};

/// A copy of a job's statistics.
struct ProfileReport {
  uint64_t events = 0;
  uint64_t lost = 0;                  ///< Events that the processes could not tell of, as they say.
  uint64_t malformed = 0;             ///< Records that no plugin writes.
  uint64_t merged_communicators = 0;  ///< Communicators whose events are in `others`.
  int processes = 0;                  ///< That have a ring now.
  std::vector<CommunicatorProfile> communicators = {};
  /// Events of communicators beyond the bound, and of none that is known.
  CommunicatorProfile others = {};
};

/// Counts of all jobs of this daemon, for metrics. They never fall. Thread: any, under a lock of
/// the user's.
struct ProfileCounts {
  std::array<uint64_t, kProfileKindCount> events{};  ///< By ProfileKind.
  uint64_t lost = 0;
  uint64_t malformed = 0;
};

/// Statistics of the events of one job's processes on this host. Memory grows with what the
/// processes tell, up to a bound for each job, and the tenant pays for it; what finds no place is
/// added to what is there already. Thread: any.
class JobProfile {
 public:
  /// Most communicators of a job that are told apart. One that has ended makes place for another.
  static constexpr size_t kMostCommunicators = 256;
  /// Most rows of a communicator; an ordinary job has some twenty.
  static constexpr size_t kMostRows = 64;

  /// What is known of one process that writes. The object is the caller's, and belongs to one
  /// JobProfile. Thread: one.
  class Process {
   private:
    friend class JobProfile;
    /// By the process's index: its communicators, and nullptr.
    std::vector<CommunicatorProfile*> communicators_;
  };

  explicit JobProfile(std::shared_ptr<Account> account) : account_(std::move(account)) {}

  void BeginProcess();
  /// Adds records of a process, in their order, and events that it has lost. Adds them to `counts`,
  /// too.
  void Add(Process* process, std::span<const ProfileWords> records, uint64_t lost,
           ProfileCounts* counts);
  void EndProcess(Process* process);

  ProfileReport Report() const;

 private:
  using Key = std::pair<uint64_t, std::string>;  ///< NCCL's id, and the name.

  void AddRecord(Process* process, const ProfileWords& words, ProfileCounts* counts);
  void AddEvent(CommunicatorProfile* communicator, const ProfileRecord& record,
                ProfileCounts* counts);
  void Begin(Process* process, const ProfiledCommunicator& found);
  void Leave(CommunicatorProfile* communicator);
  CommunicatorProfile* FindOrMake(const ProfiledCommunicator& found);
  bool MakeRoom();
  ProfileRow* RowOf(CommunicatorProfile* communicator, const ProfileRowKey& key);
  bool Pay(int64_t bytes);

  const std::shared_ptr<Account> account_;
  mutable std::mutex mutex_;
  // Everything below is guarded by mutex_.
  Holding memory_;
  int64_t free_bytes_ = 0;  ///< Part of what is paid for that nothing takes any more.
  std::map<Key, std::unique_ptr<CommunicatorProfile>> communicators_;
  std::map<uint64_t, CommunicatorProfile*> ended_communicators_;  // by CommunicatorProfile::ended
  CommunicatorProfile others_;
  uint64_t ended_ = 0;  ///< How often a communicator has ended.
  uint64_t events_ = 0;
  uint64_t lost_ = 0;
  uint64_t malformed_ = 0;
  uint64_t merged_communicators_ = 0;
  int processes_ = 0;
};

}  // namespace harmonaize::daemon
