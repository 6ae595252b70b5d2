#include "daemon/promises/record_keeper.h"

#include "daemon/runtime/background.h"
#include "src/base/log.h"

namespace harmonaize::daemon {

Result<std::unique_ptr<RecordKeeper>> RecordKeeper::Open(const std::string& path,
                                                         Background* background) {
  auto keeper = std::make_unique<RecordKeeper>();
  keeper->background_ = background;
  keeper->shared_ = std::make_shared<Shared>();
  HZ_ASSIGN_OR_RETURN(keeper->shared_->store, RecordStore::Open(path));
  HZ_ASSIGN_OR_RETURN(keeper->found_, keeper->shared_->store->Read());
  return keeper;
}

void RecordKeeper::Put(Record record) {
  Change({std::move(record.kind), std::move(record.key)}, std::move(record.text));
}

void RecordKeeper::Remove(const std::string& kind, const std::string& key) {
  Change({kind, key}, std::nullopt);
}

void RecordKeeper::Change(Key key, std::optional<std::string> text) {
  if (shared_ == nullptr) return;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->waiting.insert_or_assign(std::move(key), std::move(text));
    if (std::exchange(shared_->posted, true)) return;
  }
  background_->Post([shared = shared_] { WriteWaiting(*shared); });
}

std::function<void()> RecordKeeper::Flusher() const {
  return [shared = shared_] {
    if (shared != nullptr) WriteWaiting(*shared);
  };
}

// A change that cannot be written waits for the next change: the disk may have room then.
void RecordKeeper::WriteWaiting(Shared& shared) {
  const std::lock_guard writing(shared.writing);
  std::map<Key, std::optional<std::string>> changes;
  {
    const std::lock_guard lock(shared.mutex);
    changes.swap(shared.waiting);
    shared.posted = false;
  }
  Status written;
  while (!changes.empty()) {
    const auto change = changes.begin();
    written = WriteOne(shared, change->first, change->second);
    if (!written.ok() && written.code() != Code::kInvalidArgument) break;
    changes.erase(change);
  }
  if (!written.ok() && !shared.failed) {
    Log(LogLevel::kWarning, kLogInit, "what is promised and announced is not kept for now: {}",
        written.message());
  }
  shared.failed = !written.ok();
  const std::lock_guard lock(shared.mutex);
  // A newer change of the same record stays.
  shared.waiting.merge(changes);
}

Status RecordKeeper::WriteOne(Shared& shared, const Key& key,
                              const std::optional<std::string>& text) {
  if (!text.has_value()) return shared.store->Remove(key.first, key.second);
  return shared.store->Put({key.first, key.second, *text});
}

}  // namespace harmonaize::daemon
