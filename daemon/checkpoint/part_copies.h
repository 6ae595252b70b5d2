#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "daemon/checkpoint/part_memory.h"
#include "daemon/checkpoint/part_name.h"
#include "daemon/runtime/lifetime.h"
#include "daemon/transfer/part_fetch.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

class EventLoop;

/// Copies of parts that lie elsewhere, as far as ranks of this host have asked for ranges of them,
/// or to be kept for another host. Thread: engine.
class PartCopies {
 public:
  struct Services {
    EventLoop* loop = nullptr;  ///< Outlives this object.
    std::shared_ptr<PartEraser> eraser = {};
  };

  explicit PartCopies(Services services) : services_(std::move(services)) {}
  ~PartCopies();

  /// Makes an empty copy, if there is none. Errors: those of CopiedMemory::Make.
  Status Begin(const PartName& name, std::shared_ptr<PartSource> source, uint64_t bytes,
               Account& account, uint64_t now_ns);
  bool Contains(const PartName& name) const { return copies_.contains(name); }

  using Fetched = std::function<void(const Result<uint64_t>&)>;
  /// Brings a range of a copy here, and calls `fetched` with the bytes of the part: at once if it
  /// is here already, and else after those that were asked for before. Requires: Contains. Errors:
  /// kInvalidArgument if it does not lie in the part; those of the source, after which the copy is
  /// gone.
  void Fetch(const PartName& name, uint64_t at, uint64_t bytes, uint64_t now_ns, Fetched fetched);

  struct View {
    std::shared_ptr<const PartMemory> memory;
    uint64_t bytes = 0;
  };
  /// Returns a copy; one without memory if there is none.
  View Find(const PartName& name) const;
  /// Takes a copy out, with all that is in it; nullptr: there is none.
  std::shared_ptr<CopiedMemory> TakeOut(const PartName& name);
  /// Gives a copy back. Requires, as TakeOut does, that nobody waits for a range of it.
  void Drop(const PartName& name);

  /// Time, in nanoseconds, after which copies are given back that nobody asks for: ranks read one
  /// range after the other.
  static constexpr uint64_t kUnusedNs = 60'000'000'000;
  /// Gives such copies back.
  void DropUnused(uint64_t now_ns);
  size_t size() const { return copies_.size(); }
  bool empty() const { return copies_.empty(); }

 private:
  /// A range that somebody waits for.
  struct Waiting {
    uint64_t at = 0;
    uint64_t bytes = 0;
    Fetched fetched = {};
  };
  /// One range is read at a time, and none twice: readers look at what is there, and a source that
  /// was overwritten meanwhile would change it under them.
  struct Copy {
    std::shared_ptr<CopiedMemory> memory;
    std::shared_ptr<PartSource> source;
    uint64_t used_ns = 0;
    std::deque<Waiting> waiting = {};
    bool is_reading = false;  ///< Some of the range that waits first.
  };

  void ReadNext(const PartName& name);
  Status Read(const PartName& name, Copy* copy);
  void OnRead(const PartName& name, const CopiedMemory::Range& range, const Status& status);
  void Fail(const PartName& name, const Status& status);
  void EndElsewhere(std::shared_ptr<PartSource> source);

  const Services services_;
  std::map<PartName, Copy> copies_;
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
