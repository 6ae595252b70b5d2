#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/transport/link/control_link.h"
#include "src/transport/link/front_door.h"
#include "src/transport/link/message_board.h"
#include "src/transport/link/reception.h"
#include "src/transport/stream/stream_moves.h"
#include "src/transport/tcp/tcp_channel.h"
#include "src/transport/transport.h"
#include "src/transport/ucx/ucx_rail.h"

namespace harmonaize::transport {

/// A link to another daemon, from the proof of the key to its end.
struct Link {
  enum class Stage {
    kHello,     ///< Waits for the other side's hello.
    kDecision,  ///< Waits for the arbiter to keep or refuse it.
    kRails,     ///< Kept; the initiator connects the rails.
    kUp,
    kClosing,  ///< Sends its last frames.
  };
  struct RailSocket {
    FileDescriptor socket;
    uint8_t number = 0;  ///< Number of the initiator's try that connected it.
  };
  /// One pair of rails that is being connected.
  struct Rail {
    RailPair pair;
    /// Proved connections of a TCP pair; the first one first.
    std::vector<RailSocket> sockets;
    uint64_t cookie = 0;   ///< Cookie of the initiator's connection attempt.
    uint8_t tries = 0;     ///< Connections that were begun.
    RailPair way;          ///< Pair of rails by whose way it connects; usually its own.
    bool astray = false;   ///< The way is not its own.
    bool patient = false;  ///< No way answered at once, so its own is given more time.
    std::string name;
  };

