#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "daemon/tenant/session.h"

namespace harmonaize::daemon {

/// The sessions of this host: those that are open, which of them have been active of late ("hot":
/// the engine looks at their rings in every round), and those that are gone but for parts that are
/// still under way. Thread: engine.
class SessionTable {
 public:
  /// By number.
  using Sessions = std::map<uint32_t, std::unique_ptr<Session>>;

  /// Takes over what is in `entry`, whose numbers are new. Does not throw.
  void Add(Sessions* entry) { sessions_.merge(*entry); }
  /// nullptr once it is gone.
  Session* Find(uint32_t id) const;
  const Sessions& all() const { return sessions_; }

  /// The session is gone: it is found no more, cools down, and ends once nothing of it is under way
  /// (Sweep). nullptr when there is none of that number. Throws before anything has changed, or not
  /// at all.
  Session* MarkGone(uint32_t id);
  /// Ends those that are gone and have neither parts nor ranks left. `tell_loss` is called before
  /// for one whose peers have not been told (Session::loss_told).
  void Sweep(const std::function<void(Session&)>& tell_loss);
  bool any_gone() const { return !gone_.empty(); }

  // Those that are hot.

  void MakeHot(Session& session);
  /// Sends home all that have been quiet. They must ring from now on.
  void CoolDown(uint64_t now_ns);
  /// Tells all of them whether they have to ring.
  void SetConsumerWaiting(bool waiting);
  /// Tells all of them whether their ranks and the engine are more than so many processors, and
  /// returns it.
  bool UpdateCrowded(int64_t processors);
  bool AnyHasDescriptors() const;
  bool AnyAcrossHosts() const;
  /// Tenants with hot sessions (Tenant::hot). The list may change while a ring is drained, so it is
  /// to be gone through by index.
  const std::vector<Tenant*>& hot_tenants() const { return hot_tenants_; }

 private:
  void LetCool(Session& session);

  Sessions sessions_;
  std::vector<std::unique_ptr<Session>> gone_;
  std::vector<Session*> hot_;
  std::vector<Tenant*> hot_tenants_;  // those of hot_
};

}  // namespace harmonaize::daemon
