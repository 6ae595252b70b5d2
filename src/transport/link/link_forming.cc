#include <algorithm>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/transport/link/channel_bundle.h"
#include "src/transport/link/links.h"

// How a link is formed, from the proof of the key until it is up.

namespace harmonaize::transport {
namespace {

// Least silence, in milliseconds, after which a peer may take this daemon for dead. Heartbeats are
// sent four times in this period; more often than every 25 ms would be too much.
constexpr uint32_t kMinDeadAfterMs = 100;
// Nanoseconds for one connection of a rail where there may be another way.
constexpr uint64_t kRailTryNs = 600'000'000;

std::vector<std::byte> EncodeReady(const std::vector<Link::Rail>& rails) {
  WireWriter out;
  for (const Link::Rail& rail : rails) {
    out.Put(RailReady{rail.pair, static_cast<uint8_t>(rail.sockets.size()), rail.astray});
    for (const Link::RailSocket& socket : rail.sockets) out.Put(socket.number);
  }
  return {out.bytes().begin(), out.bytes().end()};
}

}  // namespace

void Links::OnProved(ProvedConnection connection) {
  if (!connection.Answer()) return;
  if (connection.ours.purpose == Purpose::kRail) return OnRailProved(std::move(connection));
  if (connection.ours.purpose == Purpose::kMove) return OnMoveProved(std::move(connection));
  OnControlProved(std::move(connection));
}

void Links::OnControlProved(ProvedConnection connection) {
  auto link = std::make_unique<Link>();
  link->role = connection.role;
  link->number = connection.ours.link;
  const bool initiator = link->role == Handshake::Role::kInitiator;
  link->id = initiator ? link->number : ++next_id_;
  link->instance = connection.theirs.instance;
  link->version = connection.ours.version;
  link->remote = connection.remote;
  link->deadline_ns = MonotonicNanoseconds() + options_->connect_timeout_ns;
  link->control = std::make_unique<ControlLink>(poller_, this, std::move(connection.socket));
  Status ready = FillRandom(std::as_writable_bytes(std::span(&link->token, 1)));
  if (ready.ok()) ready = link->control->Start();
  if (const auto one = try_cookies_.find(connection.cookie); one != try_cookies_.end()) {
    const uint64_t attempt = one->second;
    if (!ready.ok()) return EndAttempt(attempt, ready);
    ForgetTries(&attempts_[attempt]);
    attempts_[attempt].link = link->id;
    attempts_[attempt].next_try_ns = 0;
  }
  if (!ready.ok()) return;
  Hello hello;
  hello.token = link->token;
  hello.dead_after_ms = static_cast<uint32_t>(options_->dead_after_ns / 1'000'000);
  hello.movable = movable_;
  hello.rails = announcements_;
  link->control->Send(FrameType::kHello, EncodeHello(hello));
  by_control_[link->control.get()] = link.get();
  links_[link->id] = std::move(link);
  // Set here so that a late tick is noticed from the first one on.
  if (last_tick_ns_ == 0) last_tick_ns_ = MonotonicNanoseconds();
}

void Links::OnHello(Link* link, const Frame& frame) {
  Result<Hello> hello = DecodeHello(frame.payload);
  if (!hello.ok()) return Lose(link, hello.status().message());
  if (hello->dead_after_ms < kMinDeadAfterMs) {
    return Lose(link, fmt::format("it asks for heartbeats within {} ms; the least is {} ms",
                                  hello->dead_after_ms, kMinDeadAfterMs));
  }
  link->theirs = std::move(*hello);
  const bool arbiter = instance_ < link->instance;
  if (arbiter) return Decide(link);
  link->stage = Link::Stage::kDecision;
}

/// Returns another link to the same daemon; with `kept`, one that was decided to be kept.
Link* Links::OtherLink(const Link& link, bool kept) const {
  for (const auto& [id, other] : links_) {
    if (id == link.id || other->instance != link.instance) continue;
    if (other->stage == Link::Stage::kClosing) continue;
    const bool decided = other->stage == Link::Stage::kRails || other->stage == Link::Stage::kUp;
    if (decided || !kept) return other.get();
  }
  return nullptr;
}

void Links::Decide(Link* link) {
  const Link* other = OtherLink(*link, /*kept=*/true);
  if (other == nullptr) {
    link->control->Send(FrameType::kAdmit);
    return Keep(link);
  }
  link->control->Send(FrameType::kRefuse);
  MoveAttempts(link->id, other);
  CloseGently(link);
}

void Links::Refused(Link* link) {
  // The link that the arbiter has kept may not have arrived here yet, or may be dead on this side;
  // then the attempt is repeated.
  MoveAttempts(link->id, OtherLink(*link, /*kept=*/false));
  CloseGently(link);
}

void Links::Keep(Link* link) {
  link->stage = Link::Stage::kRails;
  if (link->role == Handshake::Role::kInitiator) ConnectRails(link);
}

void Links::ConnectRails(Link* link) {
  for (const RailPair& pair : PairRails(announcements_, link->theirs.rails)) {
    Link::Rail rail;
    rail.pair = pair;
    rail.way = pair;
    link->rails.push_back(std::move(rail));
  }
  if (link->rails.empty()) {
    return Lose(link, "the two daemons have no rails of one kind and address family");
  }
  for (Link::Rail& rail : link->rails) ConnectRail(link, &rail);
  OnRailSettled(link);
}

/// Begins one connection of a rail. The next one follows when this one has proved the key, so that
/// the other side sees at most one unproved connection for each rail.
void Links::ConnectRail(Link* link, Link::Rail* rail) {
  const RailOptions& ours = rails_[rail->pair.initiator];
  if (ours.kind == RailOptions::Kind::kUcx) return;
  Greeting greeting;
  greeting.purpose = Purpose::kRail;
  greeting.instance = instance_;
  greeting.link = link->number;
  greeting.initiator_rail = rail->pair.initiator;
  greeting.acceptor_rail = rail->pair.acceptor;
  greeting.connection = rail->tries++;
  const StreamMoves::Way way = WayOf(*link, rail->way);
  rail->cookie = ++next_id_;
  rail_cookies_[rail->cookie] = link->id;
  // A way that does not answer at once may be cut.
  const bool impatient = MovableWith(*link) && link->rails.size() > 1 && !rail->patient;
  const uint64_t patience = impatient ? kRailTryNs : options_->connect_timeout_ns / 2;
  reception_.Connect(way.remote, way.socket, greeting, rail->cookie, patience);
}

/// Chooses another way for a rail whose own way cannot be connected; the rail returns to its own as
/// soon as possible (StreamMoves). If no way answers at once, all may be crowded, and its own is
/// tried once more, with patience.
bool Links::FindOtherWay(const Link& link, Link::Rail* rail) const {
  if (!MovableWith(link) || !rail->sockets.empty() || rail->patient) return false;
  const auto now = std::ranges::find(link.rails, rail->way, &Link::Rail::pair);
  const auto begin = static_cast<size_t>(now - link.rails.begin());
  for (size_t i = 1; i < link.rails.size(); ++i) {
    const RailPair& other = link.rails[(begin + i) % link.rails.size()].pair;
    if (other == rail->pair) break;
    if (rails_[other.initiator].kind != RailOptions::Kind::kTcp) continue;
    rail->way = other;
    rail->astray = true;
    return true;
  }
  rail->way = rail->pair;
  rail->astray = false;
  rail->patient = true;
  return link.rails.size() > 1;  // with one rail it has had time
}

void Links::OnRailProved(ProvedConnection connection) {
  if (connection.role == Handshake::Role::kInitiator) {
    const auto found = rail_cookies_.find(connection.cookie);
    if (found == rail_cookies_.end()) return;
    Link* link = links_.at(found->second).get();
    rail_cookies_.erase(found);
    // Another daemon may listen at that address by now.
    if (connection.theirs.instance != link->instance) {
      return Lose(link, "another daemon answered at a rail's address");
    }
    for (Link::Rail& rail : link->rails) {
      if (rail.cookie != connection.cookie) continue;
      rail.sockets.push_back({std::move(connection.socket), connection.ours.connection});
      const int wanted = rails_[rail.pair.initiator].connections;
      if (rail.sockets.size() < static_cast<size_t>(wanted)) return ConnectRail(link, &rail);
    }
    return OnRailSettled(link);
  }
  for (const auto& [id, link] : links_) {
    // The admission that made the other side connect may still be under way on the link.
    const bool forming = link->stage != Link::Stage::kUp && link->stage != Link::Stage::kClosing;
    if (link->role != Handshake::Role::kAcceptor || !forming) continue;
    if (link->instance != connection.theirs.instance) continue;
    if (link->number != connection.theirs.link) continue;
    return KeepSocket(link.get(),
                      {connection.theirs.initiator_rail, connection.theirs.acceptor_rail},
                      {std::move(connection.socket), connection.theirs.connection});
  }
}

/// The acceptor keeps a connection of a rail that will be announced.
void Links::KeepSocket(Link* link, const RailPair& pair, Link::RailSocket socket) {
  size_t all = 0;
  for (const Link::Rail& rail : link->rails) all += rail.sockets.size();
  if (all >= kMaxConnections) return;
  auto found = std::ranges::find(link->rails, pair, &Link::Rail::pair);
  if (found == link->rails.end()) {
    found = link->rails.emplace(link->rails.end());
    found->pair = pair;
  }
  found->sockets.push_back(std::move(socket));
}

/// The initiator announces the connected rails once all are connected or given up.
void Links::OnRailSettled(Link* link) {
  const bool waits = std::ranges::any_of(
      link->rails, [this](const Link::Rail& rail) { return rail_cookies_.contains(rail.cookie); });
  if (waits) return;
  if (link->rails.empty()) {
    return Lose(link, "no rail could be connected: " + link->rail_failures);
  }
  if (!link->rail_failures.empty()) {
    Log(LogLevel::kWarning, kLogNet,
        "the link to {} goes without some rails, or some connections of them: {}",
        link->remote.ToString(), link->rail_failures);
  }
  link->control->Send(FrameType::kRailsReady, EncodeReady(link->rails));
  const Status opened = OpenChannels(link);
  if (!opened.ok()) Lose(link, opened.message());
}

void Links::OnRailsReady(Link* link, const Frame& frame) {
  Status status = AcceptRails(link, frame);
  if (status.ok()) status = OpenChannels(link);
  if (!status.ok()) return Lose(link, status.message());
  link->control->Send(FrameType::kRailsAccepted);
  BringUp(link);
}

/// The acceptor sorts the connections that arrived into the announced order.
Status Links::AcceptRails(Link* link, const Frame& frame) {
  WireReader in(frame.payload);
  std::vector<Link::Rail> ordered;
  while (!in.AtEnd() && ordered.size() < kMaxRails) {
    const auto ready = in.Get<RailReady>();
    if (!in.good()) break;
    Link::Rail rail;
    rail.pair = ready.pair;
    rail.astray = ready.astray != 0;
    if (rail.pair.acceptor >= rails_.size() || rail.pair.initiator >= link->theirs.rails.size()) {
      return RemoteError("it announced a rail that is not there");
    }
    // Connections may have arrived that the initiator had given up.
    const auto came = std::ranges::find(link->rails, rail.pair, &Link::Rail::pair);
    for (uint8_t i = 0; i < ready.connections; ++i) {
      const auto number = in.Get<uint8_t>();
      if (came == link->rails.end()) break;
      const auto socket = std::ranges::find(came->sockets, number, &Link::RailSocket::number);
      if (socket == came->sockets.end() || !socket->socket.valid()) break;
      rail.sockets.push_back({std::move(socket->socket), number});
    }
    if (rail.sockets.size() != ready.connections) {
      return RemoteError("rail {} to its rail {} is not connected", rail.pair.acceptor,
                         rail.pair.initiator);
    }
    ordered.push_back(std::move(rail));
  }
  link->rails = std::move(ordered);
  return in.AtEnd() ? Status::Ok() : RemoteError("its rails are malformed");
}

Status Links::OpenChannels(Link* link) {
  for (Link::Rail& rail : link->rails) {
    HZ_ASSIGN_OR_RETURN(std::unique_ptr<Channel> channel, OpenChannel(link, &rail));
    link->channels.push_back(std::move(channel));
  }
  return Status::Ok();
}

Result<std::unique_ptr<Channel>> Links::OpenChannel(Link* link, Link::Rail* rail) {
  const bool initiator = link->role == Handshake::Role::kInitiator;
  const size_t ours = initiator ? rail->pair.initiator : rail->pair.acceptor;
  const size_t theirs = initiator ? rail->pair.acceptor : rail->pair.initiator;
  const RailAnnouncement& remote = link->theirs.rails[theirs];
  const bool ucx = rails_[ours].kind == RailOptions::Kind::kUcx;
  if (ucx != (remote.kind == RailAnnouncement::Kind::kUcx) || ucx != rail->sockets.empty()) {
    return RemoteError("rail {} to its rail {} is not connected", ours, theirs);
  }
  rail->name = fmt::format("{} - {}", RailName(rails_[ours]),
                           ucx ? link->remote.HostText() : remote.address);
  const std::string name = "rail " + rail->name;
  if (ucx) {
    return ucx_rails_[ours]->Connect(this, link->id, name, remote.address, link->token,
                                     link->theirs.token);
  }
  if (rail->sockets.size() == 1) {
    auto channel = std::make_unique<TcpChannel>(poller_, board_, &tenants_, this, link->id, name,
                                                std::move(rail->sockets.front().socket));
    channel->KeepRates(RatesOf(rails_[ours]));
    link->streams.push_back({channel.get(), {rail->pair, 0}});
    return std::unique_ptr<Channel>(std::move(channel));
  }
  rail->name += fmt::format(", {} connections", rail->sockets.size());
  auto bundle = std::make_unique<ChannelBundle>(this);
  for (size_t i = 0; i < rail->sockets.size(); ++i) {
    auto channel = std::make_unique<TcpChannel>(poller_, board_, &tenants_, bundle->channel_owner(),
                                                link->id, name, std::move(rail->sockets[i].socket));
    channel->KeepRates(RatesOf(rails_[ours]));
    link->streams.push_back({channel.get(), {rail->pair, static_cast<uint8_t>(i)}});
    bundle->Add(std::move(channel));
  }
  return std::unique_ptr<Channel>(std::move(bundle));
}

/// Returns where the floors and caps on a rail's device are kept, for all rails over it.
std::shared_ptr<OwnerRates> Links::RatesOf(const RailOptions& rail) {
  std::shared_ptr<OwnerRates>& rates = rates_of_device_[rail.device];
  if (rates == nullptr) rates = std::make_shared<OwnerRates>(poller_);
  return rates;
}

void Links::BringUp(Link* link) {
  for (const auto& channel : link->channels) {
    const Status started = channel->Start();
    if (!started.ok()) return Lose(link, started.message());
  }
  link->stage = Link::Stage::kUp;
  MakeMovable(link);
  link->streams.clear();
  PeerInfo info;
  info.instance = link->instance;
  info.version = link->version;
  info.address = link->remote;
  info.rails = link->channels.size();
  for (const Link::Rail& rail : link->rails) info.rail_names.push_back(rail.name);
  const PeerId id = link->id;
  events_->OnPeerUp(id, info);
  EndAttempts(id, id);
}

}  // namespace harmonaize::transport
