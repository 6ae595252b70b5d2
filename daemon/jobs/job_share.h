#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/jobs/job_table.h"
#include "daemon/tenant/tenant.h"
#include "src/requirements/terms.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

/// Returns the number of those communicators of a job that have floor and cap together: of all of
/// them, but for those that an override gives others. The same at all hosts; never 0. It stays when
/// the job's terms change, but for those of an override.
uint64_t OwnerOf(const Job& job, std::string_view communicator);

/// Returns the share that the messages of a communicator have of links, by its tenant's weight and
/// what was granted to its job, within the bounds of the tenant. `key` is the communicator's number
/// at all hosts.
transport::TenantShare ShareOf(const Job& job, std::string_view communicator, uint64_t key);

/// The share of a communicator's messages, which follows the terms of its job and the bounds of its
/// tenant. Thread: engine.
class CommunicatorShare {
 public:
  CommunicatorShare(std::string name, uint64_t key) : name_(std::move(name)), key_(key) {}

  /// Returns the share by the job's present terms. Requires: the job is always the same.
  const transport::TenantShare& Of(const Job& job);
  /// Returns the floor that was granted, in bytes per second, though it may have been refused.
  /// Requires: Of was called.
  double floor() const { return floor_; }
  /// Tells that the controller has refused this floor: then it counts for nothing here either. 0:
  /// none.
  void SetRefusedFloor(double floor);

 private:
  const std::string name_;
  const uint64_t key_;
  std::shared_ptr<const JobTerms> terms_;  // those that `share_` was made of; nullptr: none yet
  LinkBounds bounds_;                      // likewise
  double floor_ = 0;
  double refused_floor_ = 0;
  transport::TenantShare share_;
};

}  // namespace harmonaize::daemon
