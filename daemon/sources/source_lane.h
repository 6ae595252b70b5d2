#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "daemon/sources/endpoint.h"
#include "daemon/sources/http_fetch.h"
#include "daemon/sources/name_lookup.h"
#include "daemon/sources/notice_ledger.h"
#include "daemon/sources/poll_pace.h"
#include "daemon/sources/source_session.h"
#include "daemon/sources/sources_config.h"

namespace harmonaize::daemon {

/// Whether a source answers.
enum class SourceHealth : uint8_t {
  kNotAsked,  ///< No poll has ended yet.
  kWell,
  kDoubtful,  ///< It answers; a part of what it says is not understood.
  kFailing,
};

/// Polls by one session, one after the other, and keeps its ledger. It never waits: Act is to be
/// called at due(). Thread: the one that runs the io_context.
class SourceLane {
 public:
  using Clock = std::chrono::steady_clock;
  using OnNotice = std::function<void(const CloudNotice&)>;

  SourceLane(boost::asio::io_context& io, const SourceConfig& config,
             std::unique_ptr<SourceSession> session, PollPace pace, OnNotice on_notice);
  ~SourceLane() { Stop(); }
  SourceLane(const SourceLane&) = delete;
  SourceLane& operator=(const SourceLane&) = delete;

  /// Begins a poll that is due, and gives up requests that have run out of time.
  void Act(Clock::time_point now) noexcept;
  /// When Act has something to do next.
  Clock::time_point due() const;
  /// Ends all requests. What waits for an approval hears that the poller has stopped.
  void Stop() noexcept;

  /// Lets Azure begin with a scheduled event (SourcePoller::Approve).
  void Approve(const std::string& id, std::function<void(Status)> done);

  const std::string& kind() const { return config_.kind; }
  std::string_view name() const { return session_->name(); }
  SourceHealth health() const { return health_; }

 private:
  struct Approval {
    uint64_t number;
    std::string id;
    std::function<void(Status)> done;
    Clock::time_point deadline;
    std::shared_ptr<HttpFetch> fetch;
  };

  /// Runs a step of the poll, which returns a Status; an error or an exception ends the poll.
  template <typename Call>
  void Step(Call&& step) noexcept;
  Status BeginPoll();
  void Allow(std::chrono::milliseconds time);
  Status StartRequest(const SourceRequest& request);
  Status OnAnswer(const Result<SourceAnswer>& answer);
  void OnPublished(const PublishedNotices& published);
  void EndPoll(const Status& outcome);
  void GiveUpRequest() noexcept;
  void Pause();
  void SetHealth(SourceHealth health, std::string_view why);
  Status StartApproval(const std::string& id, const std::function<void(Status)>& done);
  void EndApproval(uint64_t number, const Status& outcome);

  boost::asio::io_context& io_;
  const SourceConfig config_;
  const PollPace pace_;
  const OnNotice on_notice_;
  const std::unique_ptr<SourceSession> session_;
  FetchServer server_;
  NoticeLedger ledger_;
  NameLookup lookup_;
  std::shared_ptr<HttpFetch> fetch_;     // the request under way
  bool is_asking_ = false;               // a poll is under way
  std::chrono::milliseconds allowed_{};  // for what is under way
  Clock::time_point due_;                // while asking: the deadline; else: the next poll
  int failures_ = 0;                     // in a row
  SourceHealth health_ = SourceHealth::kNotAsked;
  std::list<Approval> approvals_;
  uint64_t last_approval_ = 0;
  std::minstd_rand random_;
};

}  // namespace harmonaize::daemon
