#include "src/transport/stream/stream_moves.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::transport {
namespace {

// Pause between tries of two ways, in nanoseconds. A working way proves the key in two round trips.
constexpr uint64_t kNextWayNs = 100'000'000;
// Longest time of one connection attempt.
constexpr uint64_t kTryNs = 1'000'000'000;
// Pause between two tries once all ways have been tried: the peer may be down, not the ways.
constexpr uint64_t kAgainNs = 400'000'000;
// Most tries of one stream under way.
constexpr size_t kMostTries = 8;
// Time to answer over a connection whose ends have just proved the key to each other.
constexpr uint64_t kAnswerNs = 300'000'000;
// A proved connection on which no move begins is closed after this time.
constexpr uint64_t kUnusedNs = 2'000'000'000;
// First pause between tries of a stream's own way.
constexpr uint64_t kFirstReturnNs = 500'000'000;
// Longest pause between them.
constexpr uint64_t kLastReturnNs = 32'000'000'000;
// The pause doubles if the stream stalls again within this time of its return.
constexpr uint64_t kTrustedNs = 10'000'000'000;
// Pause between two requests of the acceptor; the initiator remembers each for twice as long.
constexpr uint64_t kAskNs = 250'000'000;
// Pause between two tests of the other streams' ways.
constexpr uint64_t kPokeNs = 200'000'000;
// Most connections of one stream that are proved and wait at the acceptor.
constexpr size_t kMostConnections = 16;

}  // namespace

/// A new connection, while both sides agree on where the stream goes on.
class StreamMoves::Connection final : public Poller::Handler {
 public:
  Connection(StreamMoves* moves, Moved* moved, FileDescriptor socket, size_t way, uint64_t now_ns)
      : moves_(moves), moved_(moved), socket_(std::move(socket)), way_(way), since_ns_(now_ns) {}
  ~Connection() { Close(); }

  Status Start() { return moves_->poller_->Add(socket_.get(), EPOLLIN, this); }
  void OnReady(uint32_t /*events*/) override { Read(); }
  /// Reads what has come before the stream's own bytes.
  void Read();
  /// Sends a message. There is room: only the handshake has gone over the connection.
  bool Send(Word word, uint64_t value) {
    const Message message{word, number_, value};
    const ssize_t sent = send(socket_.get(), &message, sizeof message, MSG_NOSIGNAL);
    return sent == static_cast<ssize_t>(sizeof message);
  }
  FileDescriptor TakeSocket() {
    moves_->poller_->Remove(socket_.get(), this);
    return std::exchange(socket_, {});
  }
  void Close() {
    if (!socket_.valid()) return;
    moves_->poller_->Remove(socket_.get(), this);
    socket_.Reset();
  }

  Moved* moved() const { return moved_; }
  size_t way() const { return way_; }
  uint64_t since_ns() const { return since_ns_; }
  uint32_t number() const { return number_; }
  void set_number(uint32_t number) { number_ = number; }
  /// On the acceptor: returns whether the initiator calls this the stream's own way.
  bool own() const { return own_; }
  void set_own(bool own) { own_ = own; }

 private:
  StreamMoves* const moves_;
  Moved* const moved_;
  FileDescriptor socket_;
  const size_t way_;
  const uint64_t since_ns_;
  uint32_t number_ = 0;
  bool own_ = false;
  std::array<std::byte, sizeof(Message)> input_{};
  size_t held_ = 0;
};

