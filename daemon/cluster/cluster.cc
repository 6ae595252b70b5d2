#include "daemon/cluster/cluster.h"

#include <algorithm>
#include <utility>

#include "daemon/cluster/this_daemon.h"
#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"
#include "src/base/clean_text.h"
#include "src/base/log.h"
#include "src/base/names.h"
#include "src/topology/fabric/fabric_file.h"

namespace harmonaize::daemon {
namespace {

/// Number of looks in vain after which the transport's descriptor tells when there is something.
constexpr int kQuietRounds = 256;
/// The longest reason for the loss of a daemon that is logged, in bytes: it may be the other
/// daemon's words.
constexpr size_t kMostReason = 512;

/// Most daemons that are being reached at once for one tenant. A tenant can name any address in an
/// id, and an attempt takes sockets until the daemon there answers or the time is up. An all-to-all
/// reaches all hosts of its communicator at once.
constexpr int kMostReachedAtOnce = 1024;

/// Most daemons of other releases that are remembered for the status. A tenant can name any address
/// in an id, so their number has no bound of its own.
constexpr size_t kMostOfOtherReleases = 64;

/// Most operations that are cancelled before the engine looks at other tenants' work.
constexpr uint64_t kCancelledAtOnce = 1024;

/// Returns the tenant's number; none for the daemon itself.
std::optional<uint32_t> NumberOf(const std::optional<TenantIdentity>& tenant) {
  return tenant.has_value() ? std::optional(tenant->number) : std::nullopt;
}

/// Returns why a daemon cannot be reached, in words that name no address.
Status ForTenants(const Status& why) {
  if (why.code() != Code::kInvalidUsage) {
    return RemoteError("the daemon of another host cannot be reached");
  }
  return InvalidUsage(
      "the daemon of another host is of another release than this host's, and they speak no "
      "version of their protocol in common: the provider has to update one of them");
}

Result<transport::ClusterKey> KeyOf(const ClusterConfig& config) {
  if (!config.key_file.empty()) return transport::ClusterKey::FromFile(config.key_file);
  if (config.allow_unauthenticated) return transport::ClusterKey();
  return InvalidArgument(
      "cluster.address is set, but no cluster.key_file: write the same 32 or more random bytes to "
      "a "
      "file at every host (head -c 32 /dev/urandom | base64 > cluster.key; chmod 600 cluster.key)");
}

Result<transport::NetworkAddress> OwnAddress(const ClusterConfig& config) {
  Result<transport::NetworkAddress> address =
      transport::NetworkAddress::Parse(config.address, kDefaultClusterPort);
  if (!address.ok()) return InvalidArgument("cluster.address: {}", address.status().message());
  if (address->IsWildcard()) {
    return InvalidArgument(
        "cluster.address {}: other daemons need an address of this host that they can connect to",
        config.address);
  }
  return address;
}

}  // namespace

Result<std::unique_ptr<Cluster>> Cluster::Create(
    const ClusterConfig& config, ClusterEvents* events, EventLoop* loop,
    std::shared_ptr<transport::ListeningSockets> sockets) {
  HZ_ASSIGN_OR_RETURN(const transport::ClusterKey key, KeyOf(config));
  HZ_ASSIGN_OR_RETURN(const transport::NetworkAddress address, OwnAddress(config));
  std::unique_ptr<Cluster> cluster(new Cluster(events, loop, key));
  HZ_RETURN_IF_ERROR(cluster->ReadFabric(config, address));

  transport::TransportOptions options;
  options.key = key;
  options.listening = std::move(sockets);
  options.allow_unauthenticated = config.allow_unauthenticated;
  options.congestion_control = config.congestion_control;
  options.dead_after_ns = static_cast<uint64_t>(config.dead_after_seconds * 1e9);
  cluster->versions_ = config.versions.value_or(transport::kClusterVersions);
  options.versions = cluster->versions_;
  if (cluster->fabric_ != nullptr) {
    const FabricRails rails(cluster->fabric_->fabric());
    HZ_ASSIGN_OR_RETURN(options.rails, rails.RailsOf(cluster->fabric_host()));
  }
  Result<std::unique_ptr<transport::Transport>> transport =
      transport::Transport::Create(std::move(options), cluster.get());
  if (!transport.ok()) return transport.status();
  cluster->transport_ = std::move(*transport);
  HZ_RETURN_IF_ERROR(cluster->ListenAt(address));
  HZ_RETURN_IF_ERROR(cluster->FindController(config));
  return cluster;
}

Status Cluster::ListenAt(const transport::NetworkAddress& address) {
  listening_ = address;
  HZ_RETURN_IF_ERROR(port_.Begin([this](bool again) { return TryToListen(again); },
                                 LogLevel::kError, "no daemon of another host reaches this one"));
  address_ = listening_.ToString();
  return Status::Ok();
}

Status Cluster::TryToListen(bool again) {
  const Result<transport::NetworkAddress> listening = transport_->Listen(listening_);
  if (!listening.ok()) {
    return Status(listening.status().code(), "cluster.address: " + listening.status().message());
  }
  listening_ = *listening;
  if (again) {
    Log(LogLevel::kInfo, kLogNet, "the port is free: other daemons reach this one at {}", address_);
  }
  return Status::Ok();
}

Status Cluster::ReadFabric(const ClusterConfig& config, const transport::NetworkAddress& address) {
  if (config.fabric.empty()) return Status::Ok();
  HZ_ASSIGN_OR_RETURN(FabricFile file, LoadFabricFile(config.fabric));
  fabric_ = std::make_shared<const FabricModel>(std::move(file.fabric));
  host_name_ = config.host.empty() ? HostAt(*fabric_, address.HostText()) : config.host;
  if (fabric_host() >= 0) return Status::Ok();
  if (config.host.empty()) {
    return InvalidArgument("no host of {} has the address {}: set cluster.host", config.fabric,
                           address.HostText());
  }
  std::vector<std::string_view> names;
  for (int host = 0; host < fabric_->hosts(); ++host) names.push_back(fabric_->HostName(host));
  return InvalidArgument("{} has no host '{}', which cluster.host names{}", config.fabric,
                         config.host, DidYouMean(config.host, names));
}

int Cluster::fabric_host() const {
  return fabric_ == nullptr ? -1 : fabric_->HostNamed(host_name_);
}

Result<transport::NetworkAddress> Cluster::AddressOf(int fabric_host) const {
  const Node& node = fabric_->NodeOf(fabric_host);
  if (node.nics.empty()) return InvalidArgument("host {} of the fabric has no NIC", node.name);
  return transport::NetworkAddress::Parse(node.nics.front().address, listening_.port());
}

uint64_t Cluster::host_bytes_per_second() const {
  const int host = fabric_host();
  if (host < 0) return 0;
  double sum = 0;
  for (int nic = 0; nic < static_cast<int>(fabric_->NodeOf(host).nics.size()); ++nic) {
    const int edge = fabric_->EdgeOut(host, nic);
    if (edge >= 0) sum += fabric_->BytesPerSecond(edge);
  }
  return static_cast<uint64_t>(sum);
}

Status Cluster::FindController(const ClusterConfig& config) {
  if (config.controller.empty()) return Status::Ok();
  const int host = fabric_ == nullptr ? -1 : fabric_->HostNamed(config.controller);
  const Result<transport::NetworkAddress> parsed =
      host < 0 ? transport::NetworkAddress::Parse(config.controller, kDefaultClusterPort)
               : AddressOf(host);
  if (!parsed.ok()) {
    const std::string fabric = config.fabric.empty() ? "a fabric file" : config.fabric;
    return InvalidArgument("cluster.controller '{}' is neither a host of {} nor an address: {}",
                           config.controller, fabric, parsed.status().message());
  }
  controller_ = parsed->ToString();
  return Status::Ok();
}

std::string HostAt(const FabricModel& model, const std::string& address) {
  for (const int node : model.fabric().Hosts()) {
    const Node& host = model.fabric().nodes[static_cast<size_t>(node)];
    for (const Nic& nic : host.nics) {
      if (nic.address == address) return host.name;
    }
  }
  return "";
}

Result<std::optional<transport::NetworkAddress>> Cluster::HomeOf(const UniqueId& id) const {
  Result<std::optional<transport::NetworkAddress>> address =
      std::optional<transport::NetworkAddress>();
  if (id.kind == UniqueId::Kind::kNamed) {
    // A name that is no address of another host is for ranks of this one.
    Result<transport::NetworkAddress> named = transport::NetworkAddress::Parse(NameOfId(id));
    if (!named.ok() || named->IsLoopback() || named->IsWildcard()) return address;
    named->set_port(listening_.port());
    address = std::optional<transport::NetworkAddress>(*named);
  } else {
    address = seal_.Open(id);
  }
  if (!address.ok()) {
    Log(LogLevel::kWarning, kLogNet,
        "a unique id cannot be opened: it was changed on its way, or the daemon that made it has "
        "another key than this one's cluster.key_file");
  }
  if (!address.ok() || !address->has_value()) return address;
  if ((*address)->ToString() == address_) return std::optional<transport::NetworkAddress>();
  return address;
}

void Cluster::Reach(const std::string& address, ReachDone done) {
  const Result<transport::NetworkAddress> parsed = transport::NetworkAddress::Parse(address);
  if (!parsed.ok()) {
    Log(LogLevel::kError, kLogNet, "a daemon gave an address that is none: {}", address);
    // Later, as in all other cases: the caller may be in the middle of something.
    return loop_->Post([done = std::move(done), caller = LogFor::Current()] {
      const LogFor log_for(caller);
      done(RemoteError("a host's address is wrong"));
    });
  }
  const std::optional<TenantIdentity> caller = LogFor::Current();
  ReachDone logged = [done = std::move(done), caller](const Result<transport::PeerId>& peer) {
    const LogFor log_for(caller);
    GuardedAndLogged("what waits for the link to another daemon", [&] { done(peer); });
  };
  const std::string key = parsed->ToString();
  if (const auto found = reaching_.find(key); found != reaching_.end()) {
    return found->second.waiting.push_back(std::move(logged));
  }
  const auto begun = std::count_if(reaching_.begin(), reaching_.end(), [&](const auto& one) {
    return NumberOf(one.second.for_tenant) == NumberOf(caller);
  });
  if (begun >= kMostReachedAtOnce) {
    return loop_->Post([logged = std::move(logged)] {
      logged(RemoteError("as many daemons of other hosts as may be are being reached already"));
    });
  }
  Reaching& reaching = reaching_[key];
  reaching.for_tenant = caller;
  reaching.waiting.push_back(std::move(logged));
  try {
    transport_->Connect(
        *parsed, [this, key](const Result<transport::PeerId>& peer) { OnReached(key, peer); });
  } catch (...) {
    reaching_.erase(key);  // or others would wait for an attempt that does not exist
    throw;
  }
  readable_ = true;
}

void Cluster::OnReached(const std::string& address, const Result<transport::PeerId>& peer) {
  const Reaching reached = std::move(reaching_.extract(address).mapped());
  const bool other_release = peer.status().code() == Code::kInvalidUsage;
  if (!other_release) of_other_releases_.erase(address);
  if (other_release && of_other_releases_.size() < kMostOfOtherReleases) {
    of_other_releases_[address] = peer.status().message();
  }
  if (!peer.ok()) {
    const LogFor log_for(reached.for_tenant);
    GuardedAndLogged("the log of a daemon that cannot be reached", [&] {
      Log(LogLevel::kWarning, kLogNet, "the daemon at {} cannot be reached: {}", address,
          peer.status().message());
    });
  }
  for (const ReachDone& done : reached.waiting) {
    done(peer.ok() ? peer : ForTenants(peer.status()));
  }
}

void Cluster::Send(transport::PeerId peer, const ClusterMessage& message) {
  const Status sent = SendAs(transport::kOwnMessages, peer, message);
  if (!sent.ok()) Log(LogLevel::kError, kLogNet, "{}", sent.message());
}

Status Cluster::SendFor(const TenantIdentity& tenant, transport::PeerId peer,
                        const ClusterMessage& message) {
  return SendAs(transport::ControlSender{tenant.number} + 1, peer, message);
}

void Cluster::Answer(transport::PeerId peer, uint64_t about, const ClusterMessage& message) {
  constexpr transport::ControlSender kAboveTenants = uint64_t{1} << 63;
  static_cast<void>(SendAs(about | kAboveTenants, peer, message));
}

Status Cluster::SendAs(transport::ControlSender sender, transport::PeerId peer,
                       const ClusterMessage& message) {
  if (peer == kThisDaemon) {
    loop_->Post([this, message] { events_->OnMessage(kThisDaemon, message); });
    return Status::Ok();
  }
  HZ_RETURN_IF_ERROR(CheckKnown(peer, message.kind()));
  const Status sent = transport_->SendControl(peer, EncodeMessage(message), sender);
  readable_ = true;
  switch (sent.code()) {
    case Code::kInvalidArgument:
      return InternalError("a message to another host is too long: {}", sent.message());
    case Code::kUnavailable:
      return RemoteError("another host's daemon does not keep up with what it is told");
    default: return Status::Ok();  // of lost daemons OnPeerLost tells
  }
}

Status Cluster::CheckKnown(transport::PeerId peer, MessageKind kind) const {
  const auto found = peers_.find(peer);
  const uint32_t first = FirstVersionOf(kind);
  if (found == peers_.end() || found->second.version >= first) return Status::Ok();
  return InvalidUsage(
      "this needs version {} of the protocol between daemons, and with the daemon of another host "
      "version {} is spoken: the provider has to update the older one",
      first, found->second.version);
}

void Cluster::CancelMany(transport::PeerId peer, uint64_t first, uint64_t end,
                         std::function<uint64_t(uint64_t)> number) {
  const uint64_t until = std::min(end, first + kCancelledAtOnce);
  for (; first < until; ++first) transport_->Cancel(peer, number(first));
  if (first >= end || !Linked(peer)) return;
  loop_->Post([this, peer, first, end, number = std::move(number)] {
    CancelMany(peer, first, end, number);
  });
}

size_t Cluster::RailsTo(transport::PeerId peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? 0 : found->second.rails;
}

bool Cluster::Progress(bool busy) {
  if (!busy && !readable_) return false;
  const bool progress = transport_->Progress() > 0;
  quiet_rounds_ = progress ? 0 : quiet_rounds_ + 1;
  if (quiet_rounds_ >= kQuietRounds) Arm();
  return progress;
}

bool Cluster::Arm() {
  readable_ = !transport_->Arm();
  return !readable_;
}

void Cluster::OnPeerUp(transport::PeerId peer, const transport::PeerInfo& info) {
  GuardedAndLogged("a link to another daemon", [&] {
    peers_[peer] = info;
    Log(LogLevel::kInfo, kLogNet,
        "linked with the daemon at {} by {} rails, in version {} of the protocol",
        info.address.ToString(), info.rails, info.version);
  });
}

void Cluster::OnPeerLost(transport::PeerId peer, const std::string& reason) {
  GuardedAndLogged("the log of a lost daemon", [&] {
    Log(LogLevel::kWarning, kLogNet, "lost the daemon at {}: {}",
        peers_.contains(peer) ? peers_.at(peer).address.ToString() : "an unknown address",
        CleanText(reason, kMostReason));
  });
  peers_.erase(peer);
  not_understood_.erase(peer);
  GuardedAndLogged("the loss of a daemon", [&] { events_->OnPeerLost(peer); });
}

void Cluster::OnControl(transport::PeerId peer, std::span<const std::byte> message) {
  GuardedAndLogged("a message of another daemon", [&] {
    const Result<ClusterMessage> decoded = DecodeMessage(message);
    const Status known = decoded.ok() ? CheckKnown(peer, decoded->kind()) : decoded.status();
    if (known.ok()) return events_->OnMessage(peer, *decoded);
    // A later release has added the kind, or a later version than the one that is spoken with this
    // daemon. What it asks for is not done, and all else goes on.
    if (known.code() == Code::kInvalidUsage) {
      if (!not_understood_.insert(peer).second) return;
      return Log(LogLevel::kWarning, kLogNet,
                 "the daemon at {} sends what this one does not know: {}",
                 peers_.contains(peer) ? peers_.at(peer).address.ToString() : "an unknown address",
                 known.message());
    }
    transport_->Disconnect(peer, known.message());
  });
}

}  // namespace harmonaize::daemon
