#pragma once

#include <unistd.h>

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "plugins/nccl-net/carrier.h"
#include "plugins/nccl-net/connection.h"
#include "src/base/status.h"
#include "src/ipc/unique_id.h"

namespace harmonaize::nccl_net {

/// What listen gives to the process that is to connect: 128 bytes. It is the address of the
/// listening process's door in another order. Only a daemon of the cluster can have made it.
struct Handle {
  static constexpr uint32_t kMagic = 0x4e5a4148;  // "HAZN"

  uint32_t magic = kMagic;
  uint32_t listener = 0;
  decltype(UniqueId::token) token{};
  std::array<uint8_t, 80> sealed_address{};
  /// Used by the process that connects, which calls again and again with one handle: the connection
  /// that is being made; 0: none.
  uint64_t pending = 0;
};
static_assert(sizeof(Handle) == 128);

/// A place where other processes connect to this one.
struct Listener {
  uint32_t number = 0;
  std::shared_ptr<Session> session;
  Handle handle;
  std::deque<std::pair<std::shared_ptr<Carrier>, uint32_t>> waiting;  ///< Carriers and pipes.
};

/// The connections of this process, and the carriers that they share: one to each process that it
/// connects to, and one from each process that connects to it. Thread: any.
class Carriers {
 public:
  /// Returns the table of this process; a forked child has one of its own. It is never destroyed.
  static Carriers& Get();

  /// Errors: those of the daemon.
  Result<Listener*> Listen();
  /// Returns a connection once the other process has accepted it, and nullptr before. `handle`
  /// keeps what is under way from one call to the next. Errors: why there will be none.
  Result<Connection*> Connect(Handle* handle);
  /// Returns the next connection that another process has asked for, and nullptr if there is none.
  /// Errors: why there will be none any more.
  Result<Connection*> Accept(Listener* listener);
  void Close(Listener* listener);
  void Close(Connection* connection);
  /// Gives up the connections that are being made: nobody will ask for them any more.
  void GiveUpPending();

 private:
  struct Pending {
    std::shared_ptr<Carrier> carrier;
    uint32_t pipe = 0;
    bool asked = false;
  };

  Result<uint64_t> Begin(const Handle& handle);
  Result<Connection*> GoOn(Pending* pending);
  Status AdvanceIncoming(const std::shared_ptr<Session>& session);
  void OnControl(const std::shared_ptr<Carrier>& carrier, const Control& control);
  void TakeAnswers(const std::shared_ptr<Carrier>& carrier);
  void DropUnused();
  void Reap();

  const pid_t process_ = getpid();
  std::mutex mutex_;
  uint32_t next_listener_ = 1;
  uint64_t next_pending_ = 1;
  std::map<uint32_t, std::unique_ptr<Listener>> listeners_;
  std::map<uint64_t, Pending> pending_;
  /// By the session's number and the token of the door.
  std::map<std::pair<uint64_t, decltype(UniqueId::token)>, std::shared_ptr<Carrier>> outgoing_;
  std::vector<std::shared_ptr<Carrier>> incoming_;
  uint64_t knocks_of_ = 0;  ///< Number of the session whose knocks are counted.
  uint32_t knocks_ = 0;     ///< Knocks that were taken.
  std::vector<std::unique_ptr<Connection>> closing_;  ///< The daemon still holds memory of theirs.
};

}  // namespace harmonaize::nccl_net
