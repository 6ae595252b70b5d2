#include "perf/opportunities/training.h"

#include <algorithm>
#include <cmath>

namespace harmonaize::opportunities {
namespace {

// Samples that the held-out loss is of: its error is a few parts in a hundred of what differs
// between samples, and the same for all runs of one seed.
constexpr size_t kHeldOut = 2048;
// All seeds train for the same teacher and the same held-out samples: only then their losses can be
// compared.
constexpr uint64_t kTeacherSeed = 20261127;

}  // namespace

Training::Training(const Job& job, Window* window, const TrainingOptions& options)
    : job_(job),
      window_(window),
      options_(options),
      model_(options.widths),
      teacher_(kTeacherSeed, model_.inputs(), model_.classes(), options.label_noise),
      random_(options.seed * 1000003 + static_cast<uint64_t>(job.rank())),
      parameters_(model_.size()),
      velocity_(model_.size()),
      gradients_(job.Allocate(model_.size()), model_.size()),
      held_out_samples_(kHeldOut * model_.inputs()),
      held_out_labels_(kHeldOut) {
  model_.Initialise(options_.seed, parameters_);
  std::mt19937_64 held_out(kTeacherSeed);
  teacher_.Draw(&held_out, held_out_samples_, held_out_labels_);
  control_ = {.accumulation = static_cast<double>(options_.accumulation),
              .batch = static_cast<double>(options_.batch)};
  Check(hzStreamCreate(&stream_), "hzStreamCreate");
  if (options_.follow && job_.leads()) advice_ = std::make_unique<AdviceListener>(job_.comm());
}

Training::~Training() {
  hzStreamDestroy(stream_);
}

void Training::Run() {
  job_.Meet();
  if (job_.leads()) Evaluate();
  while (Step()) {
  }
  if (!job_.leads()) return;
  if (evaluated_at_ != samples_done_) Evaluate();
  WriteEnd();
}

double Training::SamplesOfStep() const {
  return control_.batch * control_.accumulation * job_.ranks();
}

/// Returns whether there is another step.
bool Training::Step() {
  const bool counts = job_.leads() && window_->Counts();
  if (job_.leads()) DecideNext();
  Stopwatch watch;
  AccumulateGradients();
  Check(ncclBroadcast(&next_, &next_, sizeof next_ / sizeof(double), ncclFloat64, 0, job_.comm(),
                      stream_),
        "ncclBroadcast");
  Check(hzStreamSynchronize(stream_), "hzStreamSynchronize");
  Descend();
  if (counts) {
    ++counted_steps_;
    counted_samples_ += SamplesOfStep();
    step_times_.Add(watch.Lap());
  }
  ++step_;
  samples_done_ += SamplesOfStep();
  if (job_.leads()) {
    if (step_ == 1) job_.Write("ready", {{"ranks", job_.ranks()}, {"parameters", model_.size()}});
    if (options_.report) {
      ReportProgress(job_.comm(), {.step = step_,
                                   .samples = samples_done_,
                                   .loss = training_loss_,
                                   .batch_size = SamplesOfStep(),
                                   .accumulation = control_.accumulation,
                                   .learning_rate_factor = control_.learning_rate_factor});
    }
    if (samples_done_ - evaluated_at_ >= options_.evaluate_samples) Evaluate();
  }
  control_ = next_;
  return control_.go_on != 0;
}

/// Rank 0 says before a step whether it is the last one, and what holds after it.
void Training::DecideNext() {
  next_ = control_;
  const bool reached = options_.until_loss > 0 && loss_ <= options_.until_loss;
  next_.go_on = window_->GoOn() && !reached && step_ + 1 < options_.most_steps ? 1 : 0;
  if (advice_ == nullptr) return;
  if (const std::optional<Advice> advice = advice_->Poll()) Follow(*advice);
}

void Training::Follow(const Advice& advice) {
  if (advice.setting == "accumulation") {
    next_.accumulation = std::max(1.0, std::round(advice.to));
  } else if (advice.setting == "batch_size") {
    next_.batch = std::max(1.0, std::round(advice.to / control_.accumulation / job_.ranks()));
  } else if (advice.setting == "learning_rate_factor") {
    next_.learning_rate_factor = advice.to;
  } else {
    return;
  }
  if (advice.learning_rate_factor) next_.learning_rate_factor = *advice.learning_rate_factor;
  job_.Write("followed", {{"seconds", window_->Seconds()},
                          {"step", step_},
                          {"setting", advice.setting},
                          {"accumulation", next_.accumulation},
                          {"batch", next_.batch},
                          {"learning_rate_factor", next_.learning_rate_factor},
                          {"why", advice.why}});
}

/// Computes the gradients of all passes of a step, and has them summed up on the stream.
void Training::AccumulateGradients() {
  std::fill(gradients_.begin(), gradients_.end(), 0.0f);
  const auto batch = static_cast<size_t>(control_.batch);
  const auto passes = static_cast<size_t>(control_.accumulation);
  samples_.resize(batch * model_.inputs());
  labels_.resize(batch);
  const auto scale = static_cast<float>(1 / (control_.accumulation * job_.ranks()));
  training_loss_ = 0;
  for (size_t pass = 0; pass < passes; ++pass) {
    teacher_.Draw(&random_, samples_, labels_);
    Compute(options_.compute_seconds);
    const bool last = pass + 1 == passes;
    training_loss_ +=
        model_.AddGradients(parameters_, samples_, labels_, scale, gradients_, [&](size_t layer) {
          if (!last || !options_.bucket_by_layer) return;
          const auto& done = model_.layers()[layer];
          Exchange(gradients_.subspan(done.begin, done.size()));
        });
  }
  training_loss_ /= static_cast<double>(passes);
  if (!options_.bucket_by_layer) Exchange(gradients_);
}

void Training::Exchange(std::span<float> gradients) {
  Check(ncclAllReduce(gradients.data(), gradients.data(), gradients.size(), ncclFloat32, ncclSum,
                      job_.comm(), stream_),
        "ncclAllReduce");
}

void Training::Descend() {
  const auto momentum = static_cast<float>(options_.momentum);
  const auto rate = static_cast<float>(options_.learning_rate * control_.learning_rate_factor);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    velocity_[i] = momentum * velocity_[i] + gradients_[i];
    parameters_[i] -= rate * velocity_[i];
  }
}

