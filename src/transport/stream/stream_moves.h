#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/transport/link/handshake.h"
#include "src/transport/link/rail.h"
#include "src/transport/link/reception.h"
#include "src/transport/stream/movable_stream.h"
#include "src/transport/tcp/poller.h"

namespace harmonaize::transport {

/// Value of StreamName::connection for the control link.
inline constexpr uint8_t kControlStream = 0xff;

/// Moves the streams of one link off ways that carry nothing any more, and back.
///
/// The initiator of the link sees, or is told, that a stream has stalled, and connects by its other
/// ways, one a tenth of a second after the other. These messages go over the first connection whose
/// ends have proved the key:
///
///     initiator                          acceptor
///     freezes the stream
///     kMove                      ->
///                                        freezes it, takes what has come over the old connection
///                                <-      kFrozen: the byte that it expects next
///     takes what has come over the
///     old connection
///     kGoOn: the byte it expects ->
///     goes on over the new one           goes on over the new one
///
/// Each side takes what has come only after the other has frozen, and each has kept all that was
/// not acknowledged when it froze. So every byte is held by one of them. A frozen stream stays so
/// until a move succeeds; each attempt begins anew with a higher number. After `give_up_ns` the
/// link is given up. A stream that has left its own way goes back to it when that can be connected
/// again. Thread: one, the transport's owner.
class StreamMoves {
 public:
  struct Way {
    NetworkAddress remote;
    SocketOptions socket;
  };
  /// Names a stream of a link.
  struct StreamName {
    RailPair pair;
    uint8_t connection = 0;  ///< Connection of a rail; kControlStream: the control link.

    bool operator==(const StreamName&) const = default;
  };
  class Owner {
   public:
    /// Returns a number for a connection attempt, whose result is to be passed to these moves.
    virtual uint64_t NewCookie(StreamMoves* moves) = 0;
    virtual void DropCookie(uint64_t cookie) = 0;
    /// On the acceptor: asks the initiator to move the stream; it gets the same arguments by
    /// OnAsked.
    virtual void AskToMove(StreamMoves* moves, const StreamName& stream, uint32_t number) = 0;
    /// Called once when the link is of no use any more, possibly from within any call.
    virtual void OnMoveFailed(StreamMoves* moves, const std::string& reason) = 0;

   protected:
    ~Owner() = default;
  };

  /// `greeting` names link and instance of this side. `initiator`: this side connects, by `ways`.
  /// All pointers must outlive the moves.
  StreamMoves(Poller* poller, Reception* reception, Owner* owner, bool initiator,
              const Greeting& greeting, std::vector<Way> ways, uint64_t give_up_ns);
  ~StreamMoves();
  StreamMoves(const StreamMoves&) = delete;
  StreamMoves& operator=(const StreamMoves&) = delete;

  /// Adds a stream. `own_way` is the way it belongs to, and is connected by unless it is `astray`.
  void Add(StreamUser* user, const StreamName& name, size_t own_way, std::string text, bool astray);

  /// Stops because the link is lost: nothing is connected or called any more.
  void Close();

  /// Finds stalled streams, connects and gives up. To be called often.
  void Tick(uint64_t now_ns);
  /// Handles the acceptor's request to move a stream that had been moved `number` times. Initiator
  /// only.
  void OnAsked(const StreamName& name, uint32_t number, uint64_t now_ns);
  /// Handles a silence of the peer, which may be due to the control link's way.
  void OnSilence(uint64_t now_ns);
  /// Returns whether a stream is to be moved, or being moved; the peer may then well be alive.
  bool Moving() const;
  void OnProved(ProvedConnection connection);
  void OnConnectFailed(uint64_t cookie);

  /// Returns whether any stream of this rail is on another way than its own, or on none.
  bool Astray(const RailPair& pair) const;

 private:
  enum class Word : uint32_t { kMove = 0x4d4f5645, kFrozen, kGoOn };
  /// Sent by both sides over a new connection before it carries the stream. As it is on the wire.
  struct Message {
    Word word;
    uint32_t number;  ///< Number of the attempt.
    uint64_t value;   ///< kMove: whether this is the stream's own way; else a byte of the stream.
  };
  static_assert(sizeof(Message) == 16);

  class Connection;
  struct Try {
    uint64_t cookie = 0;
    size_t way = 0;
  };
  struct Moved {
    StreamUser* user = nullptr;
    StreamName name;
    std::string text;
    size_t own_way = 0;
    size_t way = 0;
    bool astray = false;
    uint64_t wanted_until_ns = 0;  ///< Initiator: end of the time in which it is to be moved; 0: it
                                   ///< is not.
    bool frozen = false;
    uint64_t frozen_ns = 0;
    uint32_t number = 0;  ///< Number of the newest attempt, from 1.
    uint64_t next_try_ns = 0;
    size_t candidate = 0;  ///< Number of ways tried since the move was wanted.
    std::vector<Try> tries;
    uint64_t return_ns = 0;  ///< Time when its own way is tried again.
    uint64_t return_pause_ns = 0;
    uint64_t returned_ns = 0;
    uint64_t asked_ns = 0;
    std::vector<std::unique_ptr<Connection>> connections;  ///< Proved, but not in use.
  };

  Moved* Find(const StreamName& name);
  void Begin(const StreamName& name, uint64_t now_ns);
  void Ask(Moved* moved, uint64_t now_ns);
  void PokeOthers(uint64_t now_ns);
  void TickStream(Moved* moved, uint64_t now_ns);
  void DropUnused(Moved* moved, uint64_t now_ns);
  void TickInitiator(Moved* moved, uint64_t now_ns);
  void Connect(Moved* moved, size_t way);
  void ForgetTries(Moved* moved);
  bool Freeze(Moved* moved);
  bool OnMessage(Connection* connection, const Message& message);
  bool OnMove(Connection* connection, const Message& message);
  bool OnFrozen(Connection* connection, const Message& message);
  bool GoOn(Connection* connection, uint64_t expected);
  void Drop(Connection* connection);
  void Fail(const std::string& reason);

  Poller* const poller_;
  Reception* const reception_;
  Owner* const owner_;
  const bool initiator_;
  const Greeting greeting_;
  const std::vector<Way> ways_;
  const uint64_t give_up_ns_;
  std::vector<std::unique_ptr<Moved>> streams_;
  std::vector<std::unique_ptr<Connection>> gone_;  // freed at the next Tick
  uint64_t next_poke_ns_ = 0;
  bool closed_ = false;
};

}  // namespace harmonaize::transport
