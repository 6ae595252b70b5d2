#pragma once

#include <functional>
#include <list>

namespace harmonaize::daemon {

class Communicator;
class CommunicatorRegistry;
class Session;
struct Member;

/// The ranks that have left, and of which something may still be in flight. Thread: engine.
class Departures {
 public:
  explicit Departures(CommunicatorRegistry& communicators) : communicators_(communicators) {}

  /// Notes that the rank has left. `done` is called once no operation touches its buffers any more.
  void Add(Session& session, Member* member, std::function<void()> done);
  /// Removes the members of ranks of which nothing is in flight any more.
  void Sweep();

 private:
  struct Departure {
    Session* session;
    Member* member;
    Communicator* communicator;  ///< nullptr for a rank that had none.
    std::function<void()> done;  ///< Empty once it was called.
  };

  CommunicatorRegistry& communicators_;
  std::list<Departure> departures_;
};

}  // namespace harmonaize::daemon
