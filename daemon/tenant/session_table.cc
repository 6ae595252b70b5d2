#include "daemon/tenant/session_table.h"

#include <algorithm>

#include "src/base/clock.h"

namespace harmonaize::daemon {
namespace {

/// Time, in nanoseconds, without a descriptor after which a session has to ring when it comes
/// again. Until then it costs two stores at every sleep of the engine, and a look in every round.
constexpr uint64_t kCoolNanoseconds = 10'000'000;

}  // namespace

Session* SessionTable::Find(uint32_t id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

Session* SessionTable::MarkGone(uint32_t id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return nullptr;
  // Others know the session's ranks, so it must come to its place even if something throws.
  gone_.push_back(nullptr);
  gone_.back() = std::move(found->second);
  sessions_.erase(found);
  Session& session = *gone_.back();
  session.SetGone();
  std::erase(hot_, &session);
  LetCool(session);
  return &session;
}

void SessionTable::Sweep(const std::function<void(Session&)>& tell_loss) {
  std::erase_if(gone_, [&](const std::unique_ptr<Session>& session) {
    if (!session->loss_told) tell_loss(*session);
    return session->outstanding() == 0 && session->ranks() == 0;
  });
}

void SessionTable::MakeHot(Session& session) {
  if (session.hot) return;
  hot_.push_back(&session);
  std::vector<Session*>& of_tenant = session.tenant().hot.sessions;
  if (of_tenant.empty()) hot_tenants_.push_back(&session.tenant());
  of_tenant.push_back(&session);
  session.hot = true;
  session.active_ns = MonotonicNanoseconds();
  session.SetConsumerWaiting(false);
}

// Takes the session out of the rings of its tenant that are looked at.
void SessionTable::LetCool(Session& session) {
  std::vector<Session*>& of_tenant = session.tenant().hot.sessions;
  std::erase(of_tenant, &session);
  if (of_tenant.empty()) std::erase(hot_tenants_, &session.tenant());
}

// Sets the flag before it looks, so that a descriptor posted after the look comes with a ring of
// the bell.
void SessionTable::CoolDown(uint64_t now_ns) {
  std::erase_if(hot_, [this, now_ns](Session* session) {
    if (now_ns < session->active_ns + kCoolNanoseconds) return false;
    session->SetConsumerWaiting(true);
    session->hot = session->HasDescriptors();
    if (!session->hot) LetCool(*session);
    return !session->hot;
  });
}

void SessionTable::SetConsumerWaiting(bool waiting) {
  for (Session* session : hot_) session->SetConsumerWaiting(waiting);
}

bool SessionTable::UpdateCrowded(int64_t processors) {
  int64_t threads = 1;  // the engine's
  for (const Session* session : hot_) threads += session->ranks();
  const bool crowded = threads > processors;
  for (Session* session : hot_) session->SetCrowded(crowded);
  return crowded;
}

bool SessionTable::AnyHasDescriptors() const {
  return std::any_of(hot_.begin(), hot_.end(),
                     [](const Session* session) { return session->HasDescriptors(); });
}

bool SessionTable::AnyAcrossHosts() const {
  return std::any_of(hot_.begin(), hot_.end(),
                     [](const Session* session) { return session->across_hosts(); });
}

}  // namespace harmonaize::daemon
