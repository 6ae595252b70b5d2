#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "daemon/tenant/session.h"

namespace harmonaize::daemon {

/// The sessions of this host: the open ones, and the gone ones of which parts are still under way.
/// A "hot" session has been active of late, and the engine looks at its ring in every round.
/// Thread: engine.
class SessionTable {
 public:
  /// By number.
  using Sessions = std::map<uint32_t, std::unique_ptr<Session>>;

  /// Takes over the sessions in `entry`, whose numbers are new. Does not throw.
  void Add(Sessions* entry) { sessions_.merge(*entry); }
  /// Returns the session; nullptr once it is gone.
  Session* Find(uint32_t id) const;
  const Sessions& all() const { return sessions_; }

  /// Marks a session as gone: Find does not return it any more, it cools down, and Sweep ends it
  /// once nothing of it is under way. Returns nullptr if no session has that number. Throws before
  /// anything has changed, or not at all.
  Session* MarkGone(uint32_t id);
  /// Ends the gone sessions that have neither parts nor ranks left. Before that it calls
  /// `tell_loss` for every gone session whose peers have not been told (Session::loss_told).
  void Sweep(const std::function<void(Session&)>& tell_loss);
  bool any_gone() const { return !gone_.empty(); }

  // The hot sessions.

  void MakeHot(Session& session);
  /// Cools down the sessions that have been quiet. They must ring from now on.
  void CoolDown(uint64_t now_ns);
  /// Tells all hot sessions whether they have to ring.
  void SetConsumerWaiting(bool waiting);
  /// Tells all hot sessions whether their ranks and the engine are more threads than `processors`,
  /// and returns that.
  bool UpdateCrowded(int64_t processors);
  bool AnyHasDescriptors() const;
  bool AnyAcrossHosts() const;
  /// Tenants with hot sessions (Tenant::hot). The list may change while a ring is drained, so
  /// callers go through it by index.
  const std::vector<Tenant*>& hot_tenants() const { return hot_tenants_; }

 private:
  void LetCool(Session& session);

  Sessions sessions_;
  std::vector<std::unique_ptr<Session>> gone_;
  std::vector<Session*> hot_;
  std::vector<Tenant*> hot_tenants_;  // the tenants of hot_
};

}  // namespace harmonaize::daemon
