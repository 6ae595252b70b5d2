#include "daemon/probing/probe_service.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "daemon/cluster/cluster.h"
#include "daemon/config/config.h"
#include "daemon/probing/probe_nics.h"
#include "daemon/runtime/background.h"
#include "daemon/runtime/event_loop.h"
#include "src/base/log.h"
#include "src/base/random.h"

namespace harmonaize::daemon {
namespace {

/// Time, in seconds, after which a coordinator that asks for nothing counts as gone, whatever its
/// link says.
constexpr std::chrono::seconds kIdleLimit(60);

/// Stands for a daemon to which there is no link yet.
constexpr transport::PeerId kUnreached = ~transport::PeerId{0};

}  // namespace

Result<std::vector<transport::NetworkAddress>> ParseProbeAddresses(std::string_view lines) {
  std::vector<transport::NetworkAddress> addresses;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    if (line.empty()) continue;
    HZ_ASSIGN_OR_RETURN(transport::NetworkAddress address,
                        transport::NetworkAddress::Parse(line, kDefaultClusterPort));
    addresses.push_back(std::move(address));
  }
  return addresses;
}

// ---------------------------------------------------------------------------------------------
// Leading

Result<uint64_t> ProbeService::Lead(const Order& order, Calls calls) {
  if (!order.by_operator) {
    return InvalidUsage(
        "only operators may probe the network: it is the provider's, and probing loads it. They "
        "are who may use the daemon's operator socket ({})",
        OperatorSocketOf(*services_.config));
  }
  if (services_.cluster == nullptr) {
    return InvalidUsage(
        "this daemon knows of no other hosts: set cluster.address in its configuration");
  }
  if (led_) {
    return InvalidUsage("this daemon leads a probe already: wait for its end, or interrupt it");
  }
  if (!(order.seconds >= kLeastProbeSeconds && order.seconds <= kMostProbeSeconds)) {
    return InvalidArgument("a set of transfers runs {} to {} s, not {}", kLeastProbeSeconds,
                           kMostProbeSeconds, order.seconds);
  }
  uint64_t probe = 0;
  while (probe == 0) {
    HZ_RETURN_IF_ERROR(FillRandom(std::as_writable_bytes(std::span(&probe, 1))));
  }
  led_ = Led{.probe = probe, .seconds = order.seconds, .calls = std::move(calls)};
  // Posted, so that the caller knows the number before.
  services_.loop->Post([this, probe, addresses = order.addresses] {
    if (!led_ || led_->probe != probe) return;
    if (addresses.empty()) AddLinked();
    Reach(addresses);
  });
  return probe;
}

void ProbeService::AddLinked() {
  AddDaemon(0, services_.cluster->address());
  for (const auto& [peer, info] : services_.cluster->linked()) {
    AddDaemon(peer, info.address.ToString());
  }
}

void ProbeService::AddDaemon(transport::PeerId peer, const std::string& name) {
  led_->peers.push_back(peer);
  led_->names.push_back(name);
}

void ProbeService::Reach(const std::vector<transport::NetworkAddress>& addresses) {
  const uint64_t probe = led_->probe;
  for (const transport::NetworkAddress& address : addresses) {
    AddDaemon(kUnreached, address.ToString());
  }
  led_->unreached = addresses.size() + 1;  // one more, which counts as met once all have been tried
  for (size_t daemon = 0; daemon < led_->names.size(); ++daemon) {
    if (led_->peers[daemon] != kUnreached) continue;
    if (led_->names[daemon] == services_.cluster->address()) {
      led_->peers[daemon] = 0;
      --led_->unreached;
      continue;
    }
    services_.cluster->Reach(led_->names[daemon],
                             [this, probe, daemon](const Result<transport::PeerId>& peer) {
                               OnReached(probe, daemon, peer);
                             });
  }
  --led_->unreached;
  BeginWhenReached();
}

void ProbeService::OnReached(uint64_t probe, size_t daemon, const Result<transport::PeerId>& peer) {
  if (!led_ || led_->probe != probe) return;
  --led_->unreached;
  if (peer.ok()) {
    led_->peers[daemon] = *peer;
  } else if (led_->failure.ok()) {
    led_->failure = Status(peer.status().code(),
                           fmt::format("the daemon at {} cannot be reached: is it running, with "
                                       "this cluster.address and the same key? This daemon's log "
                                       "tells what went wrong",
                                       led_->names[daemon]));
  }
  BeginWhenReached();
}

