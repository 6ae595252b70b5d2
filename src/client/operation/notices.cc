#include "src/client/operation/notices.h"

#include <utility>

#include "src/base/log.h"

namespace harmonaize {

Notices::Notices(std::shared_ptr<Session> session, uint32_t member)
    : session_(std::move(session)),
      member_(member),
      seen_(session_->member_slot(member).notice.version()) {}

void Notices::PassOn() {
  if (closed_.load(std::memory_order_relaxed)) return;
  const auto& slot = session_->member_slot(member_).notice;
  const uint32_t version = slot.version();
  // An odd version is being written.
  if ((version & 1u) != 0 || seen_.load(std::memory_order_relaxed) == version) return;
  // Of several threads that wait, one passes the notice on.
  if (seen_.exchange(version, std::memory_order_relaxed) == version) return;
  const std::string notice = slot.Get();
  if (notice.empty()) return;
  Log(LogLevel::kWarning, kLogCollective, "{}", notice);
  Keep(notice);
}

std::string Notices::Last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

void Notices::Keep(std::string text) {
  const std::lock_guard lock(mutex_);
  last_ = std::move(text);
}

}  // namespace harmonaize
