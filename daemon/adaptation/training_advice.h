#pragma once

#include <optional>
#include <string_view>

#include "daemon/adaptation/job_progress.h"
#include "src/events/event_data.h"
#include "src/requirements/terms.h"

namespace harmonaize::daemon {

/// What is known of a job that trains.
struct TrainingView {
  AdaptTerms terms;
  TrainingSettings settings;  ///< Those in force.
  StepTimes times;            ///< Of steps with them.
  /// Most that the computation of such a step may take, in seconds: the shortest step that was
  /// seen, whatever the network was. Part of an exchange may go on behind the computation.
  double most_computation_seconds = 0;
  double samples_per_step = 0;      ///< 0: not known.
  double gradient_noise_scale = 0;  ///< In samples; 0: not known.
  /// The rate at which the job would be done in time, in samples a second; 0: as fast as possible.
  double needed_samples_per_second = 0;
};

/// Another value that fits better.
struct TrainingAdvice {
  std::string_view setting;  ///< Name of its key in [adapt].
  double from = 0;
  double to = 0;
  /// The learning rate's factor that goes with another number of samples in a step.
  std::optional<double> learning_rate_factor = {};
  Quantiles expected_step = {};
  /// How many times as fast the job gets on: in samples, less what larger batches waste.
  double gain = 1;
};

/// Returns what to change, or nullopt where nothing that the terms allow is worth a change.
///
/// A step has a computation C, which grows with its samples, and the time T - C in which it waits
/// for its exchange, which does not. r times as many samples in a step take T + (r - 1) C, and an
/// exchange each r-th time as often takes C + (T - C) / r on average. C lies between T less the
/// exchange, where none of it goes on behind the computation, and the shortest step.
///
/// Of values that are nearly as fast as the fastest one, the smallest is taken, since what a larger
/// one does to the loss is not known. With a gradient noise scale B it is: a sample of a batch b
/// brings as much as 1 / (1 + b / B) of one of a small batch. With a rate that is needed, the
/// smallest value that reaches it is taken.
std::optional<TrainingAdvice> AdviseTraining(const TrainingView& view);

}  // namespace harmonaize::daemon
