#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "include/harmonaize.h"
#include "perf/opportunities/advice.h"
#include "perf/opportunities/job.h"
#include "perf/opportunities/mlp.h"
#include "perf/opportunities/teacher.h"
#include "perf/opportunities/times.h"
#include "perf/opportunities/window.h"

namespace harmonaize::opportunities {

struct TrainingOptions {
  std::vector<size_t> widths = {32, 256, 256, 10};
  uint64_t seed = 1;  ///< Of the first parameters and of the samples.
  double label_noise = 0.05;
  size_t batch = 8;         ///< Samples of one pass of one rank.
  size_t accumulation = 1;  ///< Backward passes for each exchange.
  double learning_rate = 0.05;
  double momentum = 0.9;
  bool bucket_by_layer = false;  ///< Exchange a layer while those below it are computed.
  double compute_seconds = 0;    ///< Pause of each pass, besides its arithmetic.
  double until_loss = 0;         ///< End at this held-out loss.
  uint64_t most_steps = UINT64_MAX;
  double evaluate_samples = 8192;  ///< Samples from one evaluation to the next.
  bool report = false;             ///< Tell the provider how far training has come.
  bool follow = false;             ///< Take over what the provider advises.
};

/// Data-parallel training of a multi-layer perceptron by stochastic gradient descent with momentum.
/// Each rank computes the gradients of samples of its own, an all-reduce sums them up, and each
/// takes the same step. Rank 0 evaluates the held-out loss now and then; that time does not count.
class Training {
 public:
  Training(const Job& job, Window* window, const TrainingOptions& options);
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  void Run();

 private:
  /// What rank 0 decides, and all ranks take over at the same step. Doubles, so that one broadcast
  /// carries it.
  struct Control {
    double go_on = 1;
    double accumulation = 1;
    double batch = 1;
    double learning_rate_factor = 1;
  };

  double SamplesOfStep() const;
  bool Step();
  void DecideNext();
  void Follow(const Advice& advice);
  void AccumulateGradients();
  void Exchange(std::span<float> gradients);
  void Descend();
  void Note(double step_seconds);
  void Evaluate();
  void WriteEnd();

  const Job& job_;
  Window* const window_;
  const TrainingOptions options_;
  Mlp<float> model_;
  Teacher teacher_;
  std::mt19937_64 random_;
  std::vector<float> parameters_;
  std::vector<float> velocity_;
  std::span<float> gradients_;
  std::vector<float> samples_;
  std::vector<int> labels_;
  std::vector<float> held_out_samples_;
  std::vector<int> held_out_labels_;
  hzStream_t stream_ = nullptr;
  std::unique_ptr<AdviceListener> advice_;

  Control control_;  ///< In force.
  Control next_;     ///< From the next step on.
  uint64_t step_ = 0;
  double samples_done_ = 0;
  double training_loss_ = 0;
  double loss_ = 0;          ///< Held-out.
  double evaluated_at_ = 0;  ///< Samples that were done then.
  double seconds_to_loss_ = 0;
  // What counts for the window.
  uint64_t counted_steps_ = 0;
  double counted_samples_ = 0;
  Times step_times_;
};

}  // namespace harmonaize::opportunities
