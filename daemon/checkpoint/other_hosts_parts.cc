#include "daemon/checkpoint/other_hosts_parts.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/checkpoint/held_saves.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/this_daemon.h"
#include "daemon/communicator/communicator.h"
#include "daemon/multihost/host_group.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/tenant/tenant.h"
#include "daemon/tenant/tenant_table.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

/// Time, in nanoseconds, for which it is remembered where parts are: a restart reads them at once.
constexpr uint64_t kRememberNs = 600'000'000'000;
/// Most copies for other hosts that are under way at a time, each with a thread. A host asks for
/// two at a time, and asks again later.
constexpr size_t kMostComing = 16;

std::shared_ptr<const SecureSettings> SettingsOf(const Cluster* cluster) {
  if (cluster == nullptr) return nullptr;
  Result<std::shared_ptr<const SecureSettings>> settings =
      SecureSettings::Of(cluster->SecretFor("transfers of checkpoints"));
  if (settings.ok()) return *settings;
  Log(LogLevel::kWarning, kLogInit, "checkpoints stay on their hosts: {}",
      settings.status().message());
  return nullptr;
}

std::vector<uint8_t> TicketBytes(const TransferTicket& ticket) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(ticket.data());
  return {bytes, bytes + ticket.size()};
}

/// Returns what reads a part that another daemon gives away, at the place that it has told.
Result<std::shared_ptr<PartSource>> SourceAt(const std::string& address,
                                             const std::vector<uint8_t>& ticket,
                                             std::shared_ptr<const SecureSettings> settings) {
  HZ_ASSIGN_OR_RETURN(const transport::NetworkAddress place,
                      transport::NetworkAddress::Parse(address));
  TransferTicket key = {};
  std::transform(ticket.begin(), ticket.end(), key.begin(),
                 [](uint8_t byte) { return static_cast<std::byte>(byte); });
  return std::shared_ptr<PartSource>(std::make_shared<PartFetch>(place, key, std::move(settings)));
}

/// Returns the request to keep a copy of a part, as far as it is the same each time. `key` is that
/// of the communicator, and `user` TenantIdentity::across_hosts.
KeepPartMessage RequestToKeep(uint32_t user, uint64_t key, const KeptPart& part) {
  return {.about = key,
          .user = user,
          .job = EncodeJob(part.job.second),
          .save = part.save,
          .step = part.step,
          .round = part.round,
          .rank = part.rank,
          .ranks = part.ranks,
          .kept = part.is_kept,
          .saved = part.saved_seconds,
          .bytes = part.bytes};
}

PartKeptMessage AnswerTo(const KeepPartMessage& keep, const Status& status) {
  return {.about = keep.about, .round = keep.round, .rank = keep.rank, .status = status};
}

}  // namespace

OtherHostsParts::OtherHostsParts(const Services& services)
    : services_(services),
      settings_(SettingsOf(services.cluster)),
      catalogue_({.cluster = services.cluster, .loop = services.loop}),
      fetched_({.loop = services.loop, .eraser = eraser_}),
      coming_({.loop = services.loop, .eraser = eraser_}) {}

PartName OtherHostsParts::NameOf(uint32_t user, const std::vector<uint8_t>& job, uint64_t save,
                                 int rank) const {
  const uint32_t tenant = services_.tenants->AcrossHosts(user)->identity.number;
  return {.job = {tenant, DecodeJob(job)}, .save = save, .rank = rank};
}

// ---------------------------------------------------------------------------------------------
// For ranks of this host

void OtherHostsParts::List(const Communicator& communicator, Listed listed) {
  const JobTable::Key job = JobTable::KeyOf(*communicator.job());
  catalogue_.List(
      communicator, [this, job, listed = std::move(listed)](std::vector<HostSaves> hosts) {
        Holders holders = {.of_part = {}, .until_ns = MonotonicNanoseconds() + kRememberNs};
        for (const HostSaves& host : hosts) {
          for (const HeldSave& save : host.saves) {
            for (const int rank : save.parts)
              holders.of_part.try_emplace({save.save, rank}, host.peer);
          }
        }
        holders_[job] = std::move(holders);
        listed(std::move(hosts));
      });
}

std::optional<transport::PeerId> OtherHostsParts::HolderOf(const PartName& name) const {
  const auto holders = holders_.find(name.job);
  if (holders == holders_.end()) return std::nullopt;
  const auto holder = holders->second.of_part.find({name.save, name.rank});
  if (holder == holders->second.of_part.end()) return std::nullopt;
  return holder->second;
}

