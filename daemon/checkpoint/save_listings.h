#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "daemon/checkpoint/save_catalogue.h"
#include "daemon/checkpoint/stored_parts.h"
#include "daemon/jobs/job_table.h"
#include "daemon/runtime/lifetime.h"

namespace harmonaize::daemon {

class Communicator;
class CommunicatorRegistry;
class KeptParts;
class OtherHostsParts;
class TenantTable;

/// Finds out which checkpoints of a job there are. One listing of a job is under way at a time:
/// what is asked meanwhile is answered by the next one together, so that a tenant who asks again
/// and again keeps neither other hosts nor the store's threads busy. Thread: engine.
class SaveListings {
 public:
  /// All of these outlive this object.
  struct Services {
    const CommunicatorRegistry* communicators = nullptr;
    const TenantTable* tenants = nullptr;
    const KeptParts* parts = nullptr;
    OtherHostsParts* others = nullptr;
    StoredParts* stored = nullptr;
  };

  explicit SaveListings(const Services& services) : services_(services) {}

  using Listed = std::function<void(const nlohmann::json&)>;
  /// Calls `listed` once with the SavesDocument of a job, which also says how the provider's store
  /// is: "none", "unreadable" or "read". `communicator` is one of the job's;
  /// nullptr: other hosts are not asked.
  void List(const JobTable::Key& job, const Communicator* communicator, Listed listed);

 private:
  /// A listing of a job, and who waits for the one after it.
  struct Listing {
    std::vector<Listed> asked = {};
    std::vector<HostSaves> others = {};
    StoredList stored = {};
    int open = 0;  ///< Answers that have not come.
    std::vector<Listed> next = {};
    uint64_t next_communicator = 0;  ///< Communicator::id; 0: other hosts are not asked.
  };

  void Begin(const JobTable::Key& job, const Communicator* communicator);
  void EndOne(const JobTable::Key& job);

  const Services services_;
  std::map<JobTable::Key, Listing> listings_;
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
