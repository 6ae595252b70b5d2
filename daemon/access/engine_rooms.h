#pragma once

#include <cstdint>
#include <functional>

#include "daemon/reports/report_sources.h"

namespace harmonaize {
class Executor;
}  // namespace harmonaize

namespace harmonaize::daemon {

class Announcements;
class Drain;
class EventLoop;
class HostTuning;
class JobEvents;
class JobTable;
class Membership;
class NoticeAnswers;
class ProbeService;
class PromiseBook;
class SessionKeeper;
class TenantTable;
struct Config;

/// The parts of the daemon that requests reach. Thread: engine, except for EventLoop::Post.
class EngineRooms {
 public:
  virtual EventLoop& loop() = 0;
  virtual const Config& config() const = 0;
  virtual SessionKeeper& session_keeper() = 0;
  virtual TenantTable& tenants() = 0;
  virtual Membership& membership() = 0;
  virtual ProbeService& probes() = 0;
  virtual const Executor& executor() const = 0;
  virtual const HostTuning& tuning() const = 0;
  virtual ReportSources report_sources() = 0;
  virtual JobTable& jobs() = 0;
  // These are nullptr in a daemon that tells no events.
  virtual JobEvents* job_events() = 0;
  virtual Announcements* announcements() = 0;
  virtual PromiseBook* promises() = 0;
  virtual NoticeAnswers* notice_answers() = 0;
  virtual Drain* drain() = 0;
  /// Returns a call, for any thread, that has what these have done so far written to the disk.
  virtual std::function<void()> RecordsFlusher() = 0;

 protected:
  ~EngineRooms() = default;
};

}  // namespace harmonaize::daemon
