#pragma once

#include <functional>
#include <string>

#include "daemon/host/calibration.h"
#include "daemon/host/prediction_check.h"
#include "daemon/host/recalibration.h"
#include "src/executor/host/machine.h"
#include "src/planner/inline_choice.h"

namespace harmonaize::daemon {

/// Keeps the measured costs of this host, and keeps them true: operations that contradict the
/// calibration make it unsure, and an unsure calibration is measured again while the host is at
/// rest. Thread: engine.
class HostTuning {
 public:
  struct Means {
    std::string folder;          ///< As in KeepCalibration.
    bool measure_again = false;  ///< Whether an unsure calibration is replaced.
    /// As Recalibration::Means::ask.
    std::function<void(std::function<void(const Activity&)> answer)> ask;
    /// Runs a call on the engine's thread, soon. Thread: any.
    std::function<void(std::function<void()> call)> post;
    /// Runs a call that writes a file, on some other thread.
    std::function<void(std::function<void()> call)> write;
    /// Called when another calibration has been put into use.
    std::function<void(const Calibration&)> on_use;
  };

  HostTuning(Calibration calibration, Means means);

  const Calibration& calibration() const { return calibration_; }
  /// Returns the choice between the inline and the offload path, by the calibration.
  InlineChoice Choice(const Machine& machine) const;
  /// Compares the least and the most time that an operation can have taken, in seconds, with the
  /// prediction; see PredictionCheck.
  void CheckPrediction(HostOperation operation, double least, double most, const Machine& machine);
  void MeasureAgainIfUnsure();
  /// How far the measuring has come, for reports.
  Recalibration::State state() const { return recalibration_.state(); }

 private:
  Recalibration::Means MeansToMeasure();
  /// Puts a calibration into use. Communicators that are made from now on go by it.
  void Use(Calibration calibration);
  /// Makes the calibration unsure.
  void Doubt(const std::string& why);

  Calibration calibration_;
  const Means means_;
  PredictionCheck predictions_;
  Recalibration recalibration_;  ///< Declared last: its thread uses the means.
};

}  // namespace harmonaize::daemon