void StreamMoves::Connection::Read() {
  while (socket_.valid()) {
    const ssize_t got = recv(socket_.get(), input_.data() + held_, input_.size() - held_, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return moves_->Drop(this);
    held_ += static_cast<size_t>(got);
    if (held_ < input_.size()) continue;
    held_ = 0;
    Message message;
    std::memcpy(&message, input_.data(), sizeof message);
    if (!moves_->OnMessage(this, message)) return;
  }
}

StreamMoves::StreamMoves(Poller* poller, Reception* reception, Owner* owner, bool initiator,
                         const Greeting& greeting, std::vector<Way> ways, uint64_t give_up_ns)
    : poller_(poller),
      reception_(reception),
      owner_(owner),
      initiator_(initiator),
      greeting_(greeting),
      ways_(std::move(ways)),
      give_up_ns_(give_up_ns) {}

StreamMoves::~StreamMoves() {
  Close();
}

void StreamMoves::Close() {
  closed_ = true;
  for (const auto& moved : streams_) {
    ForgetTries(moved.get());
    for (const auto& connection : moved->connections) connection->Close();
  }
}

void StreamMoves::Add(StreamUser* user, const StreamName& name, size_t own_way, std::string text,
                      bool astray) {
  auto moved = std::make_unique<Moved>();
  moved->user = user;
  moved->name = name;
  moved->text = std::move(text);
  moved->own_way = moved->way = own_way;
  moved->astray = astray;
  moved->return_pause_ns = kFirstReturnNs;
  streams_.push_back(std::move(moved));
}

StreamMoves::Moved* StreamMoves::Find(const StreamName& name) {
  const auto found =
      std::ranges::find_if(streams_, [&](const auto& moved) { return moved->name == name; });
  return found == streams_.end() ? nullptr : found->get();
}

bool StreamMoves::Astray(const RailPair& pair) const {
  return std::ranges::any_of(streams_, [&](const auto& moved) {
    return moved->name.pair == pair && moved->name.connection != kControlStream &&
           (moved->astray || moved->frozen);
  });
}

void StreamMoves::Fail(const std::string& reason) {
  if (std::exchange(closed_, true)) return;
  owner_->OnMoveFailed(this, reason);
}

// ---- What has stalled ----

void StreamMoves::Tick(uint64_t now_ns) {
  gone_.clear();
  for (const auto& moved : streams_) {
    if (closed_) return;
    TickStream(moved.get(), now_ns);
  }
  PokeOthers(now_ns);
}

void StreamMoves::TickStream(Moved* moved, uint64_t now_ns) {
  if (moved->frozen && now_ns - moved->frozen_ns > give_up_ns_) {
    return Fail(fmt::format("{} carries nothing, and no other way could be connected in {:.1f} s",
                            moved->text, static_cast<double>(give_up_ns_) * 1e-9));
  }
  DropUnused(moved, now_ns);
  const bool stalled = moved->user->Stalled();
  if (initiator_) {
    if (stalled) Begin(moved->name, now_ns);
    return TickInitiator(moved, now_ns);
  }
  if (stalled) Ask(moved, now_ns);
}

/// On the acceptor: asks the initiator to Begin.
void StreamMoves::Ask(Moved* moved, uint64_t now_ns) {
  if (now_ns - moved->asked_ns < kAskNs) return;
  moved->asked_ns = now_ns;
  owner_->AskToMove(this, moved->name, moved->number);
}

void StreamMoves::OnSilence(uint64_t now_ns) {
  Moved* moved = Find({{}, kControlStream});
  if (moved == nullptr || closed_) return;
  // Words of this side may still arrive, though nothing comes back.
  initiator_ ? Begin(moved->name, now_ns) : Ask(moved, now_ns);
}

bool StreamMoves::Moving() const {
  return std::ranges::any_of(streams_, [](const auto& moved) {
    return moved->frozen || moved->wanted_until_ns != 0 || moved->user->Stalled();
  });
}

/// Drops connections whose way was cut meanwhile, because the other side cannot say that they are
/// not needed. But once the acceptor has answered the newest attempt it keeps that connection: the
/// initiator may have gone on over it, however long its message takes.
void StreamMoves::DropUnused(Moved* moved, uint64_t now_ns) {
  std::vector<Connection*> unused;
  for (const auto& connection : moved->connections) {
    const bool answered = !initiator_ && moved->frozen && connection->number() == moved->number;
    if (!answered && now_ns - connection->since_ns() > kUnusedNs)
      unused.push_back(connection.get());
  }
  for (Connection* connection : unused) Drop(connection);
}

void StreamMoves::OnAsked(const StreamName& name, uint32_t number, uint64_t now_ns) {
  const Moved* moved = Find(name);
  // A request from before the last move is outdated.
  if (moved != nullptr && moved->number == number) Begin(name, now_ns);
}

void StreamMoves::Begin(const StreamName& name, uint64_t now_ns) {
  Moved* moved = Find(name);
  if (moved == nullptr || closed_) return;
  if (moved->wanted_until_ns == 0) {
    Log(LogLevel::kInfo, kLogNet, "{} carries nothing now; its stream is to go another way",
        moved->text);
    moved->candidate = 0;
    moved->next_try_ns = now_ns;
    next_poke_ns_ = now_ns;
  }
  moved->wanted_until_ns = now_ns + 2 * kAskNs;
}

/// Tests the ways of the other streams while any stream is off its own way: idle streams would not
/// show whether their ways work.
void StreamMoves::PokeOthers(uint64_t now_ns) {
  const bool astray = std::ranges::any_of(streams_, [](const auto& moved) {
    const bool away = moved->astray || moved->frozen || moved->wanted_until_ns != 0;
    return away && moved->name.connection != kControlStream;
  });
  if (!astray || now_ns < next_poke_ns_) return;
  next_poke_ns_ = now_ns + kPokeNs;
  for (const auto& moved : streams_) {
    if (!moved->frozen && !moved->astray) moved->user->Poke();
  }
}

void StreamMoves::TickInitiator(Moved* moved, uint64_t now_ns) {
  if (!moved->frozen && moved->wanted_until_ns != 0 && now_ns > moved->wanted_until_ns) {
    // The way works again by itself.
    moved->wanted_until_ns = 0;
    ForgetTries(moved);
  }
  if (moved->frozen || moved->wanted_until_ns != 0) {
    const bool answer_due = std::ranges::any_of(moved->connections, [&](const auto& connection) {
      return now_ns - connection->since_ns() < kAnswerNs;
    });
    if (answer_due || now_ns < moved->next_try_ns || moved->tries.size() >= kMostTries) return;
    ++moved->candidate;
    Connect(moved, (moved->way + moved->candidate) % ways_.size());
    moved->next_try_ns = now_ns + (moved->candidate < ways_.size() ? kNextWayNs : kAgainNs);
  } else if (moved->astray && now_ns >= moved->return_ns && moved->tries.empty()) {
    moved->return_ns = now_ns + moved->return_pause_ns;
    Connect(moved, moved->own_way);
  }
}

// ---- Another connection ----

void StreamMoves::Connect(Moved* moved, size_t way) {
  Greeting greeting = greeting_;
  greeting.purpose = Purpose::kMove;
  greeting.initiator_rail = moved->name.pair.initiator;
  greeting.acceptor_rail = moved->name.pair.acceptor;
  greeting.connection = moved->name.connection;
  const uint64_t cookie = owner_->NewCookie(this);
  moved->tries.push_back({cookie, way});
  reception_->Connect(ways_[way].remote, ways_[way].socket, greeting, cookie, kTryNs);
}

void StreamMoves::ForgetTries(Moved* moved) {
  for (const Try& one : moved->tries) {
    reception_->Forget(one.cookie);
    owner_->DropCookie(one.cookie);
  }
  moved->tries.clear();
}

void StreamMoves::OnConnectFailed(uint64_t cookie) {
  for (const auto& moved : streams_) {
    std::erase_if(moved->tries, [cookie](const Try& one) { return one.cookie == cookie; });
  }
}

void StreamMoves::OnProved(ProvedConnection proved) {
  if (closed_) return;
  const Greeting& greeting = initiator_ ? proved.ours : proved.theirs;
  Moved* moved = Find({{greeting.initiator_rail, greeting.acceptor_rail}, greeting.connection});
  if (moved == nullptr || moved->connections.size() >= kMostConnections) return;
  size_t way = 0;
  if (initiator_) {
    const auto found = std::ranges::find(moved->tries, proved.cookie, &Try::cookie);
    if (found == moved->tries.end()) return;
    way = found->way;
    moved->tries.erase(found);
    ForgetTries(moved);
    while (!moved->connections.empty()) Drop(moved->connections.back().get());
  }
  auto connection = std::make_unique<Connection>(this, moved, std::move(proved.socket), way,
                                                 MonotonicNanoseconds());
  if (!connection->Start().ok()) return;
  Connection* const added = connection.get();
  moved->connections.push_back(std::move(connection));
  if (!initiator_) return;  // which waits for kMove
  added->set_number(++moved->number);
  if (!Freeze(moved)) return;
  if (!added->Send(Word::kMove, way == moved->own_way ? 1 : 0)) Drop(added);
}

bool StreamMoves::Freeze(Moved* moved) {
  const Status frozen = moved->user->Freeze();
  if (!frozen.ok()) {
    Fail(fmt::format("{}: {}", moved->text, frozen.message()));
    return false;
  }
  if (!std::exchange(moved->frozen, true)) moved->frozen_ns = MonotonicNanoseconds();
  return true;
}

void StreamMoves::Drop(Connection* connection) {
  connection->Close();
  auto& connections = connection->moved()->connections;
  const auto found = std::ranges::find_if(
      connections, [connection](const auto& one) { return one.get() == connection; });
  if (found == connections.end()) return;
  // The connection's code may be on the stack.
  gone_.push_back(std::move(*found));
  connections.erase(found);
}

// ---- What both sides say over it ----

/// Returns whether the connection has more to say to the moves.
bool StreamMoves::OnMessage(Connection* connection, const Message& message) {
  if (closed_) return false;
  const bool of_this = connection->number() != 0 && message.number == connection->number() &&
                       message.number == connection->moved()->number;
  switch (message.word) {
    case Word::kMove:
      if (!initiator_ && connection->number() == 0) return OnMove(connection, message);
      break;
    case Word::kFrozen:
      if (initiator_ && of_this) return OnFrozen(connection, message);
      break;
    case Word::kGoOn:
      if (!initiator_ && of_this) return GoOn(connection, message.value);
      break;
  }
  Drop(connection);
  return false;
}

bool StreamMoves::OnMove(Connection* connection, const Message& message) {
  Moved* moved = connection->moved();
  if (message.number <= moved->number) {  // overtaken by a newer attempt
    Drop(connection);
    return false;
  }
  // For the initiator the last move may have ended, with its message arrived but not yet read.
  std::vector<Connection*> before;
  for (const auto& one : moved->connections) {
    if (one->number() != 0) before.push_back(one.get());
  }
  for (Connection* one : before) {
    one->Read();
    Drop(one);
  }
  if (closed_) return false;
  moved->number = message.number;
  connection->set_number(message.number);
  connection->set_own(message.value != 0);
  if (!Freeze(moved)) return false;
  const uint64_t expected = moved->user->Drain();
  if (closed_) return false;
  if (connection->Send(Word::kFrozen, expected)) return true;
  Drop(connection);
  return false;
}

bool StreamMoves::OnFrozen(Connection* connection, const Message& message) {
  const uint64_t expected = connection->moved()->user->Drain();
  if (closed_) return false;
  if (!connection->Send(Word::kGoOn, expected)) {
    Drop(connection);
    return false;
  }
  return GoOn(connection, message.value);
}

bool StreamMoves::GoOn(Connection* connection, uint64_t expected) {
  Moved* moved = connection->moved();
  const uint64_t now_ns = MonotonicNanoseconds();
  const Status status = moved->user->Continue(connection->TakeSocket(), expected);
  const bool own = initiator_ ? connection->way() == moved->own_way : connection->own();
  moved->way = connection->way();
  Drop(connection);
  if (!status.ok()) {
    Fail(fmt::format("{} could not go another way: {}", moved->text, status.message()));
    return false;
  }
  moved->frozen = false;
  moved->wanted_until_ns = 0;
  if (!own && !moved->astray) {
    const bool soon = moved->returned_ns != 0 && now_ns - moved->returned_ns < kTrustedNs;
    moved->return_pause_ns =
        soon ? std::min(2 * moved->return_pause_ns, kLastReturnNs) : kFirstReturnNs;
    moved->return_ns = now_ns + moved->return_pause_ns;
  } else if (own && moved->astray) {
    moved->returned_ns = now_ns;
  }
  moved->astray = !own;
  Log(LogLevel::kInfo, kLogNet, "{} goes on {}", moved->text,
      own ? "by its own way" : "by another way");
  return false;
}

}  // namespace harmonaize::transport
