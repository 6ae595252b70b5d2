#pragma once

#include <cstddef>

#include "include/harmonaize.h"
#include "perf/opportunities/job.h"
#include "perf/opportunities/times.h"
#include "perf/opportunities/window.h"

namespace harmonaize::opportunities {

struct PipelineOptions {
  size_t bytes = size_t{256} << 10;  ///< Activations of a micro-batch.
  int micro_batches = 8;             ///< Of a batch.
  double compute_seconds = 0.005;  ///< Of a micro-batch at a stage, forward; backward it is twice.
};

/// A pipeline whose stages are the ranks: each passes activations on, forward, for all
/// micro-batches, and then their gradients back (GPipe). Sends are asynchronous, so that a stage
/// computes the next micro-batch meanwhile.
class Pipeline {
 public:
  Pipeline(const Job& job, Window* window, const PipelineOptions& options);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  void Run();

 private:
  void RunBatch(bool last);
  void Forward(int micro_batch, bool last);
  void Backward(int micro_batch);
  void Receive(float* data, int from);
  void Send(const float* data, int to);
  float* Activations(int micro_batch) { return data_ + static_cast<size_t>(micro_batch) * count_; }

  const Job& job_;
  Window* const window_;
  const PipelineOptions options_;
  const size_t count_;
  float* const data_;
  hzStream_t sends_ = nullptr;
  bool go_on_ = true;
  Times batch_times_;
};

}  // namespace harmonaize::opportunities
