#pragma once

#include <functional>
#include <string>

#include "daemon/host/calibration.h"
#include "daemon/host/prediction_check.h"
#include "daemon/host/recalibration.h"
#include "src/executor/host/machine.h"
#include "src/planner/inline_choice.h"

namespace harmonaize::daemon {

/// What this host was measured to cost, and the care that it stays true: operations that contradict
/// it make it unsure, and what is unsure is measured again while the host is at rest. Thread:
/// engine.
class HostTuning {
 public:
  struct Means {
    std::string folder;          ///< KeepCalibration's.
    bool measure_again = false;  ///< Whether what is unsure is replaced.
    /// As Recalibration::Means::ask.
    std::function<void(std::function<void(const Activity&)> answer)> ask;
    /// Runs a call on the engine's thread, soon. Any thread.
    std::function<void(std::function<void()> call)> post;
    /// Runs a call that writes a file, on some other thread.
    std::function<void(std::function<void()> call)> write;
    /// Another calibration is in use now.
    std::function<void(const Calibration&)> on_use;
  };

  HostTuning(Calibration calibration, Means means);

  const Calibration& calibration() const { return calibration_; }
  /// Between the inline and the offload path, by the calibration.
  InlineChoice Choice(const Machine& machine) const;
  /// Compares what an operation took at least and at most, in seconds, with what was predicted; see
  /// PredictionCheck.
  void CheckPrediction(HostOperation operation, double least, double most, const Machine& machine);
  void MeasureAgainIfUnsure();
  /// How far the measuring has come, for people.
  Recalibration::State state() const { return recalibration_.state(); }

 private:
  Recalibration::Means MeansToMeasure();
  /// Communicators that are made from now on go by it.
  void Use(Calibration calibration);
  /// Makes the calibration unsure.
  void Doubt(const std::string& why);

  Calibration calibration_;
  const Means means_;
  PredictionCheck predictions_;
  Recalibration recalibration_;  ///< Last: its thread uses the means.
};

}  // namespace harmonaize::daemon