void ProbeService::BeginWhenReached() {
  if (led_->unreached > 0 || led_->coordinator != nullptr) return;
  if (led_->failure.ok()) ForgetDoubles();
  if (led_->failure.ok() && led_->peers.size() < 2) {
    led_->failure = InvalidArgument(
        "a network is between two daemons or more, and here is one: give the addresses of all");
  }
  const uint64_t probe = led_->probe;
  if (!led_->failure.ok()) return Finish(probe, led_->failure);
  Log(LogLevel::kInfo, kLogNet, "leads a probe of the network between {} daemons",
      led_->peers.size());
  ProbeCoordinator::Calls calls;
  calls.send = [this, peers = led_->peers](size_t daemon, ClusterMessage message) {
    PostTo(peers[daemon], std::move(message));
  };
  calls.progress = [this, probe](const std::string& what) {
    services_.loop->Post([this, probe, what] {
      if (led_ && led_->probe == probe) led_->calls.progress(what);
    });
  };
  calls.done = [this, probe](const Result<std::string>& measured) {
    services_.loop->Post([this, probe, measured] { Finish(probe, measured); });
  };
  led_->coordinator =
      std::make_unique<ProbeCoordinator>(probe, led_->names, led_->seconds, std::move(calls));
}

// Keeps the first of several addresses of one daemon.
void ProbeService::ForgetDoubles() {
  for (size_t daemon = 0; daemon < led_->peers.size();) {
    const auto end = led_->peers.begin() + static_cast<ptrdiff_t>(daemon);
    if (std::find(led_->peers.begin(), end, *end) == end) {
      ++daemon;
      continue;
    }
    led_->peers.erase(end);
    led_->names.erase(led_->names.begin() + static_cast<ptrdiff_t>(daemon));
  }
}

void ProbeService::Finish(uint64_t probe, const Result<std::string>& measured) {
  if (!led_ || led_->probe != probe) return;
  if (!measured.ok()) {
    Log(LogLevel::kWarning, kLogNet, "a probe of the network failed: {}",
        measured.status().message());
  }
  const Calls calls = std::move(led_->calls);
  led_.reset();
  calls.done(measured);
}

void ProbeService::Cancel(uint64_t probe) {
  if (!led_ || led_->probe != probe) return;
  if (led_->coordinator == nullptr) return led_.reset();
  led_->coordinator->Cancel(RemoteError("whoever asked for it does not wait any more"));
}

// ---------------------------------------------------------------------------------------------
// Between daemons

void ProbeService::SendTo(transport::PeerId peer, ClusterMessage message) {
  if (peer == kThisDaemon) return OnMessage(kThisDaemon, message);
  services_.cluster->Send(peer, message);
}

void ProbeService::PostTo(transport::PeerId peer, ClusterMessage message) {
  services_.loop->Post([this, peer, message = std::move(message)] { SendTo(peer, message); });
}

void ProbeService::OnMessage(transport::PeerId peer, const ClusterMessage& message) {
  if (const auto* open = message.As<ProbeOpenMessage>()) {
    SendTo(peer, Join(peer, *open));
  } else if (const auto* trips = message.As<ProbeRoundTripsMessage>()) {
    TakeTask(peer, *trips);
  } else if (const auto* connect = message.As<ProbeConnectMessage>()) {
    TakeTask(peer, *connect);
  } else if (const auto* run = message.As<ProbeRunMessage>()) {
    TakeTask(peer, *run);
  } else if (const auto* ready = message.As<ProbeReadyMessage>()) {
    ToCoordinator(peer, ready->probe, message);
  } else if (const auto* result = message.As<ProbeResultMessage>()) {
    ToCoordinator(peer, result->probe, message);
  } else if (const auto* end = message.As<ProbeEndMessage>()) {
    OnEnd(peer, *end);
  }
}

void ProbeService::ToCoordinator(transport::PeerId peer, uint64_t probe,
                                 const ClusterMessage& message) {
  if (!led_ || led_->probe != probe || led_->coordinator == nullptr) return;
  const auto found = std::find(led_->peers.begin(), led_->peers.end(), peer);
  if (found == led_->peers.end()) return;
  led_->coordinator->Deliver(static_cast<size_t>(found - led_->peers.begin()), message);
}

void ProbeService::OnPeerLost(transport::PeerId peer) {
  if (joined_ && joined_->coordinator == peer) LeaveProbe();
  if (!led_) return;
  if (led_->coordinator == nullptr) {
    const auto found = std::find(led_->peers.begin(), led_->peers.end(), peer);
    if (found == led_->peers.end() || !led_->failure.ok()) return;
    led_->failure = RemoteError("the daemon at {} was lost",
                                led_->names[static_cast<size_t>(found - led_->peers.begin())]);
    return;
  }
  ToCoordinator(peer, led_->probe,
                ProbeEndMessage{led_->probe, "was lost: it died, or its network did"});
}

