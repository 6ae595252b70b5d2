#include "daemon/job_events/event_rooms.h"

#include <utility>

#include "daemon/communicator/communicator_observer.h"
#include "daemon/diagnosis/diagnosis.h"
#include "daemon/formation/membership.h"
#include "daemon/jobs/job_table.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// Opens the file of what is promised. Without it nothing is kept, and the rest goes on.
std::unique_ptr<RecordKeeper> OpenRecords(const std::string& state_path, Background* background) {
  if (state_path.empty()) return std::make_unique<RecordKeeper>();
  Result<std::unique_ptr<RecordKeeper>> opened =
      RecordKeeper::Open(state_path + "/promises.sqlite3", background);
  if (opened.ok()) return std::move(*opened);
  Log(LogLevel::kWarning, kLogInit,
      "what is promised and announced does not outlive this daemon: {}", opened.status().message());
  return std::make_unique<RecordKeeper>();
}

}  // namespace

EventRooms::EventRooms(const Services& services)
    : jobs_(*services.jobs),
      records_(OpenRecords(services.state_path, services.background)),
      promises_(records_.get()),
      relay_({.cluster = services.cluster,
              .communicators = services.communicators,
              .by_job = &by_job_,
              .attachments = &attachments_}),
      events_({.bus = services.bus, .relay = &relay_, .book = &promises_}),
      hangs_(&events_),
      forming_(&events_),
      announcements_({.events = &events_,
                      .by_job = &by_job_,
                      .book = &promises_,
                      .keeper = records_.get(),
                      .loop = services.loop}),
      answers_({.book = &promises_, .jobs = services.jobs, .events = &events_}),
      agreement_({.announcements = &announcements_,
                  .by_job = &by_job_,
                  .sessions = services.sessions,
                  .book = &promises_,
                  .loop = services.loop}),
      drain_({.announcements = &announcements_,
              .membership = services.membership,
              .communicators = services.communicators,
              .waiting = services.waiting,
              .events = &events_,
              .book = &promises_,
              .keeper = records_.get(),
              .loop = services.loop,
              .restart = services.restart}) {
  services.observers->Add(&by_job_);
  services.observers->Add(&events_);
  services.diagnosis->Add(&hangs_);
  services.membership->SetObserver(&forming_);
  services.observers->Add(&announcements_);
  promises_.SetListener([this](const ToldNotice&) { agreement_.OnAnswer(); });
  // In this order: announcements refer to promises, and a drain to an announcement.
  promises_.Restore();
  announcements_.Restore();
  drain_.Restore();
}

void EventRooms::TellOfEnd() {
  for (const auto& [key, job] : jobs_.all()) {
    if (job->communicators > 0) events_.TellOfEnd(*job);
  }
}

}  // namespace harmonaize::daemon
