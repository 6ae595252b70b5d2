#include "daemon/sources/source_poller.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "daemon/runtime/guarded.h"
#include "daemon/sources/source_session.h"

namespace harmonaize::daemon {
namespace {

namespace asio = boost::asio;

Status PollerStopped() {
  return Unavailable("the daemon polls no sources any more");
}

Status NoAzure() {
  return InvalidUsage("there is no source azure whose events could be approved");
}

}  // namespace

/// The thread's own things.
struct SourcePoller::Loop {
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> stays{io.get_executor()};
  std::vector<std::unique_ptr<SourceLane>> lanes;
  bool is_over = false;

  SourceLane::Clock::time_point due() const {
    auto due = SourceLane::Clock::time_point::max();
    for (const auto& lane : lanes) due = std::min(due, lane->due());
    return due;
  }
};

SourcePoller::SourcePoller(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {
  for (const auto& lane : loop_->lanes) report_.push_back({std::string(lane->name())});
}

Result<std::unique_ptr<SourcePoller>> SourcePoller::Start(const SourcesConfig& config,
                                                          OnNotice on_notice, PollPace pace) {
  HZ_RETURN_IF_ERROR(ValidateSources(config));
  return Caught([&]() -> Result<std::unique_ptr<SourcePoller>> {
    auto loop = std::make_unique<Loop>();
    for (const SourceConfig& source : config.sources) {
      for (std::unique_ptr<SourceSession>& session : MakeSessions(source)) {
        loop->lanes.push_back(
            std::make_unique<SourceLane>(loop->io, source, std::move(session), pace, on_notice));
      }
    }
    std::unique_ptr<SourcePoller> poller(new SourcePoller(std::move(loop)));
    if (!poller->loop_->lanes.empty()) {
      poller->thread_ = std::thread([self = poller.get()] { self->Run(); });
    }
    return poller;
  });
}

SourcePoller::~SourcePoller() {
  Stop();
}

void SourcePoller::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    // It takes no memory, and ends a wait, the one under way or the next. The thread, which begins
    // anew for the last calls, sees stopping_ only afterwards.
    loop_->io.stop();
  }
  if (thread_.joinable()) thread_.join();
}

void SourcePoller::Run() noexcept {
  pthread_setname_np(pthread_self(), "hz-sources");
  const auto is_stopping = [this] {
    const std::lock_guard lock(mutex_);
    return stopping_;
  };
  while (!is_stopping()) {
    const auto now = SourceLane::Clock::now();
    for (const auto& lane : loop_->lanes) lane->Act(now);
    GuardedAndLogged("a step of a source", [this] { loop_->io.run_one_until(loop_->due()); });
    GuardedAndLogged("a report of the sources", [this] { Publish(); });
  }
  // Approvals that were asked for meanwhile are answered.
  loop_->is_over = true;
  for (const auto& lane : loop_->lanes) lane->Stop();
  loop_->io.restart();
  GuardedAndLogged("the end of the sources", [this] { loop_->io.poll(); });
}

void SourcePoller::Publish() {
  const std::lock_guard lock(mutex_);
  for (size_t place = 0; place < report_.size(); ++place) {
    report_[place].health = loop_->lanes[place]->health();
  }
}

void SourcePoller::Approve(const std::string& id, std::function<void(Status)> done) {
  const Status posted = Caught([&] { return PostApproval(id, done); });
  if (!posted.ok()) done(posted);
}

Status SourcePoller::PostApproval(const std::string& id, const std::function<void(Status)>& done) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return PollerStopped();
  if (loop_->lanes.empty()) return NoAzure();
  asio::post(loop_->io, [loop = loop_.get(), id, done] {
    if (loop->is_over) return done(PollerStopped());
    const auto azure = std::find_if(loop->lanes.begin(), loop->lanes.end(),
                                    [](const auto& lane) { return lane->kind() == "azure"; });
    if (azure == loop->lanes.end()) return done(NoAzure());
    (*azure)->Approve(id, done);
  });
  return Status::Ok();
}

std::vector<SourceReport> SourcePoller::Report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

}  // namespace harmonaize::daemon
