#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/access/allowance.h"
#include "daemon/access/engine_gate.h"
#include "daemon/access/engine_rooms.h"
#include "daemon/config/config.h"
#include "daemon/config/nccl_config.h"
#include "daemon/quota/holdings.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/tenant/connection.h"
#include "daemon/tenant/region.h"
#include "daemon/tenant/session_keeper.h"
#include "src/base/status.h"
#include "src/ipc/session_versions.h"

namespace harmonaize::daemon {

/// Deals with the connections of one tenant on a thread of its own: receives what the tenant sends,
/// opens sessions, maps and unmaps the tenant's memory, and passes requests to the engine. If the
/// kernel makes a thread wait for something of the tenant's, it is this thread, and only this
/// tenant waits with it.
///
/// The engine gets one request of a tenant at a time. A tenant's connections and requests get no
/// more than a share of a processor's time, the engine's included (Allowance). A connection is read
/// again once its request was answered.
class Reception : public std::enable_shared_from_this<Reception> {
 public:
  /// The facts about the daemon that the answer to a hello holds.
  struct Greeter {
    int64_t workers = 0;
    VersionRange versions = kSessionVersions;  ///< Those that it speaks.
    /// The provider's settings for NCCL; nullptr: there are none.
    std::shared_ptr<const NcclSettingsInForce> nccl_settings = nullptr;
  };
  /// Starts a reception.
  static Result<std::shared_ptr<Reception>> Open(std::shared_ptr<EngineGate> gate,
                                                 TenantIdentity tenant, const Greeter& greeter);

  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;

  /// Takes over a connection. Returns false, and takes nothing, if the reception has closed, as it
  /// does when its tenant has had nothing here for a while. Thread: main.
  bool Receive(std::unique_ptr<Connection>* connection);

  /// Drops all connections. Requires: the engine has gone. The reception closes once nothing refers
  /// to a connection or a region of the tenant any more. Thread: any.
  void Close();
  /// Returns whether the thread has ended. Thread: any.
  bool closed() const { return closed_.load(std::memory_order_acquire); }

 private:
  struct Guest {
    std::shared_ptr<Connection> connection;
    uint32_t session = 0;      ///< 0 until it has said hello.
    bool has_asked = false;    ///< Whether it has sent any request.
    bool answering = false;    ///< Whether its request is under way.
    uint64_t hello_by_ns = 0;  ///< When it is sent away, if it has asked for nothing.
  };
  struct Question {
    std::shared_ptr<Connection> connection;
    MessageType type;
    std::function<void(EngineRooms&)> answer;
    // The outcome, which HaveAnswered sets.
    bool answered = false;  ///< False: the answer comes later.
    uint64_t took_ns = 0;   ///< The engine's time, in nanoseconds.
  };

  Reception(std::shared_ptr<EngineGate> gate, TenantIdentity tenant, const Greeter& greeter)
      : gate_(std::move(gate)), tenant_(std::move(tenant)), greeter_(greeter) {}

  void Run();
  void Charge(int64_t nanoseconds);
  int TimeoutMs() const;
  bool MayEnd();
  void WelcomeArrivals();
  void Welcome(std::unique_ptr<Connection> arrived);
  Status WatchGuest(const std::shared_ptr<Connection>& connection);
  void SendAwayTheSilent(uint64_t now_ns);
  void LetGoOfWhatWasRead(uint64_t now_ns);

  void OnReadable(const std::shared_ptr<Connection>& connection);
  void Read(Guest& guest);
  Result<MessageHeader> ReadHeader(const Guest& guest, const ControlMessage& message) const;
  Status Greet(Guest& guest, const MessageHeader& header, const ControlMessage& message);
  Status OpenSession(Guest& guest, const HelloRequest& hello, const ControlMessage& message);
  Status Forward(Guest& guest, const MessageHeader& header, ControlMessage message);
  Status ReplyNcclSettings(Connection& connection, const MessageHeader& header,
                           const ControlMessage& message);
  Status ReplyPiece(Connection& connection, const MessageHeader& header,
                    const ControlMessage& message);

  void Ask(Guest& guest, MessageType type, std::function<void(EngineRooms&)> answer);
  void AskNext();
  void TakeStatusQuestions();
  void ShareStatus(const std::shared_ptr<const Document>& status);
  void HaveAnswered(Question& question, EngineRooms& rooms) noexcept;
  void OnAsked();
  void OnAnswered(const std::shared_ptr<Connection>& connection);
  void Drop(const std::shared_ptr<Connection>& connection, const std::string& why,
            SessionEnd end = SessionEnd::kCutOff);

  std::shared_ptr<Connection> Share(std::unique_ptr<Connection> connection);
  std::shared_ptr<RegionMemory> Share(std::unique_ptr<RegionMemory> memory);
  void Retire(Connection* connection) noexcept;
  void Retire(RegionMemory* memory) noexcept;
  void DestroyUnused();

  const std::shared_ptr<EngineGate> gate_;
  const TenantIdentity tenant_;
  const Greeter greeter_;
  std::unique_ptr<EventLoop> loop_;
  std::atomic<bool> closing_{false};
  std::atomic<bool> closed_{false};
  std::atomic<bool> answered_{false};  ///< The engine is done with `asking_`.
  Allowance allowance_;  ///< Time that this thread and the engine may spend on the tenant.
  /// Connections and regions that exist, here or with the engine.
  std::atomic<int64_t> dependents_{0};

  std::mutex mutex_;
  std::deque<std::unique_ptr<Connection>> arrivals_;  // under mutex_
  bool ended_ = false;                                // under mutex_
  Connection* unused_ = nullptr;                      // under mutex_
  RegionMemory* unused_regions_ = nullptr;            // under mutex_

  // Thread: one, the reception's.
  bool named_ = false;                ///< The account has its name.
  std::shared_ptr<Account> account_;  ///< nullptr before the first connection.
  std::map<int, Guest> guests_;       // by socket
  std::deque<Question> questions_;
  std::shared_ptr<Question> asking_;  ///< The question that the engine has.
  std::vector<Question> sharing_;     ///< Questions that get the status that the engine makes now.
  /// Ended connections whose tenant has not read all that it was sent.
  std::vector<std::shared_ptr<Connection>> unread_;
  uint64_t next_look_at_unread_ns_ = 0;
  uint64_t unused_since_ns_ = 0;  ///< 0: the reception is in use.
};

}  // namespace harmonaize::daemon
