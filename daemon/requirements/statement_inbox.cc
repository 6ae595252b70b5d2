#include "daemon/requirements/statement_inbox.h"

#include <mutex>
#include <optional>
#include <utility>

#include "daemon/runtime/background.h"

namespace harmonaize::daemon {

/// One message that waits, until its reading begins. Thread: any.
class StatementInbox::Waiting {
 public:
  explicit Waiting(const RequirementsMessage& message)
      : received_(Received{message, {message.about}}) {}

  /// Replaces the message. Returns false if its reading has begun.
  bool Replace(const RequirementsMessage& newer) {
    const std::lock_guard lock(mutex_);
    if (!received_) return false;
    received_->message = newer;
    // One that is there becomes the newest.
    std::erase(received_->abouts, newer.about);
    received_->abouts.push_back(newer.about);
    if (received_->abouts.size() > kMostAbouts) received_->abouts.pop_front();
    return true;
  }
  /// Begins the reading, and returns what is to be read. Requires: it has not begun.
  Received Begin() {
    const std::lock_guard lock(mutex_);
    return *std::exchange(received_, std::nullopt);
  }
  bool has_begun() const {
    const std::lock_guard lock(mutex_);
    return !received_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Received> received_;  // guarded by mutex_; nullopt once the reading has begun
};

void StatementInbox::Put(const Sender& sender, const RequirementsMessage& message, Read read) {
  std::weak_ptr<Waiting>& known = waiting_[sender];
  const std::shared_ptr<Waiting> before = known.lock();
  if (before != nullptr && before->Replace(message)) return;
  const auto waiting = std::make_shared<Waiting>(message);
  background_->Post([waiting, read = std::move(read)] { read(waiting->Begin()); }, sender.tenant);
  known = waiting;
}

void StatementInbox::Tidy(const Sender& sender) {
  const auto found = waiting_.find(sender);
  if (found == waiting_.end()) return;
  const std::shared_ptr<Waiting> waiting = found->second.lock();
  if (waiting == nullptr || waiting->has_begun()) waiting_.erase(found);
}

}  // namespace harmonaize::daemon
