#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace harmonaize::daemon {

/// At the home of a communicator: who has begun which collective. A host may be done with its part
/// of a rooted collective before all others have begun, a root of a broadcast as soon as its data
/// is on its way; so that no rank is told that all went well where the ranks do not agree, hosts
/// wait for the word that all have begun the same. (Of the other collectives no part can be done
/// before all hosts have sent something.)
class Consent {
 public:
  explicit Consent(int hosts) : hosts_(hosts) {}

  enum class Outcome { kWaiting, kAll, kDisagree };
  /// `digest` of what the ranks of the host ask for. kAll and kDisagree come once for a collective.
  Outcome Take(int host, uint64_t sequence, uint32_t digest);

  /// It ends otherwise.
  void Forget(uint64_t sequence) { begun_.erase(sequence); }
  /// All from there on do.
  void EndFrom(uint64_t sequence) { begun_.erase(begun_.lower_bound(sequence), begun_.end()); }

 private:
  struct Begun {
    bool disagree = false;
    std::map<int, uint32_t> digests;  // by host
  };
  const int hosts_;
  std::map<uint64_t, Begun> begun_;  // by sequence
};

}  // namespace harmonaize::daemon
