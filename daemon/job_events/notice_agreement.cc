#include "daemon/job_events/notice_agreement.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "daemon/job_events/job_communicators.h"
#include "daemon/jobs/job_table.h"
#include "daemon/promises/promise_book.h"
#include "daemon/tenant/session_table.h"
#include "daemon/tenant/tenant.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

using AgreementClock = std::chrono::steady_clock;

/// Time between looks. A program that connects and goes between two of them has formed no
/// communicator that the notice could harm.
constexpr std::chrono::seconds kAgreementLookEvery(1);

bool Agrees(const std::vector<const ToldNotice*>& told, const Job& job) {
  return std::any_of(told.begin(), told.end(), [&](const ToldNotice* one) {
    return one->job == job.id.text() && one->tenant.name == job.tenant->identity.name &&
           one->acknowledged_seconds > 0 && one->asked_seconds == 0;
  });
}

bool IsForming(Session& session) {
  const std::vector<Member*> members = session.Members();
  return std::any_of(members.begin(), members.end(), [](const Member* member) {
    return member->formation != nullptr || member->ticket != 0;
  });
}

}  // namespace

// ---------------------------------------------------------------------------------------------
// Looking

void NoticeAgreement::OnAnswer() {
  if (policy_.source.empty() || !Look()) return;
  const Status started = next_look_.Start(kAgreementLookEvery, [this] {
    if (!Look()) next_look_.Stop();
  });
  if (!started.ok()) Log(LogLevel::kWarning, kLogInit, "{}", started.message());
}

bool NoticeAgreement::Look() {
  const Time now = AgreementClock::now();
  std::map<std::string, State> states;
  bool again = false;
  for (const Announcements::Active& active : services_.announcements->All()) {
    if (!IsCandidate(active.notice) || !AnyAgrees(active)) continue;
    const auto known = states_.find(active.notice.id);
    State state{.notice = active.notice};
    // A notice that has changed has not been agreed to.
    if (known != states_.end() && known->second.notice == active.notice) state = known->second;
    const bool agreed = AllAgree(active);
    if (agreed && !state.agreed) state.since = now;
    state.agreed = agreed;
    const bool counts = agreed && !state.told && now - state.since >= policy_.lasts;
    state.told = state.told || counts;
    again = again || !state.told;
    states[active.notice.id] = state;
    if (!counts) continue;
    Log(LogLevel::kInfo, kLogInit, "all jobs here have acknowledged {} of {}", active.notice.id,
        active.notice.source);
    policy_.on_agreement(active.notice);
  }
  states_ = std::move(states);
  return again;
}

// ---------------------------------------------------------------------------------------------
// Who agrees

bool NoticeAgreement::IsCandidate(const CloudNotice& notice) const {
  return notice.source == policy_.source && notice.state == CloudNotice::State::kScheduled &&
         !notice.concerns_others;
}

bool NoticeAgreement::AnyAgrees(const Announcements::Active& active) const {
  const std::vector<const ToldNotice*> told = services_.book->ToldOf(active.promise);
  return std::any_of(told.begin(), told.end(),
                     [](const ToldNotice* one) { return one->acknowledged_seconds > 0; });
}

bool NoticeAgreement::AllAgree(const Announcements::Active& active) const {
  const std::vector<const ToldNotice*> told = services_.book->ToldOf(active.promise);
  std::set<const Tenant*> agreeing;
  for (const Job* job : services_.by_job->WithRanksHere()) {
    if (!Agrees(told, *job)) return false;
    agreeing.insert(job->tenant);
  }
  if (agreeing.empty()) return false;
  return std::none_of(
      services_.sessions->all().begin(), services_.sessions->all().end(), [&](const auto& entry) {
        return !agreeing.contains(&entry.second->tenant()) || IsForming(*entry.second);
      });
}

}  // namespace harmonaize::daemon
