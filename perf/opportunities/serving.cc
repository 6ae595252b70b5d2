#include "perf/opportunities/serving.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace harmonaize::opportunities {

Serving::Serving(const Job& job, Window* window, const ServingOptions& options)
    : job_(job),
      window_(window),
      options_(options),
      random_(options.seed),
      count_(std::max<size_t>(options.bytes / sizeof(float), 2)),
      data_(job.Allocate(count_)) {}

void Serving::Run() {
  job_.Meet();
  std::exponential_distribution<double> gap(options_.requests_per_second);
  const auto begin = Window::Clock::now();
  std::chrono::duration<double> arrival{};
  for (uint64_t request = 0; go_on_; ++request) {
    arrival += std::chrono::duration<double>(gap(random_));
    const auto arrived = begin + std::chrono::duration_cast<Window::Clock::duration>(arrival);
    std::this_thread::sleep_until(arrived);
    const bool counts = Serve();
    if (!job_.leads()) continue;
    if (request == 0) job_.Write("ready", {{"ranks", job_.ranks()}});
    if (!counts) continue;
    request_times_.Add(std::chrono::duration<double>(Window::Clock::now() - arrived).count());
  }
  job_.Write("end", {{"seconds", window_->Seconds()},
                     {"all_reduce_seconds", sum_times_.Summary()},
                     {"token_seconds", token_times_.Summary()},
                     {"request_seconds", request_times_.Summary()}});
}

/// Serves one request. Returns whether it counts.
bool Serving::Serve() {
  const bool counts = job_.leads() && window_->Counts();
  const bool last = job_.leads() && !window_->GoOn();
  for (int token = 0; token < options_.tokens; ++token) {
    Stopwatch watch;
    for (int sum = 0; sum < 2 * options_.layers; ++sum) {
      Compute(options_.compute_seconds);
      Stopwatch of_sum;
      Sum(last);
      if (counts) sum_times_.Add(of_sum.Lap());
    }
    if (counts) token_times_.Add(watch.Lap());
  }
  return counts;
}

/// One all-reduce. Its first element tells the ranks whether rank 0 wants to end after this
/// request; its last one shows that it has summed.
void Serving::Sum(bool last) {
  data_[0] = last ? 1 : 0;
  data_[count_ - 1] = 1;
  Check(ncclAllReduce(data_, data_, count_, ncclFloat32, ncclSum, job_.comm(), nullptr),
        "ncclAllReduce");
  if (data_[count_ - 1] != static_cast<float>(job_.ranks())) {
    std::fprintf(stderr, "opportunity_job: an all-reduce has summed wrongly\n");
    std::exit(1);
  }
  go_on_ = data_[0] == 0;
}

}  // namespace harmonaize::opportunities
