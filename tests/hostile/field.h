#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/ipc/unique_id.h"

namespace harmonaize::testing {

/// Most attacks, attackers and findings of a run, which lie in memory of fixed size.
inline constexpr size_t kMostAttacks = 80;
inline constexpr size_t kMostAttackers = 64;
inline constexpr size_t kMostFindings = 16;

/// Counts of one attack so far, by all attackers together.
struct AttackTally {
  /// Runs begun.
  std::atomic<uint64_t> runs{0};
  /// Messages sent, descriptors posted, places scribbled over, files registered.
  std::atomic<uint64_t> blows{0};
  /// Requests that the daemon answered with an error.
  std::atomic<uint64_t> refusals{0};
  /// Connections and hellos that the daemon did not accept.
  std::atomic<uint64_t> turned_away{0};
  /// Sessions that the daemon ended.
  std::atomic<uint64_t> cut_off{0};
  /// Runs that waited too long and were ended.
  std::atomic<uint64_t> overdue{0};
};

/// Events that must not happen: an attack that had success, or an honest process that failed. Any
/// process may note one.
class Findings {
 public:
  void Note(std::string_view text) {
    const uint32_t place = noted_.fetch_add(1);
    if (place >= kMostFindings) return;
    Text& entry = texts_[place];
    const size_t length = std::min(text.size(), entry.bytes.size() - 1);
    std::memcpy(entry.bytes.data(), text.data(), length);
    entry.complete.store(true);
  }
  uint32_t count() const { return noted_.load(); }
  std::vector<std::string> Texts() const {
    std::vector<std::string> texts;
    for (const Text& entry : texts_) {
      if (entry.complete.load()) texts.emplace_back(entry.bytes.data());
    }
    return texts;
  }

 private:
  struct Text {
    std::array<char, 500> bytes{};
    std::atomic<bool> complete{false};
  };
  std::atomic<uint32_t> noted_{0};
  std::array<Text, kMostFindings> texts_{};
};

/// Unique ids that the honest job was given and has not used yet. Attackers know them: ids are
/// secret, but nothing must depend on it.
class KnownIds {
 public:
  void Publish(const UniqueId& id) {
    const uint64_t number = published_.load();
    ids_[number % ids_.size()] = id;
    published_.store(number + 1);
  }
  /// Returns the last ones. A reader may find one half overwritten, which serves as well as any.
  std::vector<UniqueId> Read() const {
    const size_t count = std::min<uint64_t>(published_.load(), ids_.size());
    return {ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(count)};
  }

 private:
  std::array<UniqueId, 4> ids_{};
  std::atomic<uint64_t> published_{0};
};

/// Duration of one attack, and the processor time that it used.
struct RunTimes {
  float seconds = 0;
  float processor_seconds = 0;
};

/// Times of the attackers' runs in one phase, one after the other, for others to imitate.
class RunLog {
 public:
  void Add(RunTimes times) {
    const uint32_t place = count_.load();
    if (place >= runs_.size()) return;
    runs_[place] = times;
    count_.store(place + 1);
  }
  void Clear() { count_.store(0); }
  std::span<const RunTimes> runs() const { return std::span(runs_).first(count_.load()); }

 private:
  std::array<RunTimes, 1024> runs_{};
  std::atomic<uint32_t> count_{0};
};

/// The memory that all processes of a run share.
struct Field {
  std::array<AttackTally, kMostAttacks> tallies;
  /// Number of attacks begun, by all attackers together.
  std::atomic<uint64_t> turns{0};
  std::array<RunLog, kMostAttackers> logs;
  Findings findings;
  KnownIds honest_ids;
  /// Addresses of doors of the honest job's processes.
  KnownIds honest_doors;
};

}  // namespace harmonaize::testing
