#include "perf/opportunities/experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace harmonaize::opportunities {

Experts::Experts(const Job& job, Window* window, const ExpertsOptions& options)
    : job_(job),
      window_(window),
      options_(options),
      random_(options.seed),
      token_elements_(std::max<size_t>(options.token_bytes / sizeof(float), 1)),
      own_(job.Allocate(token_elements_ * static_cast<size_t>(options.tokens))),
      received_(job.Allocate(token_elements_ * static_cast<size_t>(options.tokens * job.ranks()))),
      elements_(static_cast<size_t>(job.ranks() * job.ranks())) {}

void Experts::Run() {
  job_.Meet();
  for (bool first = true; go_on_; first = false) {
    const bool counts = job_.leads() && window_->Counts();
    Stopwatch watch;
    RunStep(job_.leads() && !window_->GoOn());
    if (counts) step_times_.Add(watch.Lap());
    if (first) job_.Write("ready", {{"ranks", job_.ranks()}});
  }
  job_.Write("end", {{"seconds", window_->Seconds()}, {"step_seconds", step_times_.Summary()}});
}

/// The first element that rank 0 sends to a rank tells it whether rank 0 wants to end after this
/// step.
void Experts::RunStep(bool last) {
  DrawTokens();
  if (job_.leads()) {
    size_t begin = 0;
    for (int to = 0; to < job_.ranks(); begin += Elements(0, to++)) own_[begin] = last ? 1 : 0;
  }
  Exchange(own_, received_, false);
  go_on_ = received_[0] == 0;
  size_t elements = 0;
  for (int from = 0; from < job_.ranks(); ++from) elements += Elements(from, job_.rank());
  Compute(options_.compute_seconds * static_cast<double>(elements / token_elements_));
  Exchange(received_, own_, true);
}

/// Deals the tokens of each rank out to the experts by Zipf's law, in an order of experts that is
/// drawn for each step. Each expert gets a token of each rank at least.
void Experts::DrawTokens() {
  const int ranks = job_.ranks();
  std::vector<int> popularity(static_cast<size_t>(ranks));
  std::iota(popularity.begin(), popularity.end(), 1);
  std::shuffle(popularity.begin(), popularity.end(), random_);
  std::vector<double> weights;
  for (const int place : popularity) weights.push_back(std::pow(place, -options_.skew));
  std::discrete_distribution<int> expert(weights.begin(), weights.end());
  std::fill(elements_.begin(), elements_.end(), token_elements_);
  for (int from = 0; from < ranks; ++from) {
    for (int token = ranks; token < options_.tokens; ++token) {
      elements_[static_cast<size_t>(from * ranks + expert(random_))] += token_elements_;
    }
  }
}

/// Sends tokens to experts; `back`: sends what they have made of them to the tokens' ranks.
void Experts::Exchange(const float* from, float* to, bool back) {
  const int rank = job_.rank();
  Check(ncclGroupStart(), "ncclGroupStart");
  for (int peer = 0; peer < job_.ranks(); ++peer) {
    const size_t sent = back ? Elements(peer, rank) : Elements(rank, peer);
    const size_t received = back ? Elements(rank, peer) : Elements(peer, rank);
    Check(ncclSend(from, sent, ncclFloat32, peer, job_.comm(), nullptr), "ncclSend");
    Check(ncclRecv(to, received, ncclFloat32, peer, job_.comm(), nullptr), "ncclRecv");
    from += sent;
    to += received;
  }
  Check(ncclGroupEnd(), "ncclGroupEnd");
}

}  // namespace harmonaize::opportunities
