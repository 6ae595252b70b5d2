#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "daemon/access/engine_gate.h"
#include "daemon/http/http_exchange.h"
#include "daemon/reports/report_sources.h"
#include "daemon/runtime/background.h"

namespace harmonaize::daemon {

struct Reader;

/// What the engine says of jobs, for many callers. A reader's snapshot serves all of its requests
/// for a moment, so that a tenant's requests take no more than a bounded part of the engine's time.
/// Thread: any.
class JobSnapshots {
 public:
  /// A list of jobs, as the report returns it; nullptr if there is none, since the engine is gone
  /// or out of memory.
  using Snapshot = std::shared_ptr<const nlohmann::json>;
  using Call = std::function<void(const Snapshot&)>;

  /// What the engine makes: an array of jobs.
  using Report = nlohmann::json (*)(const ReportSources&, const Reader&);

  /// `fresh_ns`: age, in nanoseconds, up to which a snapshot serves. Requires: the engine ends
  /// before this object does.
  JobSnapshots(std::shared_ptr<EngineGate> gate, Report report, uint64_t fresh_ns);
  ~JobSnapshots();

  /// Calls `call` with a snapshot for the caller that is no older than a moment, on a thread of
  /// this object.
  void Get(const HttpCaller& caller, Call call);

 private:
  /// What there is for one reader.
  struct Entry {
    Snapshot snapshot;
    uint64_t made_ns = 0;
    std::vector<Call> waiting;  ///< Not empty while the engine has been asked.
  };

  void Ask(uint32_t key, const HttpCaller& caller);
  void Take(uint32_t key, Snapshot snapshot);
  void ForgetOld(uint64_t now_ns);

  const std::shared_ptr<EngineGate> gate_;
  const Report report_;
  const uint64_t fresh_ns_;
  std::mutex mutex_;
  std::map<uint32_t, Entry> entries_;  // guarded by mutex_; by tenant, kOperators for operators
  std::unique_ptr<Background> thread_;
};

}  // namespace harmonaize::daemon
