#pragma once

#include <cstdint>

namespace harmonaize {
class Executor;
}  // namespace harmonaize

namespace harmonaize::daemon {

class Agents;
class Announcements;
class Cluster;
class CommunicatorCounts;
class CommunicatorRegistry;
class ControlLoop;
class Diagnosis;
class Drain;
class HostTuning;
class JobTable;
class NcclTuning;
class Offers;
class PendingFormations;
class Profiles;
class SessionTable;
class Sizing;
class TenantTable;
class UsageLedger;
struct Config;

/// What reports are made from. Thread: engine.
struct ReportSources {
  const Config* config = nullptr;
  uint64_t started_ns = 0;        ///< When the daemon started, by the monotonic clock.
  uint64_t sleeps = 0;            ///< How often the engine's thread has gone to sleep.
  uint64_t sessions_cut_off = 0;  ///< For what their processes did.
  const Executor* executor = nullptr;
  const HostTuning* tuning = nullptr;
  const TenantTable* tenants = nullptr;
  const SessionTable* sessions = nullptr;
  const CommunicatorRegistry* communicators = nullptr;
  const JobTable* jobs = nullptr;
  const PendingFormations* forming = nullptr;
  const Cluster* cluster = nullptr;  ///< nullptr if this host stands alone.
  const ControlLoop* control_loop = nullptr;
  const CommunicatorCounts* counts = nullptr;
  const Diagnosis* diagnosis = nullptr;
  const Announcements* announcements = nullptr;  ///< nullptr: the daemon tells no events.
  const Drain* drain = nullptr;                  ///< The same.
  const Agents* agents = nullptr;                ///< The same.
  const Offers* offers = nullptr;                ///< The same.
  const Sizing* sizing = nullptr;                ///< The same.
  const Profiles* profiles = nullptr;
  const NcclTuning* nccl_tuning = nullptr;
  UsageLedger* usage = nullptr;
};

}  // namespace harmonaize::daemon
