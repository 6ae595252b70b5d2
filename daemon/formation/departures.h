#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <unordered_map>

namespace harmonaize::daemon {

class Communicator;
class CommunicatorRegistry;
class EventLoop;
class Session;
struct Member;

/// The ranks that have left, and of which something may still be in flight. A tenant may have
/// thousands of them wait, so those that wait for parts of theirs are not looked at, and those of a
/// communicator that executes something are looked at as one. Thread: engine.
class Departures {
 public:
  Departures(CommunicatorRegistry& communicators, EventLoop* loop)
      : communicators_(communicators), loop_(loop) {}

  /// Notes that the rank has left. `done` is called once no operation touches its buffers any more.
  void Add(Session& session, Member* member, std::function<void()> done);
  /// Removes members of ranks of which nothing is in flight any more. If there are many it removes
  /// some, and has the engine come again soon.
  void Sweep();

 private:
  struct Departure {
    Session* session;
    Member* member;
    Communicator* communicator;  ///< nullptr for a rank that had none.
    std::function<void()> done;  ///< Empty once it was called.
  };
  using List = std::list<Departure>;

  size_t SweepOne();
  void AwaitParts(List::iterator departure);
  size_t Remove(List::iterator departure);

  CommunicatorRegistry& communicators_;
  EventLoop* const loop_;
  List due_;  // to be looked at
  /// Those whose communicators executed something at the last look.
  std::unordered_map<Communicator*, List> by_executing_;
  List awaiting_parts_;  // Member::on_idle makes them due.
};

}  // namespace harmonaize::daemon
