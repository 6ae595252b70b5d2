#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace harmonaize::daemon {

/// What the steps of a job took with one number of ranks, by its reports and by the daemon's clock.
struct SpeedSample {
  int32_t ranks = 1;
  double samples = 1;           ///< That a step processes, of all ranks together.
  double step_seconds = 0;      ///< Above 0.
  double exchange_seconds = 0;  ///< The part of the step in which operations were under way.
};

/// Predicts a job's steps with other numbers of ranks. A plain value.
///
/// A step of n ranks takes c b/n + f for its computation, where b is the number of its samples, and
/// (n - 1)/n e + (n - 1) h for its exchange: a ring sends each byte (n - 1)/n times over each link,
/// and passes n - 1 hosts. What is not known of c, f, e and h comes from a prior, which Fit tells.
class SpeedModel {
 public:
  /// Fits the model to what was seen, one sample for each number of ranks, the newest last. The
  /// newest one is met exactly: the others may be of another state of the network. With a gradient
  /// noise scale, in samples, a sample of a batch b counts as 1 / (1 + b / scale) of one of a small
  /// batch (McCandlish et al., An Empirical Model of Large-Batch Training); 0: all samples count
  /// alike. Returns nullopt if nothing was seen, or if a sample has values that cannot be.
  static std::optional<SpeedModel> Fit(std::span<const SpeedSample> seen,
                                       double gradient_noise_scale = 0);

  /// Returns how long a step takes with so many ranks, in seconds. `stretch` is how many times as
  /// long exchanges take as over the hosts that the job has now.
  double StepSeconds(int32_t ranks, double stretch = 1) const;
  /// Returns by how many samples a second the job gets on, as many as count.
  double Speed(int32_t ranks, double stretch = 1) const;
  /// Returns how sure the prediction for so many ranks is, from 0 to 1.
  double Confidence(int32_t ranks) const;

 private:
  bool IsSound(int32_t ranks) const;
  double SamplesOfStep(int32_t ranks) const;
  double ComputationSeconds(int32_t ranks) const;
  double ExchangeSeconds(int32_t ranks) const;
  void FitComputation(std::span<const SpeedSample> seen);
  void FitExchange(std::span<const SpeedSample> seen);
  void MeetExactly(const SpeedSample& newest);

  double per_sample_ = 0;  // c, in seconds
  double fixed_ = 0;       // f, in seconds
  double bytes_ = 0;       // e, in seconds
  double hop_ = 0;         // h, in seconds
  double samples_ = 1;     // of a step; of each rank where the batch grows with the ranks
  bool batch_grows_ = false;
  bool knows_exchange_ = false;
  double noise_scale_ = 0;
  int32_t least_seen_ = 1;
  int32_t most_seen_ = 1;
};

}  // namespace harmonaize::daemon