void OtherHostsParts::Fetch(const Communicator& communicator, const PartName& name, uint64_t at,
                            uint64_t bytes, Fetched fetched) {
  if (fetched_.Contains(name)) {
    return fetched_.Fetch(name, at, bytes, MonotonicNanoseconds(), std::move(fetched));
  }
  const std::optional<transport::PeerId> holder = HolderOf(name);
  if (!holder.has_value() || settings_ == nullptr) {
    return fetched(Status(Code::kUnavailable, "no host is known to have this part"));
  }
  catalogue_.Locate(communicator, *holder, name.save, name.rank,
                    [this, name, at, bytes, account = communicator.tenant().account,
                     fetched = std::move(fetched)](const Result<PartAtMessage>& located) {
                      if (!located.ok()) return fetched(located.status());
                      const Status begun = BeginToFetch(name, *located, *account);
                      if (!begun.ok()) return fetched(begun);
                      fetched_.Fetch(name, at, bytes, MonotonicNanoseconds(), fetched);
                    });
}

Status OtherHostsParts::BeginToFetch(const PartName& name, const PartAtMessage& located,
                                     Account& account) {
  HZ_ASSIGN_OR_RETURN(std::shared_ptr<PartSource> source,
                      SourceAt(located.address, located.ticket, settings_));
  return fetched_.Begin(name, std::move(source), located.bytes, account, MonotonicNanoseconds());
}

// ---------------------------------------------------------------------------------------------
// Giving parts away

Status OtherHostsParts::StartServer() {
  if (server_ != nullptr) return Status::Ok();
  if (settings_ == nullptr) return SystemError("this host gives no parts of checkpoints away");
  server_ = std::make_unique<PartServer>(PartServer::Services{
      .address = services_.cluster->listening(), .settings = settings_, .idle_link = &idle_link_});
  return Status::Ok();
}

Result<OtherHostsParts::Given> OtherHostsParts::Offer(const KeptPart& part, bool when_idle) {
  HZ_RETURN_IF_ERROR(StartServer());
  HZ_ASSIGN_OR_RETURN(const PartServer::Offer offer,
                      server_->Add({.keeper = part.memory,
                                    .descriptor = part.memory->descriptor(),
                                    .bytes = part.bytes,
                                    .is_void = part.is_void,
                                    .when_idle = when_idle,
                                    .tenant = part.job.first}));
  transport::NetworkAddress address = services_.cluster->listening();
  address.set_port(offer.port);
  return Given{.address = address.ToString(), .ticket = TicketBytes(offer.ticket)};
}

void OtherHostsParts::OnAskSaves(transport::PeerId peer, const AskSavesMessage& ask) {
  const PartName name = NameOf(ask.user, ask.job, 0, 0);
  const KeptParts::ByBuffer* const parts = services_.parts->Of(name.job);
  SavesMessage answer = {.call = ask.call};
  if (parts != nullptr) answer.saves = HeldSaves(*parts);
  if (answer.saves.size() > kMostSavesTold) answer.saves.resize(kMostSavesTold);
  services_.cluster->Send(peer, answer);
}

void OtherHostsParts::OnAskPart(transport::PeerId peer, const AskPartMessage& ask) {
  const PartName name = NameOf(ask.user, ask.job, ask.save, ask.rank);
  PartAtMessage answer = {.call = ask.call};
  const KeptPart* const part = services_.parts->FindPart(name.job, name.save, name.rank);
  if (part == nullptr) {
    answer.status = RemoteError("another host does not have this part of a checkpoint any more");
  } else if (const Result<Given> offer = Offer(*part, false); offer.ok()) {
    answer.bytes = part->bytes;
    answer.address = offer->address;
    answer.ticket = offer->ticket;
  } else {
    answer.status = offer.status();
  }
  services_.cluster->Send(peer, answer);
}

// ---------------------------------------------------------------------------------------------
// Copies at other hosts

bool OtherHostsParts::Replicate(const Communicator& communicator, uint64_t key,
                                const KeptPart& part) {
  if (services_.cluster == nullptr || settings_ == nullptr) return false;
  const KeepPartMessage keep =
      RequestToKeep(communicator.tenant().identity.across_hosts, key, part);
  const PartName name = part.name();
  const HostGroup* const group = communicator.host_group();
  if (group != nullptr && group->roster().hosts() > 1) {
    // Each host's parts go to the next one, so that every host has one other's.
    const Roster& roster = group->roster();
    const auto next = static_cast<size_t>((roster.self + 1) % roster.hosts());
    services_.cluster->Reach(
        roster.addresses[next],
        lifetime_.Guard([this, keep, name](const Result<transport::PeerId>& peer) {
          if (peer.ok() && *peer != kThisDaemon && SendKeep(*peer, keep, name)) return;
          services_.on_kept(kThisDaemon, AnswerTo(keep, RemoteError("no host can be asked")));
        }));
    return true;
  }
  // A job of one host has its copy at any other.
  const auto& linked = services_.cluster->linked();
  return !linked.empty() && SendKeep(linked.begin()->first, keep, name);
}

