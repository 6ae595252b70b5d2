#pragma once

#include <cstdint>

#include "daemon/reports/report_sources.h"

namespace harmonaize {
class Executor;
}  // namespace harmonaize

namespace harmonaize::daemon {

class Agents;
class CheckpointAdvisor;
class CheckpointKeeper;
class EventLoop;
class EventRooms;
class HostTuning;
class JobAdvisor;
class JobTable;
class Membership;
class NcclTuning;
class Offers;
class Sizing;
class ProbeService;
class Profiles;
class RequirementsBook;
class SessionKeeper;
class TenantTable;
struct Config;
struct PolicyConfig;

/// The parts of the daemon that requests reach. Thread: engine, except for EventLoop::Post.
class EngineRooms {
 public:
  virtual EventLoop& loop() = 0;
  virtual const Config& config() const = 0;
  virtual SessionKeeper& session_keeper() = 0;
  virtual TenantTable& tenants() = 0;
  virtual Membership& membership() = 0;
  virtual ProbeService& probes() = 0;
  virtual Profiles& profiles() = 0;
  virtual NcclTuning& nccl_tuning() = 0;
  virtual const Executor& executor() const = 0;
  virtual const HostTuning& tuning() const = 0;
  virtual ReportSources report_sources() = 0;
  virtual JobTable& jobs() = 0;
  /// Requires: the engine tells events (Engine::TellEventsTo), as that of every daemon does.
  virtual EventRooms& events() = 0;
  /// Requires: likewise.
  virtual RequirementsBook& requirements() = 0;
  /// Requires: likewise.
  virtual JobAdvisor& advisor() = 0;
  /// Requires: likewise.
  virtual CheckpointAdvisor& checkpoint_advisor() = 0;
  /// Requires: likewise.
  virtual Agents& agents() = 0;
  /// Requires: likewise.
  virtual Offers& offers() = 0;
  /// Requires: likewise.
  virtual Sizing& sizing() = 0;
  /// Requires: likewise.
  virtual CheckpointKeeper& checkpoints() = 0;
  /// Has grants and the bounds of tenants go by this policy from now on, whose tenants were found
  /// (FindPolicyTenants). Requires: likewise.
  virtual void SetPolicy(const PolicyConfig& policy) = 0;

 protected:
  ~EngineRooms() = default;
};

}  // namespace harmonaize::daemon
