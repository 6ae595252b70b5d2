#include "daemon/sources/source_lane.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "daemon/runtime/guarded.h"
#include "src/base/clean_text.h"
#include "src/base/log.h"
#include "src/base/small_file.h"

namespace harmonaize::daemon {
namespace {

/// Longest file of certificate authorities, in bytes: four times the list that Debian ships.
constexpr size_t kMostAuthoritiesBytes = size_t{1} << 20;
/// Longest reason of a failure in the log, in bytes; it may quote what a server said.
constexpr size_t kMostReasonBytes = 512;
/// Approvals that may be under way at once: more than a host has events at a time.
constexpr size_t kMostApprovals = 8;

}  // namespace

SourceLane::SourceLane(boost::asio::io_context& io, const SourceConfig& config,
                       std::unique_ptr<SourceSession> session, PollPace pace, OnNotice on_notice)
    : io_(io),
      config_(config),
      pace_(pace),
      on_notice_(std::move(on_notice)),
      session_(std::move(session)),
      lookup_(io),
      due_(Clock::now()),
      random_(std::random_device()()) {}

SourceLane::Clock::time_point SourceLane::due() const {
  Clock::time_point due = due_;
  for (const Approval& approval : approvals_) due = std::min(due, approval.deadline);
  return due;
}

void SourceLane::Act(Clock::time_point now) noexcept {
  GuardedAndLogged("the end of an approval", [&] {
    while (!approvals_.empty() && now >= approvals_.front().deadline) {
      approvals_.front().fetch->Cancel();
      EndApproval(approvals_.front().number, RemoteError("Azure did not answer in time"));
    }
  });
  if (now < due_) return;
  if (!is_asking_) return Step([this] { return BeginPoll(); });
  Step([this] { return RemoteError("there was no answer within {} ms", allowed_.count()); });
}

// The pause is set before anything that may throw, so that the lane goes on whatever happens.
template <typename Call>
void SourceLane::Step(Call&& step) noexcept {
  due_ = Clock::now() + pace_.most_pause;
  Guarded(
      [&] {
        const Status outcome = step();
        if (!outcome.ok()) EndPoll(outcome);
      },
      [&](const Status& exception) { EndPoll(exception); });
}

Status SourceLane::BeginPoll() {
  is_asking_ = true;
  HZ_ASSIGN_OR_RETURN(const SourceRequest request, session_->Begin());
  HZ_ASSIGN_OR_RETURN(server_.endpoint, ParseEndpoint(EndpointOf(config_)));
  if (!config_.ca_file.empty()) {
    HZ_ASSIGN_OR_RETURN(server_.authorities, ReadSmallFile(config_.ca_file, kMostAuthoritiesBytes));
  }
  if (server_.endpoint.is_address) {
    server_.addresses = {server_.endpoint.host};
    return StartRequest(request);
  }
  Allow(pace_.deadline);
  return lookup_.Start(server_.endpoint.host, [this, request](const auto& addresses) {
    Step([&]() -> Status {
      if (!addresses.ok()) return addresses.status();
      server_.addresses = *addresses;
      return StartRequest(request);
    });
  });
}

void SourceLane::Allow(std::chrono::milliseconds time) {
  allowed_ = time;
  due_ = Clock::now() + time;
}

Status SourceLane::StartRequest(const SourceRequest& request) {
  Allow(pace_.deadline + request.wait_seconds * pace_.second);
  HZ_ASSIGN_OR_RETURN(fetch_, HttpFetch::Start(io_, server_, request, [this](auto answer) {
                        Step([&] { return OnAnswer(answer); });
                      }));
  return Status::Ok();
}

Status SourceLane::OnAnswer(const Result<SourceAnswer>& answer) {
  if (!answer.ok()) return answer.status();
  HZ_ASSIGN_OR_RETURN(const SourceStep step, session_->Take(*answer));
  if (step.next.has_value()) return StartRequest(*step.next);
  OnPublished(step.published);
  EndPoll(Status::Ok());
  return Status::Ok();
}

void SourceLane::OnPublished(const PublishedNotices& published) {
  const std::vector<CloudNotice> news = ledger_.Update(published, std::time(nullptr));
  for (const CloudNotice& notice : news) {
    GuardedAndLogged("the handling of a cloud's notice", [&] { on_notice_(notice); });
  }
  if (!published.doubt.empty()) return SetHealth(SourceHealth::kDoubtful, published.doubt);
  if (ledger_.left_out() == 0) return SetHealth(SourceHealth::kWell, "");
  SetHealth(SourceHealth::kDoubtful, "it has more notices than are looked at, or two with one id");
}

void SourceLane::EndPoll(const Status& outcome) {
  GiveUpRequest();
  is_asking_ = false;
  failures_ = outcome.ok() ? 0 : failures_ + 1;
  Pause();
  if (!outcome.ok()) SetHealth(SourceHealth::kFailing, outcome.message());
}

void SourceLane::GiveUpRequest() noexcept {
  lookup_.GiveUp();
  if (fetch_ != nullptr) fetch_->Cancel();
  fetch_ = nullptr;
}

// The pause doubles with each failure. It varies by a tenth, so that the hosts of a cluster do not
// all ask at the same moment.
void SourceLane::Pause() {
  const int64_t interval =
      config_.interval_seconds > 0 ? config_.interval_seconds : UsualInterval(config_.kind);
  std::chrono::milliseconds pause = interval * pace_.second;
  for (int i = 0; i < failures_ && pause < pace_.most_pause; ++i) pause *= 2;
  // An interval may be longer than the longest pause after failures.
  pause = std::min(pause, std::max(pace_.most_pause, interval * pace_.second));
  const double factor = std::uniform_real_distribution<>(0.9, 1.0)(random_);
  due_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(pause * factor);
}

void SourceLane::SetHealth(SourceHealth health, std::string_view why) {
  const SourceHealth before = std::exchange(health_, health);
  if (before == health) return;
  const std::string reason = CleanText(why, kMostReasonBytes);
  if (health == SourceHealth::kFailing) {
    Log(LogLevel::kWarning, kLogInit,
        "the source {} cannot be polled: {}; it is tried again, and nothing more is said until it "
        "answers",
        name(), reason);
  } else if (health == SourceHealth::kDoubtful) {
    Log(LogLevel::kWarning, kLogInit, "the source {} says something that is not understood: {}",
        name(), reason);
  } else {
    Log(LogLevel::kInfo, kLogInit, "the source {} answers", name());
  }
}

void SourceLane::Approve(const std::string& id, std::function<void(Status)> done) {
  const Status started = Caught([&] { return StartApproval(id, done); });
  if (!started.ok()) GuardedAndLogged("an approval", [&] { done(started); });
}

Status SourceLane::StartApproval(const std::string& id, const std::function<void(Status)>& done) {
  const CloudNotice* const notice = ledger_.Find(id);
  if (notice == nullptr || notice->state != CloudNotice::State::kScheduled) {
    return InvalidUsage("Azure has scheduled no event '{}' for this host",
                        CleanText(id, kMostNoticeIdBytes));
  }
  if (approvals_.size() == kMostApprovals) {
    return InvalidUsage("{} approvals wait for Azure's answer; try again", kMostApprovals);
  }
  const SourceRequest request = AzureApprovalRequest(id);
  const uint64_t number = ++last_approval_;
  HZ_ASSIGN_OR_RETURN(
      std::shared_ptr<HttpFetch> fetch,
      HttpFetch::Start(io_, server_, request, [this, number, request](const auto& answer) {
        const bool refused = answer.ok() && answer->status != 200;
        EndApproval(number, refused ? UnexpectedStatus(request, *answer) : answer.status());
      }));
  approvals_.push_back({number, id, done, Clock::now() + pace_.deadline, std::move(fetch)});
  return Status::Ok();
}

void SourceLane::EndApproval(uint64_t number, const Status& outcome) {
  const auto approval = std::find_if(approvals_.begin(), approvals_.end(),
                                     [&](const Approval& one) { return one.number == number; });
  if (approval == approvals_.end()) return;
  if (outcome.ok()) ledger_.SetApproved(approval->id);
  const std::function<void(Status)> done = std::move(approval->done);
  approvals_.erase(approval);
  GuardedAndLogged("an approval", [&] { done(outcome); });
}

void SourceLane::Stop() noexcept {
  GiveUpRequest();
  is_asking_ = false;
  for (Approval& approval : approvals_) {
    approval.fetch->Cancel();
    GuardedAndLogged("an approval",
                     [&] { approval.done(Unavailable("the daemon polls no sources any more")); });
  }
  approvals_.clear();
}

}  // namespace harmonaize::daemon