bool OtherHostsParts::SendKeep(transport::PeerId peer, KeepPartMessage keep, const PartName& name) {
  // The part may have been overwritten while the peer was reached.
  const KeptPart* const now = services_.parts->FindPart(name.job, name.save, name.rank);
  const bool is_known = services_.cluster->CheckKnown(peer, KeepPartMessage::kKind).ok();
  if (now == nullptr || !is_known) return false;
  const Result<Given> offer = Offer(*now, true);
  if (!offer.ok()) {
    Log(LogLevel::kDebug, kLogInit, "a part is not offered: {}", offer.status().message());
    return false;
  }
  keep.address = offer->address;
  keep.ticket = offer->ticket;
  services_.cluster->Send(peer, keep);
  return true;
}

void OtherHostsParts::Refresh(uint64_t key, const KeptPart& part) {
  if (services_.cluster == nullptr || !services_.cluster->Linked(part.peer)) return;
  const Tenant* const tenant = services_.tenants->OfNumber(part.job.first);
  if (tenant == nullptr) return;
  services_.cluster->Send(part.peer, RequestToKeep(tenant->identity.across_hosts, key, part));
}

/// At the other host.
void OtherHostsParts::OnKeepPart(transport::PeerId peer, const KeepPartMessage& keep) {
  const PartName name = NameOf(keep.user, keep.job, keep.save, keep.rank);
  if (services_.parts->RefreshCopy(name.job, name.save, name.rank, UnixSeconds())) {
    return services_.cluster->Send(peer, AnswerTo(keep, Status::Ok()));
  }
  if (coming_.Contains(name) || keep.address.empty()) return;
  const Status begun = BeginToKeep(peer, keep, name);
  if (!begun.ok()) services_.cluster->Send(peer, AnswerTo(keep, begun));
}

Status OtherHostsParts::BeginToKeep(transport::PeerId peer, const KeepPartMessage& keep,
                                    const PartName& name) {
  if (settings_ == nullptr) return SystemError("this host keeps no copies");
  if (coming_.size() >= kMostComing) return InvalidUsage("{} copies are under way", kMostComing);
  HZ_ASSIGN_OR_RETURN(std::shared_ptr<PartSource> source,
                      SourceAt(keep.address, keep.ticket, settings_));
  Account& account = *services_.tenants->AcrossHosts(keep.user)->account;
  HZ_RETURN_IF_ERROR(
      coming_.Begin(name, std::move(source), keep.bytes, account, MonotonicNanoseconds()));
  coming_.Fetch(name, 0, keep.bytes, MonotonicNanoseconds(),
                lifetime_.Guard([this, peer, keep, name](const Result<uint64_t>& fetched) {
                  OnCopied(peer, keep, name, fetched.status());
                }));
  return Status::Ok();
}

void OtherHostsParts::OnCopied(transport::PeerId peer, const KeepPartMessage& keep,
                               const PartName& name, const Status& status) {
  if (status.ok()) {
    KeptPart copy;
    copy.job = name.job;
    copy.memory = coming_.TakeOut(name);
    copy.is_void = std::make_shared<std::atomic<bool>>(false);
    copy.buffer_bytes = keep.bytes;
    copy.communicator = keep.about;
    copy.rank = keep.rank;
    copy.ranks = keep.ranks;
    copy.state = PartState::kComplete;
    copy.round = keep.round;
    copy.step = keep.step;
    copy.save = keep.save;
    copy.bytes = keep.bytes;
    copy.is_kept = keep.kept;
    copy.saved_seconds = keep.saved;
    copy.job_seen_seconds = UnixSeconds();
    copy.is_copy = true;
    services_.parts->AddCopy(std::move(copy));
  } else {
    coming_.Drop(name);
  }
  services_.cluster->Send(peer, AnswerTo(keep, status));
}

// ---------------------------------------------------------------------------------------------
// What the cluster says

void OtherHostsParts::OnMessage(transport::PeerId peer, const ClusterMessage& message) {
  if (const auto* ask = message.As<AskSavesMessage>()) OnAskSaves(peer, *ask);
  if (const auto* answer = message.As<SavesMessage>()) catalogue_.OnSaves(peer, *answer);
  if (const auto* ask = message.As<AskPartMessage>()) OnAskPart(peer, *ask);
  if (const auto* answer = message.As<PartAtMessage>()) catalogue_.OnPartAt(peer, *answer);
  if (const auto* keep = message.As<KeepPartMessage>()) OnKeepPart(peer, *keep);
  if (const auto* kept = message.As<PartKeptMessage>()) services_.on_kept(peer, *kept);
}

void OtherHostsParts::OnPeerLost(transport::PeerId peer) {
  catalogue_.OnPeerLost(peer);
}

void OtherHostsParts::LookAfter(uint64_t now_ns) {
  fetched_.DropUnused(now_ns);
  std::erase_if(holders_, [&](const auto& entry) { return entry.second.until_ns < now_ns; });
}

}  // namespace harmonaize::daemon