void ProbeService::Clear() {
  led_.reset();
  joined_.reset();
}

// ---------------------------------------------------------------------------------------------
// Taking part

std::string ProbeService::NameOfLeader(transport::PeerId peer) const {
  const auto linked = services_.cluster->linked().find(peer);
  if (linked == services_.cluster->linked().end()) return "it itself";
  return "the daemon of " + linked->second.address.HostText();
}

ProbeReadyMessage ProbeService::Join(transport::PeerId peer, const ProbeOpenMessage& open) {
  ProbeReadyMessage ready{.probe = open.probe};
  const auto refuse = [&](const Status& why) {
    ready.status = why;
    return ready;
  };
  if (joined_) {
    return refuse(InvalidUsage("it takes part in a probe already, which {} leads: wait for its end",
                               NameOfLeader(joined_->coordinator)));
  }
  const std::optional<ProbeToken> token = ProbeTokenFrom(open.token);
  if (!token) return refuse(InvalidArgument("a token of the wrong length"));
  const Result<std::vector<ProbedNic>> nics = NicsToProbe(*services_.cluster);
  if (!nics.ok()) return refuse(nics.status());
  const auto report = [this, peer](ProbeResultMessage result) { PostTo(peer, std::move(result)); };
  const auto expired = [this, probe = open.probe] {
    services_.loop->Post([this, probe] {
      if (!joined_ || joined_->probe != probe) return;
      const transport::PeerId coordinator = joined_->coordinator;
      LeaveProbe();
      SendTo(coordinator, ProbeEndMessage{probe, "was asked for nothing too long, and left"});
    });
  };
  Result<std::unique_ptr<ProbeListener>> listener =
      ProbeListener::Open(*nics, *token, kIdleLimit, {report, expired});
  if (!listener.ok()) return refuse(listener.status());
  ready.host = HostNameToProbe(services_.config->cluster);
  ready.nics = (*listener)->nics();
  joined_ = Joined{.probe = open.probe,
                   .coordinator = peer,
                   .nics = nics->size(),
                   .listener = std::move(*listener),
                   .work = std::make_unique<ProbeWork>(ready.nics, report)};
  Log(LogLevel::kInfo, kLogNet, "takes part in a probe of the network with {} addresses",
      ready.nics.size());
  return ready;
}

template <typename Task, typename Begin>
void ProbeService::TakeChecked(transport::PeerId peer, const Task& task, const Status& checked,
                               Begin begin) {
  if (!joined_ || joined_->probe != task.probe || joined_->coordinator != peer) {
    return SendTo(peer, ProbeEndMessage{task.probe, "takes no part in it any more"});
  }
  if (!checked.ok()) {
    const Status refusal(checked.code(), "it refuses " + checked.message());
    return SendTo(peer,
                  ProbeResultMessage{.probe = task.probe, .step = task.step, .status = refusal});
  }
  joined_->listener->Touch();
  begin();
}

void ProbeService::TakeTask(transport::PeerId peer, const ProbeRoundTripsMessage& task) {
  const Status checked = CheckProbeTask(task, joined_ ? joined_->nics : 0);
  TakeChecked(peer, task, checked, [&] { joined_->work->MeasureRoundTrips(task); });
}

void ProbeService::TakeTask(transport::PeerId peer, const ProbeConnectMessage& task) {
  const Status checked = CheckProbeTask(task, joined_ ? joined_->nics : 0);
  TakeChecked(peer, task, checked, [&] { joined_->work->Connect(task); });
}

void ProbeService::TakeTask(transport::PeerId peer, const ProbeRunMessage& task) {
  TakeChecked(peer, task, CheckProbeTask(task), [&] {
    joined_->listener->Count(task);
    joined_->work->Send(task);
  });
}

void ProbeService::OnEnd(transport::PeerId peer, const ProbeEndMessage& end) {
  const bool from_coordinator =
      joined_ && joined_->probe == end.probe && joined_->coordinator == peer;
  if (from_coordinator) return LeaveProbe();
  ToCoordinator(peer, end.probe, end);
}

// Has the background thread wait for the probe's threads, which end soon, but not at once.
void ProbeService::LeaveProbe() {
  auto leaving = std::make_shared<Joined>(std::move(*joined_));
  joined_.reset();
  Log(LogLevel::kInfo, kLogNet, "the probe of the network is over");
  services_.background->Post([leaving = std::move(leaving)]() mutable { leaving.reset(); });
}

}  // namespace harmonaize::daemon
