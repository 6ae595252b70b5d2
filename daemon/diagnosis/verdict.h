#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/cluster/messages/diagnosis.h"

namespace harmonaize::daemon {

class Communicator;

/// Why an operation of a communicator does not end, and which ranks are the cause.
struct Verdict {
  uint64_t communicator = 0;  ///< Communicator::id().
  std::string label{};        ///< Communicator::label().
  OperationKey key{};
  std::string operation{};  ///< "AllReduce #12", "Send 0 -> 1".
  uint64_t since_ns = 0;    ///< Since when its first rank waits, by the monotonic clock.
  HangClass hang = HangClass::kNone;
  Doing doing = Doing::kUnknown;  ///< What the first root does, for kNotCalled and kNotFilled.
  std::vector<HangRoot> roots{};  ///< At most kMostRoots.
  std::vector<int> waits_for{};   ///< The ranks of this communicator that it waits for itself.
  std::string stage{};            ///< Of kSlowTransfer: what it waits for.
  std::string asked{};            ///< Of kMismatch: who asked for what. Of kDead: how it died.
  std::string text{};             ///< One sentence, with the way out. It names no process.

  /// Returns whether somebody has to do something about it.
  bool fault() const {
    return hang != HangClass::kNone && hang != HangClass::kComputing &&
           hang != HangClass::kCalledLate;
  }
};

/// Returns "not_called" and the like, as interfaces show it.
std::string_view NameOf(HangClass hang);
/// Returns "stopped" and the like.
std::string_view NameOf(Doing doing);

/// Returns the sentence of a verdict at a time: "AllReduce #12 has waited 5.0 s for rank 3, which
/// is stopped: ...".
std::string SentenceOf(const Verdict& verdict, uint64_t now_ns);
/// Returns what follows the named ranks in that sentence; "" if nothing is known.
std::string ReasonOf(const Verdict& verdict);

/// Returns the ranks of the verdict's communicator that its operation waits for; of kSlowTransfer
/// those whose data it waits for.
std::vector<int> AwaitedRanks(const Verdict& verdict);
/// Returns what can be done about it, for people; "" if nothing is known.
std::string WayOutOf(const Verdict& verdict);

/// Hears of verdicts. Thread: engine.
class VerdictObserver {
 public:
  virtual void OnRaised(const Communicator&, const Verdict&) {}
  /// The same operation has another verdict.
  virtual void OnChanged(const Communicator&, const Verdict& /*before*/, const Verdict& /*now*/) {}
  /// The operation has got on, or ended. The verdict is kCalledLate if a rank was late.
  virtual void OnCleared(const Communicator&, const Verdict&) {}

 protected:
  ~VerdictObserver() = default;
};

}  // namespace harmonaize::daemon