void Training::Evaluate() {
  const auto begin = Window::Clock::now();
  loss_ = model_.Loss(parameters_, held_out_samples_, held_out_labels_);
  evaluated_at_ = samples_done_;
  window_->LeaveOut(begin);
  if (seconds_to_loss_ == 0 && loss_ <= options_.until_loss) seconds_to_loss_ = window_->Seconds();
  job_.Write("evaluated", {{"seconds", window_->Seconds()},
                           {"step", step_},
                           {"samples", samples_done_},
                           {"loss", loss_},
                           {"training_loss", training_loss_},
                           {"accumulation", control_.accumulation}});
}

void Training::WriteEnd() {
  const double seconds = window_->Seconds();
  const auto bytes_of_step = static_cast<double>(gradients_.size_bytes());
  nlohmann::ordered_json end = {
      {"seconds", seconds},
      {"steps", counted_steps_},
      {"samples", counted_samples_},
      {"samples_per_second", counted_samples_ / seconds},
      {"bytes_exchanged", static_cast<double>(counted_steps_) * bytes_of_step},
      {"rank_seconds", seconds * job_.ranks()},
      {"loss", loss_},
      {"seconds_to_loss", nullptr},
      {"accumulation", control_.accumulation},
      {"step_seconds", step_times_.Summary()}};
  if (seconds_to_loss_ > 0) end["seconds_to_loss"] = seconds_to_loss_;
  job_.Write("end", end);
}

}  // namespace harmonaize::opportunities
