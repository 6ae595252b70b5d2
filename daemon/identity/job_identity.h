#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/ipc/messages.h"
#include "src/ipc/unique_id.h"

namespace harmonaize::daemon {

/// The identity of a job: what a tenant runs under one name, or with one group of processes. All
/// hosts come to the same id without asking each other, and ids tell nothing of other jobs. An id
/// is no secret: who may see a job is decided by its tenant.
struct JobIdentity {
  std::array<uint8_t, 16> bytes{};

  /// Returns whether this stands for no job.
  bool none() const { return *this == JobIdentity{}; }
  /// Returns 32 hexadecimal digits.
  std::string text() const;
  /// Returns the first 8 bytes as a number, which is the same at all hosts of one byte order.
  uint64_t number() const {
    uint64_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    return number;
  }
  auto operator<=>(const JobIdentity&) const = default;
};

/// Returns the id that `text` stands for; nullopt if no job has such an id.
std::optional<JobIdentity> ParseJob(std::string_view text);

/// What a process says about its job.
struct JobClaim {
  JobIdentity id;         ///< None if the process has said neither name nor group.
  std::string name = {};  ///< "": none was given.
  JobKind kind = JobKind::kUnknown;
};

/// Returns the claim in a hello of a process. `tenant` is TenantIdentity::across_hosts.
JobClaim ClaimIn(const HelloRequest& hello, uint32_t tenant);

/// Returns the id of the job of this name, which has been cleaned (CleanFieldText). `tenant` is
/// TenantIdentity::across_hosts.
JobIdentity JobOfName(std::string_view name, uint32_t tenant);

/// Returns the id of the job of a communicator that forms by a unique id, where the processes of
/// its ranks claim no job.
JobIdentity JobOfUniqueId(const UniqueId& id, uint32_t tenant);

/// Returns the id of the job of an NCCL communicator that NCCL itself carries out, where the
/// processes of its ranks claim no job. `id` is NCCL's hash of the communicator's id.
JobIdentity JobOfNcclCommunicator(uint64_t id, uint32_t tenant);

// Ids as messages of the cluster hold them: 16 bytes, or none.

std::vector<uint8_t> EncodeJob(const JobIdentity& id);
/// Requires: IsEncodedJob.
JobIdentity DecodeJob(const std::vector<uint8_t>& bytes);
inline bool IsEncodedJob(const std::vector<uint8_t>& bytes) {
  return bytes.empty() || bytes.size() == std::tuple_size_v<decltype(JobIdentity::bytes)>;
}
/// Returns whether the bytes stand for a job, and not for none.
inline bool IsSomeEncodedJob(const std::vector<uint8_t>& bytes) {
  return IsEncodedJob(bytes) && !bytes.empty();
}

}  // namespace harmonaize::daemon
