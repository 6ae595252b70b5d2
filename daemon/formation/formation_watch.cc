#include "daemon/formation/formation_watch.h"

#include <utility>
#include <vector>

#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator.h"
#include "daemon/config/config.h"
#include "daemon/jobs/job_table.h"
#include "daemon/runtime/guarded.h"
#include "daemon/tenant/session_table.h"
#include "src/base/clock.h"

namespace harmonaize::daemon {
namespace {

/// Most missing ranks that an event lists. A person reads no more, and a tenant may have a million
/// missing.
constexpr size_t kMostMissingTold = 1024;

/// Returns what a rank of this host claims that belongs to the job; an empty claim if none does.
JobClaim ClaimAmong(const Formation& formation, const JobIdentity& job) {
  for (const auto& [place, applicant] : formation.taken()) {
    if (applicant.member == nullptr) continue;
    const JobClaim& claim = applicant.member->session->job_claim();
    if (claim.id == job) return claim;
  }
  return {};
}

}  // namespace

void FormationWatch::Refuse(const Applicant& applicant, const Status& why) {
  if (applicant.member != nullptr) {
    applicant.member->formation = nullptr;
    applicant.member->Fail(why);
  } else if (applicant.peer != kThisDaemon) {
    cluster_->Send(applicant.peer, RefusedMessage{{applicant.ticket}, why});
  }
}

void FormationWatch::RefuseAll(const Formation& formation, const Status& why) {
  // The formation goes next, so each of them has to be rid of it.
  for (const auto& taken : formation.taken()) {
    GuardedAndLogged("a refusal", [&] { Refuse(taken.second, why); });
  }
}

void FormationWatch::Fail(const FormationKey& key, const Status& why) {
  if (!pending_.contains(key)) return;
  RefuseAll(*pending_.Find(key)->formation, why);
  // While ranks waited here, their id outlived the process that had asked for it.
  if (const IssuedId* const id = ids_.Find(key.id)) {
    if (id->session != 0 && sessions_.Find(id->session) == nullptr) ids_.Erase(key.id);
  }
  const PendingFormation failed = pending_.Take(key);
  if (failed.ended != nullptr) failed.ended(why);
}

void FormationWatch::FailWaitingFor(const Communicator& parent, int rank, const Status& why) {
  for (const FormationKey& key : pending_.OfParent(parent.id())) {
    if (!pending_.Find(key)->formation->taken(static_cast<size_t>(rank))) Fail(key, why);
  }
}

// A broken communicator can only be shrunk, and a revoked one split, too.
void FormationWatch::OnBroken(const Communicator& parent, const Status& why) {
  const bool broken = parent.state() == Communicator::State::kBroken;
  for (const FormationKey& key : pending_.OfParent(parent.id())) {
    const bool is_split = key.kind == FormationKey::Kind::kSplit;
    if (key.kind == FormationKey::Kind::kGrow || (is_split && broken)) Fail(key, why);
  }
}

void FormationWatch::Withdraw(Member* member, const WhyWithdrawn& why) {
  Formation* const formation = member->formation;
  if (formation == nullptr) return;
  // Calls that may throw come first, so that a second call after an exception finds the same state.
  const Status status = why(formation->what(), formation->Missing());
  const FormationKey key = formation->key();
  member->formation = nullptr;
  formation->Forget(member->place_in_formation);
  Fail(key, status);
}

void FormationWatch::EraseIdsOf(const Session& session) {
  ids_.EraseOfSession(session.id(), [this](const UniqueId& id) {
    return pending_.contains({FormationKey::Kind::kSecretId, id});
  });
}

void FormationWatch::Tick(uint64_t now_ns) {
  const auto late_after = static_cast<uint64_t>(config_.late_after_seconds * 1e9);
  const auto timeout = static_cast<uint64_t>(config_.formation_timeout_seconds * 1e9);
  std::vector<std::pair<FormationKey, Status>> failing;
  for (auto& [key, pending] : pending_.all()) {
    NoteJob(&pending);
    const std::string notice = pending.formation->LateNotice(now_ns, late_after);
    if (!notice.empty()) {
      Notify(*pending.formation, notice);
      TellLate(&pending, now_ns);
    }
    if (pending.formation->age_ns(now_ns) > timeout) {
      failing.emplace_back(
          key, RemoteError("{} has waited {:.0f} s in vain for {}", pending.formation->what(),
                           config_.formation_timeout_seconds, pending.formation->Missing()));
    }
  }
  for (const auto& [key, why] : failing) Fail(key, why);
}

// A rank that comes may claim another job than those before it.
void FormationWatch::NoteJob(PendingFormation* pending) {
  const Formation& formation = *pending->formation;
  if (pending->ranks_heard == formation.taken().size()) return;
  const JobIdentity id = formation.JobOfRanks();
  Job* const job = jobs_.Of(id, &pending->formation->tenant(), ClaimAmong(formation, id));
  if (pending->job.job() != job) pending->job = JobHold(&jobs_, job, &Job::forming);
  pending->ranks_heard = formation.taken().size();
}

void FormationWatch::TellLate(PendingFormation* pending, uint64_t now_ns) {
  if (observer_ == nullptr || !pending->told_late.empty()) return;
  std::vector<int> missing = pending->formation->MissingRanks(kMostMissingTold);
  const bool told =
      observer_->OnFormingLate(*pending->job.job(), *pending->formation, missing, now_ns);
  if (told) pending->told_late = std::move(missing);
}

void FormationWatch::NoteFormed(const PendingFormation& formed) {
  if (observer_ == nullptr || formed.told_late.empty()) return;
  observer_->OnFormed(*formed.job.job(), *formed.formation, formed.told_late,
                      MonotonicNanoseconds());
}

void FormationWatch::Notify(const Formation& formation, const std::string& notice) {
  for (const auto& [place, applicant] : formation.taken()) {
    if (applicant.member != nullptr) {
      applicant.member->slot->notice.Set(notice);
    } else if (applicant.peer != kThisDaemon) {
      cluster_->Send(applicant.peer, FormingNoticeMessage{{applicant.ticket}, notice});
    }
  }
}

void FormationWatch::OnWithdraw(transport::PeerId peer, const WithdrawMessage& withdraw) {
  PendingFormation* const pending = pending_.FindByTicket(peer, withdraw.ticket);
  if (pending == nullptr) return;
  const FormationKey key = pending->formation->key();
  const std::vector<size_t> places = pending->formation->PlacesWhere(
      [&](const Applicant& one) { return one.peer == peer && one.ticket == withdraw.ticket; });
  if (places.empty()) return;
  pending->formation->Forget(places.front());
  Fail(key, withdraw.status.ok() ? RemoteError("a rank gave up") : withdraw.status);
}

void FormationWatch::OnPeerLost(transport::PeerId peer) {
  std::vector<std::pair<FormationKey, Status>> failing;
  for (auto& [key, pending] : pending_.all()) {
    const std::vector<size_t> places = pending.formation->PlacesWhere(
        [&](const Applicant& applicant) { return applicant.peer == peer; });
    if (places.empty()) continue;
    failing.emplace_back(key,
                         RemoteError("rank {} is lost during {}: its host's daemon does not answer",
                                     places.front(), pending.formation->what()));
    for (const size_t place : places) pending.formation->Forget(place);
  }
  for (const auto& [key, why] : failing) Fail(key, why);
}

void FormationWatch::OnRankLeft(Communicator& communicator, int rank) {
  FailWaitingFor(communicator, rank, RemoteError("rank {} has left the communicator", rank));
}

}  // namespace harmonaize::daemon
