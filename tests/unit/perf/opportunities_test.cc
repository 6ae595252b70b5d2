// The parts of the representative jobs that need no ranks: the perceptron's gradients against
// finite differences, what it learns of the teacher, advice, and quantiles.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "perf/opportunities/advice.h"
#include "perf/opportunities/mlp.h"
#include "perf/opportunities/teacher.h"
#include "perf/opportunities/times.h"

namespace harmonaize::opportunities {
namespace {

const std::function<void(size_t)> kNothing = [](size_t) {};

struct Samples {
  std::vector<double> inputs;
  std::vector<int> labels;
};

Samples RandomSamples(size_t rows, size_t inputs, int classes) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  Samples samples{std::vector<double>(rows * inputs), std::vector<int>(rows)};
  for (double& value : samples.inputs) value = normal(random);
  for (int& label : samples.labels)
    label = static_cast<int>(random() % static_cast<uint64_t>(classes));
  return samples;
}

TEST(Mlp, GradientsAreThoseOfFiniteDifferences) {
  for (const std::vector<size_t>& widths :
       {std::vector<size_t>{5, 3}, {6, 9, 4}, {7, 11, 8, 5}, {4, 17, 3, 10, 2}}) {
    SCOPED_TRACE(widths.size());
    Mlp<double> model(widths);
    std::vector<double> parameters(model.size());
    model.Initialise(3, parameters);
    // Biases of zero would leave units at ReLU's kink.
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i] += 0.01 * std::sin(double(i));
    const Samples samples = RandomSamples(13, widths.front(), static_cast<int>(widths.back()));
    std::vector<double> gradients(model.size());
    model.AddGradients(parameters, samples.inputs, samples.labels, 1, gradients, kNothing);
    constexpr double kStep = 1e-6;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const double before = parameters[i];
      parameters[i] = before + kStep;
      const double above = model.Loss(parameters, samples.inputs, samples.labels);
      parameters[i] = before - kStep;
      const double below = model.Loss(parameters, samples.inputs, samples.labels);
      parameters[i] = before;
      EXPECT_NEAR(gradients[i], (above - below) / (2 * kStep), 1e-7) << "parameter " << i;
    }
  }
}

TEST(Mlp, GradientsAddUpWithTheirScale) {
  Mlp<double> model({6, 9, 4});
  std::vector<double> parameters(model.size());
  model.Initialise(3, parameters);
  const Samples samples = RandomSamples(8, 6, 4);
  std::vector<double> whole(model.size());
  model.AddGradients(parameters, samples.inputs, samples.labels, 1, whole, kNothing);
  std::vector<double> halves(model.size());
  const std::span<const double> inputs(samples.inputs);
  const std::span<const int> labels(samples.labels);
  for (size_t half = 0; half < 2; ++half) {
    model.AddGradients(parameters, inputs.subspan(half * 4 * 6, 4 * 6), labels.subspan(half * 4, 4),
                       0.5, halves, kNothing);
  }
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(halves[i], whole[i], 1e-12);
}

TEST(Mlp, LayersAreDoneFromTheLastToTheFirst) {
  Mlp<double> model({6, 9, 5, 4});
  std::vector<double> parameters(model.size());
  model.Initialise(3, parameters);
  const Samples samples = RandomSamples(3, 6, 4);
  std::vector<double> gradients(model.size());
  std::vector<size_t> done;
  std::vector<std::vector<double>> then;
  model.AddGradients(parameters, samples.inputs, samples.labels, 1, gradients, [&](size_t layer) {
    done.push_back(layer);
    const Mlp<double>::Layer& one = model.layers()[layer];
    const auto begin = gradients.begin() + static_cast<ptrdiff_t>(one.begin);
    then.emplace_back(begin, begin + static_cast<ptrdiff_t>(one.size()));
  });
  EXPECT_EQ(done, (std::vector<size_t>{2, 1, 0}));
  std::vector<double> joined;
  for (size_t i = then.size(); i-- > 0;)
    joined.insert(joined.end(), then[i].begin(), then[i].end());
  EXPECT_EQ(joined, gradients) << "gradients have changed after their layer was done";
}

