#include "perf/opportunities/pipeline.h"

#include <algorithm>

namespace harmonaize::opportunities {
namespace {

// A backward pass computes the gradients of both weights and inputs.
constexpr double kBackwardByForward = 2;

}  // namespace

Pipeline::Pipeline(const Job& job, Window* window, const PipelineOptions& options)
    : job_(job),
      window_(window),
      options_(options),
      count_(std::max<size_t>(options.bytes / sizeof(float), 1)),
      data_(job.Allocate(count_ * static_cast<size_t>(options.micro_batches))) {
  Check(hzStreamCreate(&sends_), "hzStreamCreate");
}

Pipeline::~Pipeline() {
  hzStreamDestroy(sends_);
}

void Pipeline::Run() {
  job_.Meet();
  for (bool first = true; go_on_; first = false) {
    const bool counts = job_.leads() && window_->Counts();
    Stopwatch watch;
    RunBatch(job_.leads() && !window_->GoOn());
    if (counts) batch_times_.Add(watch.Lap());
    if (first) job_.Write("ready", {{"ranks", job_.ranks()}});
  }
  const double busy = options_.micro_batches * options_.compute_seconds * (1 + kBackwardByForward);
  const double median = batch_times_.Quantile(0.5);
  job_.Write("end", {{"seconds", window_->Seconds()},
                     {"batch_seconds", batch_times_.Summary()},
                     // The part of a batch's time in which a stage computes nothing, and how much
                     // it is with a network that takes no time.
                     {"bubble", median > 0 ? 1 - busy / median : 0},
                     {"least_bubble", 1 - static_cast<double>(options_.micro_batches) /
                                              (options_.micro_batches + job_.ranks() - 1)}});
}

void Pipeline::RunBatch(bool last) {
  go_on_ = !last;
  for (int i = 0; i < options_.micro_batches; ++i) Forward(i, last);
  Check(hzStreamSynchronize(sends_), "hzStreamSynchronize");
  for (int i = options_.micro_batches; i-- > 0;) Backward(i);
  Check(hzStreamSynchronize(sends_), "hzStreamSynchronize");
}

/// The first element of the activations tells the stages whether rank 0 wants to end after this
/// batch.
void Pipeline::Forward(int micro_batch, bool last) {
  float* const data = Activations(micro_batch);
  if (job_.leads()) {
    data[0] = last ? 1 : 0;
  } else {
    Receive(data, job_.rank() - 1);
    go_on_ = data[0] == 0;
  }
  Compute(options_.compute_seconds);
  if (job_.rank() + 1 < job_.ranks()) Send(data, job_.rank() + 1);
}

void Pipeline::Backward(int micro_batch) {
  float* const data = Activations(micro_batch);
  if (job_.rank() + 1 < job_.ranks()) Receive(data, job_.rank() + 1);
  Compute(options_.compute_seconds * kBackwardByForward);
  if (!job_.leads()) Send(data, job_.rank() - 1);
}

void Pipeline::Receive(float* data, int from) {
  Check(ncclRecv(data, count_, ncclFloat32, from, job_.comm(), nullptr), "ncclRecv");
}

void Pipeline::Send(const float* data, int to) {
  Check(ncclSend(data, count_, ncclFloat32, to, job_.comm(), sends_), "ncclSend");
}

}  // namespace harmonaize::opportunities
