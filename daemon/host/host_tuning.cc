#include "daemon/host/host_tuning.h"

#include <utility>

#include "daemon/runtime/guarded.h"
#include "src/base/log.h"
#include "src/executor/host/cut.h"

namespace harmonaize::daemon {

HostTuning::HostTuning(Calibration calibration, Means means)
    : calibration_(std::move(calibration)),
      means_(std::move(means)),
      recalibration_(MeansToMeasure()) {}

Recalibration::Means HostTuning::MeansToMeasure() {
  return {.host = calibration_.fingerprint,
          .folder = means_.folder,
          .measure = [bytes = calibration_.fingerprint.last_level_bytes](
                         const GoOn& go_on) { return MeasureHost(bytes, go_on); },
          .ask = means_.ask,
          .use =
              [this](Calibration calibration) {
                means_.post([this, calibration = std::move(calibration)] { Use(calibration); });
              }};
}

InlineChoice HostTuning::Choice(const Machine& machine) const {
  return {calibration_.costs,
          {.processors = static_cast<int>(calibration_.fingerprint.processors),
           .workers = machine.workers,
           .last_level_bytes = machine.last_level_bytes,
           .share_bytes = kSmallestShareBytes}};
}

void HostTuning::Use(Calibration calibration) {
  calibration_ = std::move(calibration);
  predictions_.Reset();
  means_.on_use(calibration_);
}

void HostTuning::CheckPrediction(HostOperation operation, double least, double most,
                                 const Machine& machine) {
  const InlineChoice choice = Choice(machine);
  operation.registered = true;
  PredictionCheck::Bounds predicted;
  predicted.least = choice.OffloadSeconds(operation);
  operation.registered = false;
  predicted.most = choice.OffloadSeconds(operation);
  const PredictionCheck::Verdict verdict = predictions_.Note(predicted, {least, most});
  if (verdict == PredictionCheck::Verdict::kNone || !calibration_.sure()) return;
  // An exception here must not affect the operation.
  GuardedAndLogged("a doubt about the calibration", [&] {
    Doubt(verdict == PredictionCheck::Verdict::kQuick
              ? "many operations took less than a tenth of what was predicted"
              : "many operations took more than three times what was predicted");
  });
}

void HostTuning::Doubt(const std::string& why) {
  Log(LogLevel::kInfo, kLogTuning, "the calibration of this host is doubtful: {}", why);
  calibration_.evidence.doubts.push_back(why);
  means_.write([folder = means_.folder, calibration = calibration_] {
    KeepCalibration(folder, calibration);
  });
  MeasureAgainIfUnsure();
}

void HostTuning::MeasureAgainIfUnsure() {
  if (!means_.measure_again || calibration_.sure()) return;
  Log(LogLevel::kInfo, kLogTuning, "this host will be measured again while it is at rest");
  GuardedAndLogged("measuring this host again", [&] { recalibration_.Begin(); });
}

}  // namespace harmonaize::daemon
