#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/job_events/announcements.h"
#include "daemon/job_events/drain.h"
#include "daemon/job_events/forming_events.h"
#include "daemon/job_events/hang_events.h"
#include "daemon/job_events/job_attachments.h"
#include "daemon/job_events/job_communicators.h"
#include "daemon/job_events/job_events.h"
#include "daemon/job_events/job_relay.h"
#include "daemon/job_events/notice_agreement.h"
#include "daemon/job_events/notice_answers.h"
#include "daemon/promises/promise_book.h"
#include "daemon/promises/record_keeper.h"

namespace harmonaize::daemon {

class Background;
class Cluster;
class CommunicatorObservers;
class CommunicatorRegistry;
class Diagnosis;
class EventBus;
class EventLoop;
class JobTable;
class Membership;
class SessionTable;
class WaitingCount;

/// The parts of the engine by which jobs hear of events and answer them. What was announced and
/// promised is kept in the state directory, and goes on in the next daemon. Thread: engine.
class EventRooms {
 public:
  /// All of these outlive this object.
  struct Services {
    EventBus* bus = nullptr;
    std::string state_path = {};  ///< "": nothing is kept.
    Background* background = nullptr;
    EventLoop* loop = nullptr;
    Cluster* cluster = nullptr;  ///< nullptr where this host stands alone.
    const CommunicatorRegistry* communicators = nullptr;
    JobTable* jobs = nullptr;
    const SessionTable* sessions = nullptr;
    Membership* membership = nullptr;
    const WaitingCount* waiting = nullptr;
    CommunicatorObservers* observers = nullptr;
    Diagnosis* diagnosis = nullptr;
    std::function<void()> restart = {};  ///< As Drain::Services::restart.
  };

  /// Goes on with what earlier daemons have announced and promised.
  explicit EventRooms(const Services& services);
  EventRooms(const EventRooms&) = delete;
  EventRooms& operator=(const EventRooms&) = delete;

  const JobCommunicators& job_communicators() const { return by_job_; }
  JobAttachments& attachments() { return attachments_; }
  const JobRelay& relay() const { return relay_; }
  JobEvents& job_events() { return events_; }
  Announcements& announcements() { return announcements_; }
  PromiseBook& promises() { return promises_; }
  NoticeAnswers& answers() { return answers_; }
  NoticeAgreement& agreement() { return agreement_; }
  Drain& drain() { return drain_; }
  RecordKeeper& records() { return *records_; }

  /// Tells all jobs on this host that the daemon ends.
  void TellOfEnd();

 private:
  const JobTable& jobs_;
  const std::unique_ptr<RecordKeeper> records_;
  PromiseBook promises_;
  JobCommunicators by_job_;
  JobAttachments attachments_;
  JobRelay relay_;
  JobEvents events_;
  HangEvents hangs_;
  FormingEvents forming_;
  Announcements announcements_;
  NoticeAnswers answers_;
  NoticeAgreement agreement_;
  Drain drain_;
};

}  // namespace harmonaize::daemon
