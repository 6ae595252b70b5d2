#include <algorithm>

#include "src/base/clock.h"
#include "src/transport/link/links.h"

// The part of links in moves of their streams.

namespace harmonaize::transport {
namespace {

/// Payload of a kStalled frame, as it is on the wire.
struct StalledStream {
  StreamMoves::StreamName name;
  uint8_t zero = 0;
  uint32_t number = 0;
};
static_assert(sizeof(StalledStream) == 8);

}  // namespace

/// Returns the way by which the pair of rails connects.
StreamMoves::Way Links::WayOf(const Link& link, const RailPair& pair) const {
  const RailOptions& ours = rails_[pair.initiator];
  StreamMoves::Way way;
  // PairRails has parsed the address already.
  way.remote = *NetworkAddress::Parse(link.theirs.rails[pair.acceptor].address);
  way.socket = RailSocketOptions(ours);
  way.socket.bind = ours.address;
  way.socket.bind.set_port(ours.source_port);
  return way;
}

void Links::MakeMovable(Link* link) {
  if (!MovableWith(*link)) return;
  const bool initiator = link->role == Handshake::Role::kInitiator;
  std::vector<StreamMoves::Way> ways;
  std::vector<RailPair> pairs;
  for (const auto& [channel, name] : link->streams) {
    if (std::ranges::find(pairs, name.pair) != pairs.end()) continue;
    pairs.push_back(name.pair);
    if (initiator) ways.push_back(WayOf(*link, name.pair));
  }
  ways.push_back({link->remote, ControlSocketOptions()});
  Greeting greeting;
  greeting.instance = instance_;
  greeting.link = link->number;
  link->moves = std::make_unique<StreamMoves>(poller_, &reception_, this, initiator, greeting,
                                              std::move(ways), PatienceNs());
  for (const auto& [channel, name] : link->streams) {
    const auto pair = static_cast<size_t>(std::ranges::find(pairs, name.pair) - pairs.begin());
    const auto rail = std::ranges::find(link->rails, name.pair, &Link::Rail::pair);
    link->moves->Add(channel, name, pair, "rail " + rail->name, rail->astray);
  }
  link->moves->Add(link->control.get(), {{}, kControlStream}, pairs.size(),
                   "the control link to " + link->remote.ToString(), /*astray=*/false);
}

Link* Links::LinkOf(const StreamMoves* moves) const {
  for (const auto& [id, link] : links_) {
    if (link->moves.get() == moves) return link.get();
  }
  return nullptr;
}

uint64_t Links::NewCookie(StreamMoves* moves) {
  const uint64_t cookie = ++next_id_;
  move_cookies_[cookie] = moves;
  return cookie;
}

void Links::OnMoveProved(ProvedConnection connection) {
  if (connection.role == Handshake::Role::kInitiator) {
    const auto found = move_cookies_.find(connection.cookie);
    if (found == move_cookies_.end()) return;
    StreamMoves* moves = found->second;
    move_cookies_.erase(found);
    const Link* link = LinkOf(moves);
    // Another daemon may listen at that address by now.
    if (link == nullptr || connection.theirs.instance != link->instance) {
      return moves->OnConnectFailed(connection.cookie);
    }
    return moves->OnProved(std::move(connection));
  }
  for (const auto& [id, link] : links_) {
    if (link->role != Handshake::Role::kAcceptor || link->moves == nullptr) continue;
    if (link->instance != connection.theirs.instance) continue;
    if (link->number != connection.theirs.link) continue;
    return link->moves->OnProved(std::move(connection));
  }
}

void Links::AskToMove(StreamMoves* moves, const StreamMoves::StreamName& stream, uint32_t number) {
  const Link* link = LinkOf(moves);
  if (link == nullptr) return;
  const StalledStream stalled{stream, 0, number};
  link->control->Send(FrameType::kStalled, std::as_bytes(std::span(&stalled, 1)));
}

void Links::OnStalled(Link* link, const Frame& frame) {
  WireReader in(frame.payload);
  const auto stalled = in.Get<StalledStream>();
  if (!in.AtEnd()) return Lose(link, "the other daemon broke the protocol: a malformed frame");
  if (link->moves == nullptr) return;
  link->moves->OnAsked(stalled.name, stalled.number, MonotonicNanoseconds());
}

void Links::OnMoveFailed(StreamMoves* moves, const std::string& reason) {
  if (const Link* link = LinkOf(moves); link != nullptr) broken_.emplace_back(link->id, reason);
}

}  // namespace harmonaize::transport
