#pragma once

#include <cstdint>

namespace harmonaize::daemon {

/// Finds out whether the times of operations contradict their predictions by so much that this host
/// must have been measured badly. It keeps two counts, and learns nothing: its verdict is that the
/// host should be measured again.
///
/// The daemon knows two bounds of an operation's time. The time is longer than from the moment when
/// the last rank had asked for the operation until its end, because the ranks have to be woken too.
/// And it is shorter than from the end of the operation before until its own end, if its ranks
/// asked for it after that end. A busy host makes operations slower in a way that predictions do
/// not know, so slow operations count for little: the measurement is wrong only if all of many
/// operations are slow. Quick operations are evidence at once, because no load makes an operation
/// quicker.
class PredictionCheck {
 public:
  /// Number of operations in a row that must contradict their predictions in the same way.
  static constexpr int kOperations = 100;
  /// An operation is slow if its lower bound exceeds the prediction by this factor. The lower bound
  /// stayed below the prediction for all sizes on two processors that were at rest.
  static constexpr double kSlow = 3;
  /// An operation is quick if its upper bound is below the prediction by this factor. Predictions
  /// are of threads that sleep. With awake ones, back-to-back operations took down to a third of
  /// the prediction on two processors, and may take less where each thread has one of its own.
  static constexpr double kQuick = 10;

  /// Bounds of an operation's time, in seconds.
  struct Bounds {
    double least = 0;
    double most = 0;
  };
  enum class Verdict { kNone, kSlow, kQuick };

  /// Takes in one operation. Its `predicted` time is larger if its buffers are on the heap, and the
  /// daemon does not see whether they are. Returns a verdict, once, when it is found.
  Verdict Note(const Bounds& predicted, const Bounds& measured) {
    slow_ = measured.least > kSlow * predicted.most ? slow_ + 1 : 0;
    quick_ = measured.most < predicted.least / kQuick ? quick_ + 1 : 0;
    if (slow_ < kOperations && quick_ < kOperations) return Verdict::kNone;
    const Verdict verdict = slow_ >= kOperations ? Verdict::kSlow : Verdict::kQuick;
    Reset();
    return verdict;
  }

  /// Forgets all operations, since predictions are different from now on.
  void Reset() { slow_ = quick_ = 0; }

 private:
  int slow_ = 0;
  int quick_ = 0;
};

}  // namespace harmonaize::daemon
