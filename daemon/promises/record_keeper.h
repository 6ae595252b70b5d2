#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/promises/record_store.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

class Background;

/// Writes records on another thread, so that nobody waits for the disk. Of several changes of one
/// record that wait, the last alone is written. Thread: any, but for `found`.
class RecordKeeper {
 public:
  /// A keeper that keeps nothing.
  RecordKeeper() = default;
  /// Opens the store and reads it. `background` writes, and outlives this object. Errors: those of
  /// RecordStore::Open and Read.
  static Result<std::unique_ptr<RecordKeeper>> Open(const std::string& path,
                                                    Background* background);

  /// What was kept when the store was opened.
  const std::vector<Record>& found() const { return found_; }
  void Put(Record record);
  void Remove(const std::string& kind, const std::string& key);
  /// Writes what waits, on this thread.
  void Flush() { Flusher()(); }
  /// Returns a call that does so on any thread, also after this object has gone.
  std::function<void()> Flusher() const;

 private:
  using Key = std::pair<std::string, std::string>;  ///< Kind and key.

  /// What the posted calls share with this object.
  struct Shared {
    std::mutex writing;                                 ///< Held while the store is used.
    std::unique_ptr<RecordStore> store;                 // guarded by writing
    bool failed = false;                                // guarded by writing; the last write did
    std::mutex mutex;                                   ///< Taken after `writing`, if both are.
    std::map<Key, std::optional<std::string>> waiting;  // guarded by mutex; nullopt: removed
    bool posted = false;                                // guarded by mutex
  };

  static void WriteWaiting(Shared& shared);
  static Status WriteOne(Shared& shared, const Key& key, const std::optional<std::string>& text);
  void Change(Key key, std::optional<std::string> text);

  std::shared_ptr<Shared> shared_;  ///< nullptr: nothing is kept.
  Background* background_ = nullptr;
  std::vector<Record> found_;
};

}  // namespace harmonaize::daemon
