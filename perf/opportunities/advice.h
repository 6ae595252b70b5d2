#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "include/harmonaize.h"

namespace harmonaize::opportunities {

/// How far a training job has come, and the values with which it trains.
struct Progress {
  uint64_t step = 0;
  double samples = 0;  ///< Processed in all.
  double loss = 0;
  double batch_size = 0;    ///< Samples of the step, of all ranks.
  double accumulation = 1;  ///< Backward passes of the step.
  double learning_rate_factor = 1;
};

/// Tells the provider of it; a failure ends the process.
void ReportProgress(ncclComm_t comm, const Progress& progress);

/// What an event `adaptation.advised` says.
struct Advice {
  std::string setting;  ///< "accumulation", "batch_size", ...
  double to = 0;
  std::optional<double> learning_rate_factor = {};  ///< Of the job's own learning rate.
  std::string why = {};
};

/// Reads the event; nullopt for a text that is none.
std::optional<Advice> ReadAdvice(const std::string& json);

/// Hears the advice that the provider gives a job. Thread: one.
class AdviceListener {
 public:
  explicit AdviceListener(ncclComm_t comm);
  ~AdviceListener();
  AdviceListener(const AdviceListener&) = delete;
  AdviceListener& operator=(const AdviceListener&) = delete;

  /// Returns the next advice that has come, without waiting for any.
  std::optional<Advice> Poll();

 private:
  hzSubscription_t subscription_ = nullptr;
};

}  // namespace harmonaize::opportunities
