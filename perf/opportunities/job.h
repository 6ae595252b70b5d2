#pragma once

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

#include "include/nccl.h"

namespace harmonaize::opportunities {

/// Ends the process with the library's own words unless `result` is a success.
void Check(ncclResult_t result, const char* call);

/// This process's rank of a job. A failure ends the process: a benchmark has nothing to fall back
/// on, and the launcher ends the other ranks. Thread: one.
class Job {
 public:
  /// Joins the ranks that were started together. `name` stands in all that the job writes.
  static Job Join(const std::string& kind, const std::string& name);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  ncclComm_t comm() const { return comm_; }
  bool leads() const { return rank_ == 0; }

  /// Returns registered memory of `count` zeros, which lives as long as the process.
  float* Allocate(size_t count) const;

  /// Returns when all ranks have called it.
  void Meet() const;

  /// Writes one line of JSON with the kind and the name of the job, the time, and `fields`, if this
  /// is rank 0.
  void Write(const std::string& event, nlohmann::ordered_json fields) const;

  /// Leaves the communicator.
  void Leave();

 private:
  std::string kind_;
  std::string name_;
  int rank_ = 0;
  int ranks_ = 1;
  ncclComm_t comm_ = nullptr;
};

/// Spends time as a rank does whose GPU computes: the host's processors stay free.
void Compute(double seconds);

}  // namespace harmonaize::opportunities
