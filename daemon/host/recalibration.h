#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "daemon/host/calibration.h"

namespace harmonaize::daemon {

/// The daemon's activity, to tell whether operations run.
struct Activity {
  bool busy = false;        ///< Operations are under way or wait for ranks.
  uint64_t operations = 0;  ///< Number of operations: if it changes, operations have run meanwhile.
};

/// Replaces an unsure calibration: measures the host again, on a thread of its own, at growing
/// intervals, until a measurement is sure. It measures only while neither the daemon nor other
/// programs are busy, because both the operations and the measurement would be disturbed: before
/// it, the daemon has to be at rest for a while, and a measurement during which an operation begins
/// or the load grows is given up. A measurement keeps two processors busy for a third of a second.
/// The thread starts with the first Begin.
class Recalibration {
 public:
  struct Means {
    Fingerprint host;
    std::string folder;  ///< As in KeepCalibration.
    Measurer measure;
    /// Asks the daemon for its activity. `answer` is called soon, from any thread, or never once
    /// the daemon ends; not after this object has ended.
    std::function<void(std::function<void(const Activity&)> answer)> ask;
    /// Puts a calibration into use.
    std::function<void(Calibration)> use;
  };
  struct Times {
    /// The wait before the first try: the boot of a host, or the start of a job, is over soon. Each
    /// further try waits twice as long. Every wait for a try is up to half as long again, at
    /// random.
    std::chrono::milliseconds first{2'000};
    /// The longest wait after a try that found the daemon busy. Such a try costs next to nothing,
    /// and a job may pause at any time.
    std::chrono::milliseconds longest_while_busy{30'000};
    /// The longest wait after a try that measured: one third of a second in fifteen minutes does no
    /// harm.
    std::chrono::milliseconds longest{900'000};
    /// How long the daemon must have been at rest before a measurement begins.
    std::chrono::milliseconds rest{1'000};
  };
  /// Progress of the measuring, for reports.
  struct State {
    bool wanted = false;  ///< The host will be measured again.
    int tries = 0;        ///< Number of tries so far.
    double next_in_seconds = 0;
  };

  explicit Recalibration(Means means);
  Recalibration(Means means, const Times& times);
  /// Waits for the current primitive of a measurement to end, for some 30 ms.
  ~Recalibration();
  Recalibration(const Recalibration&) = delete;
  Recalibration& operator=(const Recalibration&) = delete;

  /// Measures, from now on, until a measurement is sure. After an earlier Begin the intervals go on
  /// growing, so that operations that contradict every measurement do not have the host measured
  /// all the time. Throws std::system_error if there is no thread to be had. Thread: any.
  void Begin();

  /// Thread: any.
  State state() const;

 private:
  enum class Try { kSure, kUnsure, kBusy };

  void Run();
  /// Waits until a measurement is wanted and the next try is due. Returns false if this object
  /// ends.
  bool AwaitTry();
  Try TryOnce();
  /// Returns the daemon's activity; nullopt if this object ends.
  std::optional<Activity> Ask();
  bool AtRestSince(const Activity& before);
  /// Waits for `time`. Returns false if this object ends.
  bool Pause(std::chrono::milliseconds time);
  void Settle(Try outcome);
  /// Requires: mutex_ is held.
  std::chrono::steady_clock::time_point NextTry();

  const Means means_;
  const Times times_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool stopping_ = false;
  bool wanted_ = false;
  std::optional<Activity> answer_;
  int tries_ = 0;
  std::chrono::milliseconds interval_;
  std::minstd_rand random_{std::random_device()()};
  std::chrono::steady_clock::time_point next_;

  std::thread thread_;
};

}  // namespace harmonaize::daemon
