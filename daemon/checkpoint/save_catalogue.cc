#include "daemon/checkpoint/save_catalogue.h"

#include <utility>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/this_daemon.h"
#include "daemon/communicator/communicator.h"
#include "daemon/multihost/host_group.h"
#include "daemon/tenant/tenant.h"
#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// Nanoseconds within which hosts are to answer. One that is well needs a round trip, and one that
/// is to be reached first a connection.
constexpr uint64_t kAnswersWithinNs = 2'000'000'000;
/// Pause between looks for answers that are overdue.
constexpr std::chrono::milliseconds kLookEvery{100};

}  // namespace

// ---------------------------------------------------------------------------------------------
// Lists

void SaveCatalogue::List(const Communicator& communicator, Listed listed) {
  if (services_.cluster == nullptr) return listed({});
  const uint64_t call = next_call_++;
  listings_[call] = {.listed = std::move(listed),
                     .until_ns = MonotonicNanoseconds() + kAnswersWithinNs};
  const AskSavesMessage ask = {.call = call,
                               .user = communicator.tenant().identity.across_hosts,
                               .job = EncodeJob(communicator.job()->id)};
  const TenantIdentity& tenant = communicator.tenant().identity;
  Listing& listing = listings_.at(call);
  for (const auto& [peer, info] : services_.cluster->linked()) {
    const bool knows = services_.cluster->CheckKnown(peer, AskSavesMessage::kKind).ok();
    if (!knows || !services_.cluster->SendFor(tenant, peer, ask).ok()) continue;
    listing.asked.insert(peer);
  }
  if (const HostGroup* const group = communicator.host_group()) {
    const Roster& roster = group->roster();
    for (int host = 0; host < roster.hosts(); ++host) {
      const auto& peer = roster.peers[static_cast<size_t>(host)];
      const bool is_linked = peer.has_value() && services_.cluster->Linked(*peer);
      if (host == roster.self || is_linked) continue;
      AskAt(call, communicator, ask, roster.addresses[static_cast<size_t>(host)]);
    }
  }
  Watch();
  EndIfAnswered(call);
}

/// Asks a host that has to be reached first.
void SaveCatalogue::AskAt(uint64_t call, const Communicator& communicator,
                          const AskSavesMessage& ask, const std::string& address) {
  ++listings_.at(call).reaching;
  services_.cluster->Reach(
      address, lifetime_.Guard([this, call, ask, tenant = communicator.tenant().identity](
                                   const Result<transport::PeerId>& peer) {
        const auto listing = listings_.find(call);
        if (listing == listings_.end()) return;
        --listing->second.reaching;
        const bool is_other = peer.ok() && *peer != kThisDaemon;
        if (is_other && services_.cluster->CheckKnown(*peer, AskSavesMessage::kKind).ok() &&
            services_.cluster->SendFor(tenant, *peer, ask).ok()) {
          listing->second.asked.insert(*peer);
        }
        EndIfAnswered(call);
      }));
}

void SaveCatalogue::OnSaves(transport::PeerId peer, const SavesMessage& answer) {
  const auto listing = listings_.find(answer.call);
  if (listing == listings_.end() || listing->second.asked.erase(peer) == 0) return;
  if (!answer.saves.empty()) listing->second.found.push_back({peer, answer.saves});
  EndIfAnswered(answer.call);
}

void SaveCatalogue::EndIfAnswered(uint64_t call) {
  const auto listing = listings_.find(call);
  if (listing == listings_.end()) return;
  if (listing->second.asked.empty() && listing->second.reaching == 0) EndListing(call);
}

void SaveCatalogue::EndListing(uint64_t call) {
  auto ended = listings_.extract(call);
  ended.mapped().listed(std::move(ended.mapped().found));
}

// ---------------------------------------------------------------------------------------------
// Parts

void SaveCatalogue::Locate(const Communicator& communicator, transport::PeerId peer, uint64_t save,
                           int rank, Located located) {
  const uint64_t call = next_call_++;
  const AskPartMessage ask = {.call = call,
                              .user = communicator.tenant().identity.across_hosts,
                              .job = EncodeJob(communicator.job()->id),
                              .save = save,
                              .rank = rank};
  const Status sent = services_.cluster->SendFor(communicator.tenant().identity, peer, ask);
  if (!sent.ok()) return located(sent);
  locatings_[call] = {.peer = peer,
                      .located = std::move(located),
                      .until_ns = MonotonicNanoseconds() + kAnswersWithinNs};
  Watch();
}

void SaveCatalogue::OnPartAt(transport::PeerId peer, const PartAtMessage& answer) {
  const auto found = locatings_.find(answer.call);
  if (found == locatings_.end() || found->second.peer != peer) return;
  const auto ended = locatings_.extract(found);
  if (!answer.status.ok()) return ended.mapped().located(answer.status);
  ended.mapped().located(answer);
}

// ---------------------------------------------------------------------------------------------
// Answers that do not come

void SaveCatalogue::OnPeerLost(transport::PeerId peer) {
  std::vector<uint64_t> calls;
  for (auto& [call, listing] : listings_) {
    if (listing.asked.erase(peer) > 0) calls.push_back(call);
  }
  for (const uint64_t call : calls) EndIfAnswered(call);
  calls.clear();
  for (const auto& [call, locating] : locatings_) {
    if (locating.peer == peer) calls.push_back(call);
  }
  for (const uint64_t call : calls) {
    const auto ended = locatings_.extract(call);
    ended.mapped().located(RemoteError("the host that has a part of the checkpoint is gone"));
  }
}

void SaveCatalogue::Watch() {
  if (next_look_.running()) return;
  const Status started = next_look_.Start(kLookEvery, [this] { EndOverdue(); });
  if (!started.ok()) {
    Log(LogLevel::kWarning, kLogInit, "hosts are waited for without end: {}", started.message());
  }
}

void SaveCatalogue::EndOverdue() {
  const uint64_t now_ns = MonotonicNanoseconds();
  std::vector<uint64_t> overdue;
  for (const auto& [call, listing] : listings_) {
    if (listing.until_ns <= now_ns) overdue.push_back(call);
  }
  for (const uint64_t call : overdue) EndListing(call);
  overdue.clear();
  for (const auto& [call, locating] : locatings_) {
    if (locating.until_ns <= now_ns) overdue.push_back(call);
  }
  for (const uint64_t call : overdue) {
    const auto ended = locatings_.extract(call);
    ended.mapped().located(RemoteError("the host that has a part of the checkpoint is silent"));
  }
  if (listings_.empty() && locatings_.empty()) next_look_.Stop();
}

}  // namespace harmonaize::daemon