  PeerId id = 0;
  uint64_t number = 0;  ///< The initiator's id of the link, which is part of the greetings of its
                        ///< rails.
  Stage stage = Stage::kHello;
  Handshake::Role role = Handshake::Role::kAcceptor;
  InstanceId instance{};
  uint32_t version = 0;  ///< Of the protocol.
  NetworkAddress remote;
  uint64_t token = 0;
  uint64_t deadline_ns = 0;  ///< Time by which it must be up, or closed.
  Hello theirs;
  std::vector<Rail> rails;
  std::string rail_failures;
  std::vector<std::unique_ptr<Channel>> channels;
  /// Streams of TCP rails, with their names, until the link is up.
  std::vector<std::pair<TcpChannel*, StreamMoves::StreamName>> streams;
  std::unique_ptr<ControlLink> control;
  /// Null where one of the two daemons may not move streams. Destroyed before the streams it moves.
  std::unique_ptr<StreamMoves> moves;
  uint64_t received_bytes = 0;  ///< Bytes received by all channels, at the last check.
};

/// Forms links and watches over them. Two daemons that connect to each other at once make two
/// connections. The one with the smaller instance id, the *arbiter*, keeps the first that it sees
/// and refuses others, so nothing has to be agreed. Thread: one, the transport's owner.
class Links final : public Reception::Owner,
                    public ControlLink::Owner,
                    public Channel::Owner,
                    public StreamMoves::Owner {
 public:
  Links(Poller* poller, MessageBoard* board, const TransportOptions* options,
        TransportEvents* events, const InstanceId& instance);
  ~Links();

  Result<NetworkAddress> Listen(const NetworkAddress& address);
  void Connect(const NetworkAddress& address, Transport::ConnectDone done);
  void Disconnect(PeerId peer, const std::string& reason);
  Status SendControl(PeerId peer, ControlSender sender, std::span<const std::byte> message);
  /// Returns the link of a peer that is up; null when it is not.
  Link* Up(PeerId peer) const;
  /// Returns the traffic of those peers whose links are up.
  std::vector<LinkTraffic> Traffic(std::span<const PeerId> peers) const;

  /// Does the work that no ready descriptor triggers. Returns how much there was.
  int Progress(bool tick);
  /// Returns whether Progress has something to do already.
  bool HasNews() const;
  /// Returns whether UCX lets the owner sleep.
  bool ArmRails();
  /// Returns the period in which Progress must be told to tick; 0: never. Looks at all links.
  uint64_t TickPeriod() const;

  const std::vector<std::unique_ptr<UcxRail>>& ucx_rails() const { return ucx_rails_; }
  ReceptionCounters reception_counters() const { return front_door_.counters(); }

  void OnProved(ProvedConnection connection) override;
  void OnConnectFailed(uint64_t cookie, const Status& reason, bool no_way) override;
  void OnFrame(ControlLink* control, const Frame& frame) override;
  void OnBroken(ControlLink* control, const std::string& reason) override;
  void OnChannelBroken(Channel* channel, const std::string& reason) override;
  uint64_t NewCookie(StreamMoves* moves) override;
  void DropCookie(uint64_t cookie) override { move_cookies_.erase(cookie); }
  void AskToMove(StreamMoves* moves, const StreamMoves::StreamName& stream,
                 uint32_t number) override;
  void OnMoveFailed(StreamMoves* moves, const std::string& reason) override;

 private:
  /// A Connect that has not been answered.
  struct Attempt {
    NetworkAddress address;
    Transport::ConnectDone done;
    uint64_t deadline_ns = 0;
    uint64_t next_try_ns = 0;           ///< 0: no further try is planned.
    PeerId link = 0;                    ///< The link that will answer it; 0: not known yet.
    size_t tries = 0;                   ///< Tries begun.
    std::vector<uint64_t> under_way{};  ///< Cookies of tries that have not ended.
    Status last_failure{};
  };

  Status OpenRails(const NetworkAddress& address);
  Link* LinkOf(const StreamMoves* moves) const;
  Status OpenRail(RailOptions* rail, RailAnnouncement* announcement);
  SocketOptions RailSocketOptions(const RailOptions& rail) const;
  SocketOptions ControlSocketOptions() const;

  void BeginTry(uint64_t id);
  void OnTryFailed(uint64_t id, uint64_t cookie, const Status& reason, bool no_way);
  void ForgetTries(Attempt* attempt);
  StreamMoves::Way WayOfTry(const Attempt& attempt) const;
  void EndAttempts(PeerId link, const Result<PeerId>& result);
  void EndAttempt(uint64_t id, const Result<PeerId>& result);
  void MoveAttempts(PeerId from, const Link* to);
  void TickAttempts(uint64_t now_ns);

  void OnControlProved(ProvedConnection connection);
  void OnRailProved(ProvedConnection connection);
  void OnMoveProved(ProvedConnection connection);
  Link* OtherLink(const Link& link, bool kept) const;
  void OnHello(Link* link, const Frame& frame);
  void Decide(Link* link);
  void Keep(Link* link);
  void Refused(Link* link);
  void ConnectRails(Link* link);
  void ConnectRail(Link* link, Link::Rail* rail);
  bool FindOtherWay(const Link& link, Link::Rail* rail) const;
  void KeepSocket(Link* link, const RailPair& pair, Link::RailSocket socket);
  Result<std::unique_ptr<Channel>> OpenChannel(Link* link, Link::Rail* rail);
  std::shared_ptr<OwnerRates> RatesOf(const RailOptions& rail);
  void OnRailSettled(Link* link);
  void OnRailsReady(Link* link, const Frame& frame);
  Status AcceptRails(Link* link, const Frame& frame);
  Status OpenChannels(Link* link);
  void BringUp(Link* link);
  bool MovableWith(const Link& link) const { return movable_ && link.theirs.movable; }
  void MakeMovable(Link* link);
  StreamMoves::Way WayOf(const Link& link, const RailPair& pair) const;
  void OnStalled(Link* link, const Frame& frame);

  void Tick();
  /// Returns how long a peer may be silent while streams are moved off ways that carry nothing.
  uint64_t PatienceNs() const { return options_->dead_after_ns + options_->dead_after_ns / 4; }
  void TickLink(Link* link, uint64_t now_ns);
  bool IsMoving(const Link& link, uint64_t now_ns) const;
  void CloseGently(Link* link);
  void Lose(Link* link, const std::string& reason);
  void EndMessages(Link* link);

  Poller* poller_;
  MessageBoard* board_;
  TenantMix tenants_;
  std::map<std::string, std::shared_ptr<OwnerRates>> rates_of_device_;
  const TransportOptions* options_;
  const std::string system_congestion_control_;
  TransportEvents* events_;
  InstanceId instance_;
  Reception reception_;   ///< For connections that this daemon makes.
  FrontDoor front_door_;  ///< For connections that other daemons make.
  bool rails_open_ = false;
  std::vector<RailOptions> rails_;
  std::vector<RailAnnouncement> announcements_;
  std::vector<std::unique_ptr<UcxRail>> ucx_rails_;  // by rail; null for TCP
  std::map<PeerId, std::unique_ptr<Link>> links_;
  std::unordered_map<const ControlLink*, Link*> by_control_;
  std::map<uint64_t, Attempt> attempts_;
  std::unordered_map<uint64_t, uint64_t> try_cookies_;  // of attempts
  std::unordered_map<uint64_t, PeerId> rail_cookies_;   // of rails that are being connected
  std::unordered_map<uint64_t, StreamMoves*> move_cookies_;
  const bool movable_ = MovableStream::Movable();
  std::vector<std::pair<PeerId, std::string>> broken_;
  std::vector<std::pair<PeerId, std::string>> disconnects_;
  std::vector<std::unique_ptr<Link>> gone_;  // freed at the end of Progress
  uint64_t last_tick_ns_ = 0;
  std::vector<PeerId> ticking_;  // kept, so that a tick allocates nothing
  uint64_t next_id_ = 0;
};

}  // namespace harmonaize::transport