TEST(Teacher, TheSameSeedAsksTheSame) {
  std::vector<float> samples[2];
  std::vector<int> labels[2];
  for (int turn = 0; turn < 2; ++turn) {
    Teacher teacher(5, 12, 4, 0.1);
    std::mt19937_64 random(9);
    samples[turn].resize(200 * 12);
    labels[turn].resize(200);
    teacher.Draw(&random, samples[turn], labels[turn]);
  }
  EXPECT_EQ(samples[0], samples[1]);
  EXPECT_EQ(labels[0], labels[1]);
  for (const int label : labels[0]) {
    EXPECT_GE(label, 0);
    EXPECT_LT(label, 4);
  }
}

// A linear model stays well above what a hidden layer reaches, so the task is none for it.
TEST(Teacher, AHiddenLayerLearnsWhatALinearModelCannot) {
  const auto held_out_loss = [](const std::vector<size_t>& widths) {
    Mlp<float> model(widths);
    Teacher teacher(5, widths.front(), widths.back(), 0);
    std::vector<float> parameters(model.size());
    model.Initialise(1, parameters);
    std::mt19937_64 random(2);
    std::vector<float> samples(32 * widths.front());
    std::vector<int> labels(32);
    for (int step = 0; step < 3000; ++step) {
      teacher.Draw(&random, samples, labels);
      std::vector<float> gradients(model.size());
      model.AddGradients(parameters, samples, labels, 1, gradients, kNothing);
      for (size_t i = 0; i < parameters.size(); ++i) parameters[i] -= 0.2f * gradients[i];
    }
    samples.resize(2000 * widths.front());
    labels.resize(2000);
    teacher.Draw(&random, samples, labels);
    return model.Loss(parameters, samples, labels);
  };
  const float linear = held_out_loss({8, 4});
  const float deep = held_out_loss({8, 64, 4});
  EXPECT_LT(deep, std::log(4.0f) / 2);
  EXPECT_LT(deep, 0.75f * linear);
}

TEST(Advice, IsReadFromAnEvent) {
  const std::optional<Advice> advice = ReadAdvice(
      R"({"specversion":"1.0","type":"io.harmonaize.adaptation.advised","data":)"
      R"({"setting":"accumulation","from":1,"to":4,"why":"congestion","learning_rate_factor":2}})");
  ASSERT_TRUE(advice.has_value());
  EXPECT_EQ(advice->setting, "accumulation");
  EXPECT_EQ(advice->to, 4);
  EXPECT_EQ(advice->learning_rate_factor, 2);
  EXPECT_EQ(advice->why, "congestion");
  EXPECT_FALSE(
      ReadAdvice(R"({"data":{"setting":"batch_size","to":64}})")->learning_rate_factor.has_value());
  for (const char* odd : {"", "7", "{}", R"({"data":7})", R"({"data":{"setting":7,"to":4}})",
                          R"({"data":{"setting":"accumulation"}})"}) {
    EXPECT_FALSE(ReadAdvice(odd).has_value()) << odd;
  }
}

TEST(Times, QuantilesAreThoseOfTheNearestRank) {
  Times times;
  EXPECT_EQ(times.Quantile(0.5), 0);
  EXPECT_EQ(times.Summary()["count"], 0);
  for (int i = 1000; i > 0; --i) times.Add(i);
  EXPECT_EQ(times.Quantile(0.5), 500);
  EXPECT_EQ(times.Quantile(0.99), 990);
  const nlohmann::ordered_json summary = times.Summary();
  EXPECT_EQ(summary["p999"], 999);
  EXPECT_EQ(summary["longest"], 1000);
  Times few;
  few.Add(1);
  few.Add(3);
  EXPECT_EQ(few.Summary()["mean"], 2);
  EXPECT_TRUE(few.Summary()["p99"].is_null()) << "two durations do not tell a 99th percentile";
}

}  // namespace
}  // namespace harmonaize::opportunities
