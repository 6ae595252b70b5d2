#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "daemon/profiles/job_profile.h"
#include "daemon/tenant/region.h"
#include "src/ipc/profile_ring.h"

namespace harmonaize::daemon {

/// Pause, in nanoseconds, between two turns of reading all rings. A ring holds what its process
/// writes in this time, and in as long again if the reader is late: see docs/nccl-profiler.md.
inline constexpr uint64_t kProfileTurnNanoseconds = 20'000'000;
/// Most records that are read of one tenant in a turn: two whole rings. What is beyond stays in the
/// rings, and is lost there when these are full.
inline constexpr size_t kMostProfileRecordsInTurn = 2 * kProfileSlots;
/// The reader works for one part in this many of its time, whatever the tenants write.
inline constexpr uint64_t kProfileRestFactor = 4;

/// Reads the rings of all processes on a thread of its own, in turns by tenant. The thread exists
/// from the first ring on, and sleeps while there are none.
class ProfileCollector {
 public:
  ProfileCollector() = default;
  /// Drops all rings.
  ~ProfileCollector();
  ProfileCollector(const ProfileCollector&) = delete;
  ProfileCollector& operator=(const ProfileCollector&) = delete;

  /// Reads `memory`, which holds a ProfileRing, from now on, for a process of a tenant
  /// (TenantIdentity::number). Returns a number for Close, never 0. Thread: any.
  uint64_t Add(uint32_t tenant, std::shared_ptr<RegionMemory> memory,
               std::shared_ptr<JobProfile> job);
  /// Reads once more what the ring holds, and then no more. Thread: any.
  void Close(uint64_t ring);

  struct Counts {
    ProfileCounts records;
    uint64_t rings = 0;    ///< Now.
    uint64_t busy_ns = 0;  ///< Time of the thread.
  };
  /// Returns what was counted up to the last turn. Thread: any.
  Counts counts() const;

 private:
  struct Ring {
    Ring(uint32_t its_tenant, std::shared_ptr<RegionMemory> its_memory,
         std::shared_ptr<JobProfile> its_job)
        : tenant(its_tenant),
          memory(std::move(its_memory)),
          job(std::move(its_job)),
          reader(reinterpret_cast<ProfileRing*>(memory->mapping.data())) {}

    const uint32_t tenant;
    const std::shared_ptr<RegionMemory> memory;
    const std::shared_ptr<JobProfile> job;
    std::atomic<bool> closing{false};
    // Thread: the collector's.
    ProfileRingReader reader;
    JobProfile::Process process;
    bool begun = false;
    bool ended = false;
    size_t read_closing = 0;  ///< Records that were read since the ring was found closing.
  };
  /// The rings of a tenant in one turn.
  struct Turn {
    std::vector<Ring*> rings;
    size_t next = 0;
    size_t records = 0;
  };

  void Run();
  void ReadAll();
  bool ReadSome(Turn* turn);
  size_t Read(Ring* ring);
  void RemoveEnded();
  void Publish();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, std::shared_ptr<Ring>> rings_;  // guarded by mutex_
  uint64_t last_ring_ = 0;                           // guarded by mutex_
  bool stopping_ = false;                            // guarded by mutex_
  std::thread thread_;                               // guarded by mutex_

  // Thread: the collector's.
  std::map<uint64_t, std::shared_ptr<Ring>> reading_;  ///< `rings_`, as of this turn.
  std::array<ProfileWords, 512> records_;
  ProfileCounts counts_;
  uint64_t busy_ns_ = 0;

  /// What counts() returns, so that nobody waits for the thread. Relaxed: they are numbers for
  /// people, and each is right by itself.
  struct Published {
    std::array<std::atomic<uint64_t>, kProfileKindCount> events{};
    std::atomic<uint64_t> lost{0};
    std::atomic<uint64_t> malformed{0};
    std::atomic<uint64_t> busy_ns{0};
  };
  Published published_;
};

}  // namespace harmonaize::daemon
