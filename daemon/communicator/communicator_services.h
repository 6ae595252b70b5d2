#pragma once

namespace harmonaize {
class WorkEngine;
}  // namespace harmonaize

namespace harmonaize::daemon {

class Background;
class CommunicatorObservers;
class EventLoop;
class FedExecutions;
class FinishedParts;
class HostTuning;
class LateExplainer;
class SessionKeeper;
class WaitingCount;
struct Config;

/// What a communicator uses of the daemon. All of it outlives the communicators.
struct CommunicatorServices {
  const Config* config = nullptr;
  EventLoop* loop = nullptr;  ///< The engine's loop.
  Background* background = nullptr;
  WorkEngine* work = nullptr;
  FedExecutions* sliced = nullptr;  ///< Operations that go slice by slice.
  HostTuning* tuning = nullptr;
  FinishedParts* finished = nullptr;
  SessionKeeper* sessions = nullptr;
  WaitingCount* waiting = nullptr;
  const CommunicatorObservers* observers = nullptr;
  const LateExplainer* explainer = nullptr;  ///< nullptr: late ranks are named only.
};

}  // namespace harmonaize::daemon
