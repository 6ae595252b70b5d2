#pragma once

namespace harmonaize {
class WorkEngine;
}  // namespace harmonaize

namespace harmonaize::daemon {

class Background;
class Cluster;
class EventLoop;
class Fabrics;
struct Config;

/// What plans use of the daemon. All of it outlives them.
struct PlanServices {
  const Config* config = nullptr;
  EventLoop* loop = nullptr;  ///< Of the engine's thread.
  Background* background = nullptr;
  Cluster* cluster = nullptr;
  Fabrics* fabrics = nullptr;
  WorkEngine* work = nullptr;
};

}  // namespace harmonaize::daemon
