#include "src/transport/link/links.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/transport/link/channel_bundle.h"
#include "src/transport/tcp/congestion_control.h"

namespace harmonaize::transport {
namespace {

// Pause before the next try of an attempt whose link turned out to be a double.
constexpr uint64_t kRetryNs = 100'000'000;
// Pause before the second try if nobody has answered the first. TCP itself would resend lost
// packets only after a second.
constexpr uint64_t kSecondTryNs = 500'000'000;
// Pause between further tries.
constexpr uint64_t kNextTryNs = 200'000'000;
// Most tries of one attempt that are under way at once.
constexpr size_t kMostTries = 8;
// Longest time that a link has for closing, and that the end waits for buffers of UCX.
constexpr uint64_t kClosingNs = 1'000'000'000;
// Number of timer ticks in the shortest timeout of the links.
constexpr uint64_t kTicksPerDeadAfter = 16;

double Seconds(uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e9;
}

ReceptionLimits LimitsOf(const TransportOptions& options) {
  return {options.proof_timeout_ns, options.unproved_limit, options.unproved_limit_per_address,
          options.versions};
}

std::string Text(const Frame& frame) {
  return std::string(reinterpret_cast<const char*>(frame.payload.data()), frame.payload.size());
}

}  // namespace

Links::Links(Poller* poller, MessageBoard* board, const TransportOptions* options,
             TransportEvents* events, const InstanceId& instance)
    : poller_(poller),
      board_(board),
      options_(options),
      system_congestion_control_(SystemCongestionControl()),
      events_(events),
      instance_(instance),
      reception_(poller, this, &options->key, instance, LimitsOf(*options)),
      front_door_(poller, this, &options->key, instance, LimitsOf(*options), options->listening),
      rails_(options->rails) {}

Links::~Links() {
  for (auto& [id, link] : links_) {
    if (link->moves != nullptr) link->moves->Close();
    EndMessages(link.get());
    gone_.push_back(std::move(link));
  }
  // Rails wait for buffers that UCX still holds; none of these is in a channel afterwards.
  const uint64_t deadline = MonotonicNanoseconds() + kClosingNs;
  const auto lingers = [](const std::unique_ptr<Link>& link) {
    return std::ranges::any_of(link->channels, [](const auto& one) { return one->Lingers(); });
  };
  while (std::ranges::any_of(gone_, lingers) && MonotonicNanoseconds() < deadline) {
    for (const auto& rail : ucx_rails_) {
      if (rail != nullptr) rail->Progress();
    }
  }
}

// ---- Rails ----

Status Links::OpenRails(const NetworkAddress& address) {
  if (rails_open_) return Status::Ok();
  if (rails_.empty()) rails_ = DiscoverRails(address);
  if (rails_.empty()) {
    return InvalidArgument(
        "no network device of this host is up with an address like {}; name the rails",
        address.HostText());
  }
  announcements_.resize(rails_.size());
  for (size_t i = 0; i < rails_.size(); ++i) {
    HZ_RETURN_IF_ERROR(OpenRail(&rails_[i], &announcements_[i]));
  }
  rails_open_ = true;
  return Status::Ok();
}

Status Links::OpenRail(RailOptions* rail, RailAnnouncement* announcement) {
  if (rail->kind == RailOptions::Kind::kUcx) {
    HZ_ASSIGN_OR_RETURN(std::unique_ptr<UcxRail> opened, UcxRail::Create(poller_, board_, *rail));
    announcement->kind = RailAnnouncement::Kind::kUcx;
    announcement->address = opened->address();
    ucx_rails_.push_back(std::move(opened));
    return Status::Ok();
  }
  HZ_ASSIGN_OR_RETURN(NetworkAddress bound,
                      front_door_.Listen(rail->address, RailSocketOptions(*rail)));
  announcement->kind = RailAnnouncement::Kind::kTcp;
  announcement->prefix_bits = static_cast<uint8_t>(rail->prefix_bits);
  announcement->address = bound.ToString();
  ucx_rails_.push_back(nullptr);
  return Status::Ok();
}

SocketOptions Links::RailSocketOptions(const RailOptions& rail) const {
  SocketOptions socket = ControlSocketOptions();
  socket.traffic_class = rail.traffic_class;
  socket.congestion_control = CongestionControlFor(
      options_->congestion_control, rail.bytes_per_second, system_congestion_control_);
  return socket;
}

/// Returns the options of control links. The link itself notices silent peers. A stream whose way
/// carries nothing is moved, if possible, so the kernel must not give it up before that.
SocketOptions Links::ControlSocketOptions() const {
  const uint64_t patience = movable_ ? 4 : 1;
  SocketOptions socket;
  socket.user_timeout_ms = static_cast<unsigned>(patience * options_->dead_after_ns / 1'000'000);
  return socket;
}

Result<NetworkAddress> Links::Listen(const NetworkAddress& address) {
  HZ_RETURN_IF_ERROR(OpenRails(address));
  return front_door_.Listen(address, ControlSocketOptions());
}

// ---- Attempts to connect ----

void Links::Connect(const NetworkAddress& address, Transport::ConnectDone done) {
  const uint64_t id = ++next_id_;
  attempts_[id] = Attempt{.address = address,
                          .done = std::move(done),
                          .deadline_ns = MonotonicNanoseconds() + options_->connect_timeout_ns};
  BeginTry(id);
}

/// Returns the way of an attempt's next try. If nobody answers, other ports and other rails may
/// take other ways: first as the kernel chooses, then by each rail, and so on.
StreamMoves::Way Links::WayOfTry(const Attempt& attempt) const {
  StreamMoves::Way way{attempt.address, ControlSocketOptions()};
  const size_t choice = attempt.tries % (rails_.size() + 1);
  if (choice == 0) return way;
  const RailOptions& rail = rails_[choice - 1];
  const bool usable =
      rail.kind == RailOptions::Kind::kTcp && rail.address.family() == attempt.address.family();
  if (!usable) return way;
  way.socket = RailSocketOptions(rail);
  way.socket.bind = rail.address;
  way.socket.bind.set_port(0);
  return way;
}

void Links::BeginTry(uint64_t id) {
  Attempt& attempt = attempts_[id];
  Greeting greeting;
  greeting.instance = instance_;
  greeting.link = ++next_id_;
  const uint64_t cookie = ++next_id_;
  const StreamMoves::Way way = WayOfTry(attempt);
  const uint64_t now = MonotonicNanoseconds();
  const uint64_t left = attempt.deadline_ns > now ? attempt.deadline_ns - now : 1;
  attempt.next_try_ns = now + (attempt.tries == 0 ? kSecondTryNs : kNextTryNs);
  ++attempt.tries;
  attempt.under_way.push_back(cookie);
  try_cookies_[cookie] = id;
  reception_.Connect(way.remote, way.socket, greeting, cookie, left);
}

void Links::ForgetTries(Attempt* attempt) {
  for (const uint64_t cookie : attempt->under_way) {
    try_cookies_.erase(cookie);
    reception_.Forget(cookie);
  }
  attempt->under_way.clear();
}

void Links::OnTryFailed(uint64_t id, uint64_t cookie, const Status& reason, bool no_way) {
  Attempt& attempt = attempts_[id];
  std::erase(attempt.under_way, cookie);
  attempt.last_failure = reason;
  if (!no_way || MonotonicNanoseconds() >= attempt.deadline_ns) return EndAttempt(id, reason);
}

void Links::EndAttempt(uint64_t id, const Result<PeerId>& result) {
  const auto found = attempts_.find(id);
  if (found == attempts_.end()) return;
  ForgetTries(&found->second);
  const Transport::ConnectDone done = std::move(found->second.done);
  attempts_.erase(found);
  if (done) done(result);
}

void Links::EndAttempts(PeerId link, const Result<PeerId>& result) {
  std::vector<uint64_t> ids;
  for (const auto& [id, attempt] : attempts_) {
    if (attempt.link == link) ids.push_back(id);
  }
  for (const uint64_t id : ids) EndAttempt(id, result);
}

/// Assigns the attempts of a link that turned out to be a double to link `to`; if it is null they
/// try again.
void Links::MoveAttempts(PeerId from, const Link* to) {
  for (auto& [id, attempt] : attempts_) {
    if (attempt.link != from) continue;
    attempt.link = to == nullptr ? 0 : to->id;
    if (to == nullptr) attempt.next_try_ns = MonotonicNanoseconds() + kRetryNs;
  }
  if (to != nullptr && to->stage == Link::Stage::kUp) EndAttempts(to->id, to->id);
}

void Links::TickAttempts(uint64_t now_ns) {
  std::vector<uint64_t> late;
  std::vector<uint64_t> again;
  for (const auto& [id, attempt] : attempts_) {
    if (now_ns >= attempt.deadline_ns) {
      late.push_back(id);
    } else if (attempt.link == 0 && attempt.next_try_ns != 0 && now_ns >= attempt.next_try_ns &&
               attempt.under_way.size() < kMostTries) {
      again.push_back(id);
    }
  }
  for (const uint64_t id : again) BeginTry(id);
  for (const uint64_t id : late) {
    const Attempt& attempt = attempts_[id];
    const Status why = attempt.last_failure.ok()
                           ? Unavailable("{}: no link in {:.1f} s", attempt.address.ToString(),
                                         Seconds(options_->connect_timeout_ns))
                           : attempt.last_failure;
    EndAttempt(id, why);
  }
}

void Links::OnConnectFailed(uint64_t cookie, const Status& reason, bool no_way) {
  if (const auto one = try_cookies_.find(cookie); one != try_cookies_.end()) {
    const uint64_t id = one->second;
    try_cookies_.erase(one);
    return OnTryFailed(id, cookie, reason, no_way);
  }
  if (const auto move = move_cookies_.find(cookie); move != move_cookies_.end()) {
    StreamMoves* moves = move->second;
    move_cookies_.erase(move);
    return moves->OnConnectFailed(cookie);
  }
  const auto rail = rail_cookies_.find(cookie);
  if (rail == rail_cookies_.end()) return;
  Link* link = links_.at(rail->second).get();
  rail_cookies_.erase(rail);
  const auto connecting = std::ranges::find(link->rails, cookie, &Link::Rail::cookie);
  const bool other_way =
      no_way && connecting != link->rails.end() && FindOtherWay(*link, &*connecting);
  if (other_way) return ConnectRail(link, &*connecting);
  // A rail that has connected some connections goes on with those.
  std::erase_if(link->rails,
                [&](const Link::Rail& one) { return one.cookie == cookie && one.sockets.empty(); });
  link->rail_failures += link->rail_failures.empty() ? "" : "; ";
  link->rail_failures += reason.message();
  OnRailSettled(link);
}

// ---- A link's life and end ----

Link* Links::Up(PeerId peer) const {
  const auto found = links_.find(peer);
  if (found == links_.end() || found->second->stage != Link::Stage::kUp) return nullptr;
  return found->second.get();
}

Status Links::SendControl(PeerId peer, ControlSender sender, std::span<const std::byte> message) {
  Link* link = Up(peer);
  if (link == nullptr) return RemoteError("the link to this peer daemon is lost");
  const Status sent = link->control->SendMessage(sender, message);
  if (link->control->HasNews()) broken_.emplace_back(peer, "");
  return sent;
}

void Links::OnFrame(ControlLink* control, const Frame& frame) {
  const auto found = by_control_.find(control);
  if (found == by_control_.end()) return;
  Link* link = found->second;
  using Stage = Link::Stage;
  const bool initiator = link->role == Handshake::Role::kInitiator;
  switch (frame.type) {
    case FrameType::kHeartbeat: return;
    case FrameType::kGoodbye: return Lose(link, "the other daemon ended the link: " + Text(frame));
    case FrameType::kMessage:
      if (link->stage == Stage::kUp) return events_->OnControl(link->id, frame.payload);
      break;
    case FrameType::kHello:
      if (link->stage == Stage::kHello) return OnHello(link, frame);
      break;
    case FrameType::kAdmit:
      if (link->stage == Stage::kDecision) return Keep(link);
      break;
    case FrameType::kRefuse:
      if (link->stage == Stage::kDecision) return Refused(link);
      break;
    case FrameType::kStalled:
      if (link->stage == Stage::kUp && initiator) return OnStalled(link, frame);
      break;
    case FrameType::kRailsReady:
      if (link->stage == Stage::kRails && !initiator) return OnRailsReady(link, frame);
      break;
    case FrameType::kRailsAccepted:
      if (link->stage == Stage::kRails && initiator && !link->channels.empty()) {
        return BringUp(link);
      }
      break;
  }
  Lose(link, fmt::format("the other daemon broke the protocol: a control frame of type {} out of "
                         "turn",
                         static_cast<int>(frame.type)));
}

void Links::Disconnect(PeerId peer, const std::string& reason) {
  if (Up(peer) != nullptr) disconnects_.emplace_back(peer, reason);
}

void Links::OnBroken(ControlLink* control, const std::string& reason) {
  const auto found = by_control_.find(control);
  if (found != by_control_.end()) Lose(found->second, reason);
}

void Links::OnChannelBroken(Channel* channel, const std::string& reason) {
  for (const auto& [id, link] : links_) {
    for (const auto& one : link->channels) {
      if (one.get() == channel) broken_.emplace_back(id, reason);
    }
  }
}

bool Links::HasNews() const {
  return !broken_.empty() || !disconnects_.empty() || reception_.HasNews();
}

bool Links::ArmRails() {
  return std::ranges::all_of(ucx_rails_,
                             [](const auto& rail) { return rail == nullptr || rail->Arm(); });
}

uint64_t Links::TickPeriod() const {
  const bool lingers = !gone_.empty();
  if (links_.empty() && attempts_.empty() && !reception_.busy() && !lingers) return 0;
  uint64_t shortest = std::min(options_->dead_after_ns, options_->proof_timeout_ns);
  for (const auto& [id, link] : links_) {
    if (link->theirs.dead_after_ms == 0) continue;
    shortest = std::min(shortest, uint64_t{link->theirs.dead_after_ms} * 1'000'000);
  }
  return shortest / kTicksPerDeadAfter;
}

int Links::Progress(bool tick) {
  int done = 0;
  for (const auto& rail : ucx_rails_) {
    if (rail != nullptr) done += rail->Progress();
  }
  while (!broken_.empty() || !disconnects_.empty()) {
    ++done;
    const auto broken = std::exchange(broken_, {});
    for (const auto& [id, reason] : broken) {
      const auto found = links_.find(id);
      if (found == links_.end()) continue;
      Link* link = found->second.get();
      // A link that broke while sending knows the reason itself.
      reason.empty() ? link->control->ReportBreak() : Lose(link, reason);
    }
    const auto disconnects = std::exchange(disconnects_, {});
    for (const auto& [id, reason] : disconnects) {
      Link* link = Up(id);
      if (link == nullptr) continue;
      link->control->Send(FrameType::kGoodbye, reason);
      Lose(link, "this daemon ended the link: " + reason);
    }
  }
  if (tick || reception_.HasNews()) reception_.Tick(MonotonicNanoseconds());
  if (tick) Tick();
  if (tick && TickPeriod() == 0) last_tick_ns_ = 0;
  std::erase_if(gone_, [](const std::unique_ptr<Link>& link) {
    return std::ranges::none_of(link->channels, [](const auto& one) { return one->Lingers(); });
  });
  return done;
}

void Links::Tick() {
  const uint64_t now = MonotonicNanoseconds();
  TickAttempts(now);
  const uint64_t gap = last_tick_ns_ == 0 ? 0 : now - last_tick_ns_;
  last_tick_ns_ = now;
  ticking_.clear();
  for (const auto& [id, link] : links_) ticking_.push_back(id);
  for (const PeerId id : ticking_) {
    const auto found = links_.find(id);
    if (found == links_.end()) continue;
    // If this daemon itself slept, its peers have not been silent.
    if (gap > options_->dead_after_ns / 2) found->second->control->Forgive(gap);
    TickLink(found->second.get(), now);
  }
}

std::vector<LinkTraffic> Links::Traffic(std::span<const PeerId> peers) const {
  std::vector<LinkTraffic> links;
  for (const PeerId id : peers) {
    const auto found = links_.find(id);
    if (found == links_.end() || found->second->stage != Link::Stage::kUp) continue;
    const std::unique_ptr<Link>& link = found->second;
    LinkTraffic& traffic = links.emplace_back(LinkTraffic{id, link->remote, {}});
    for (size_t rail = 0; rail < link->channels.size(); ++rail) {
      traffic.rails.push_back(link->channels[rail]->Traffic());
      if (rail >= link->rails.size()) continue;
      traffic.rails.back().name = link->rails[rail].name;
      traffic.rails.back().astray =
          link->moves != nullptr && link->moves->Astray(link->rails[rail].pair);
    }
  }
  return links;
}

void Links::TickLink(Link* link, uint64_t now_ns) {
  ControlLink* control = link->control.get();
  if (link->stage != Link::Stage::kUp && now_ns >= link->deadline_ns) {
    return Lose(link,
                fmt::format("no agreement in {:.1f} s", Seconds(options_->connect_timeout_ns)));
  }
  // On a crowded way heartbeats may be lost several times in a row while data still arrives.
  uint64_t received = 0;
  for (const auto& channel : link->channels) received += channel->received_bytes();
  if (std::exchange(link->received_bytes, received) != received) control->NoteHeard(now_ns);
  const uint64_t heard = control->last_heard_ns();
  if (link->moves != nullptr) {
    const bool silent = now_ns > heard && now_ns - heard > options_->dead_after_ns / 2;
    if (silent) link->moves->OnSilence(now_ns);
    link->moves->Tick(now_ns);
  }
  if (now_ns > heard && now_ns - heard > options_->dead_after_ns && !IsMoving(*link, now_ns)) {
    return Lose(link, fmt::format("silent for {:.1f} s: the host or the daemon is frozen, or the "
                                  "network is cut",
                                  Seconds(now_ns - heard)));
  }
  const uint64_t theirs = uint64_t{link->theirs.dead_after_ms} * 1'000'000;
  const uint64_t interval = (theirs == 0 ? options_->dead_after_ns : theirs) / 4;
  if (now_ns - control->last_sent_ns() >= interval) control->Send(FrameType::kHeartbeat);
  control->ReportBreak();
}

/// Returns whether a silent peer is given more time, because it may be the ways that carry nothing.
bool Links::IsMoving(const Link& link, uint64_t now_ns) const {
  return now_ns - link.control->last_heard_ns() <= PatienceNs() && link.moves != nullptr &&
         link.moves->Moving();
}

void Links::CloseGently(Link* link) {
  link->stage = Link::Stage::kClosing;
  link->deadline_ns = MonotonicNanoseconds() + kClosingNs;
  link->control->CloseGently();
}

/// Ends all messages under way with a peer.
void Links::EndMessages(Link* link) {
  // Tenants may see this status, so it has neither reason nor address.
  const Status lost = RemoteError("the link to a peer daemon was lost");
  const PeerId peer = link->id;
  board_->TakeArrivals([peer](const Arrival& arrival) { return arrival.peer == peer; },
                       [this](Arrival* arrival) {
                         arrival->offered ? arrival->channel->Refuse(arrival)
                                          : board_->Free(arrival);
                       });
  for (const auto& channel : link->channels) channel->Close(lost);
  board_->ForEachRequest(
      [peer](const Request& request) { return request.peer == peer && request.foreign == nullptr; },
      [&](Request* request) { board_->Complete(request, lost); });
}

void Links::Lose(Link* link, const std::string& reason) {
  const bool was_up = link->stage == Link::Stage::kUp;
  const PeerId id = link->id;
  Log(was_up ? LogLevel::kInfo : LogLevel::kDebug, kLogNet, "the link to {} ({}) ends: {}",
      link->remote.ToString(), ShortName(link->instance), reason);
  for (const Link::Rail& rail : link->rails) {
    if (rail_cookies_.erase(rail.cookie) > 0) reception_.Forget(rail.cookie);
  }
  if (link->moves != nullptr) link->moves->Close();
  EndMessages(link);
  by_control_.erase(link->control.get());
  link->control->Close();
  const NetworkAddress remote = link->remote;
  gone_.push_back(std::move(links_.at(id)));
  links_.erase(id);
  if (was_up) {
    board_->RunCompletions();
    events_->OnPeerLost(id, fmt::format("{}: {}", remote.ToString(), reason));
  }
  EndAttempts(id, RemoteError("{}: {}", remote.ToString(), reason));
}

}  // namespace harmonaize::transport
