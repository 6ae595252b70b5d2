#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "daemon/tenant/session.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Who has ended a session.
enum class SessionEnd {
  kHungUp,  ///< Its process, which has ended or has closed its connection.
  kCutOff,  ///< The daemon.
};

/// Opens and ends the sessions of this host. Thread: engine.
class SessionKeeper {
 public:
  /// Adds a session and watches its doorbell. Returns the system's error if that cannot be watched.
  virtual Status AddSession(std::unique_ptr<Session> session) = 0;
  /// Returns the session; nullptr once it is gone.
  virtual Session* FindSession(uint32_t id) = 0;
  /// The same for a session of this connection: its number may have come to be another one's.
  Session* FindSessionOf(const Connection& connection, uint32_t id) {
    Session* const session = FindSession(id);
    return session != nullptr && &session->connection() == &connection ? session : nullptr;
  }
  /// Ends a session whose process has ended or hung up; `why` completes "rank 3 ...".
  virtual void LoseSession(uint32_t id, const std::string& why, SessionEnd end) = 0;
  /// Ends a session whose tenant did what no client does.
  virtual void CutOff(Session& session, const std::string& why) = 0;
  /// Ends such a session in a later round of the engine, once the work under way now has been dealt
  /// with.
  virtual void CutOffSoon(uint32_t session, std::string why) = 0;
  /// Takes in all that the session has posted so far, before a request that must not overtake it.
  /// False when the session was cut off over that; it is gone then.
  virtual bool TakeInPosted(Session& session) = 0;

 protected:
  ~SessionKeeper() = default;
};

}  // namespace harmonaize::daemon
