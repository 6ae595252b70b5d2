#include "perf/opportunities/mlp.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace harmonaize::opportunities {
namespace {

/// Adds `factor` times one row to another.
template <typename Real>
void AddRow(Real factor, const Real* __restrict from, Real* __restrict to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

/// Returns the inner product of two rows. Its eight sums are independent of each other, so that the
/// compiler may use vectors without changing what is computed.
template <typename Real>
Real Dot(const Real* __restrict one, const Real* __restrict other, size_t count) {
  constexpr size_t kSums = 8;
  Real sums[kSums] = {};
  size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (size_t lane = 0; lane < kSums; ++lane) sums[lane] += one[i + lane] * other[i + lane];
  }
  Real sum = 0;
  for (; i < count; ++i) sum += one[i] * other[i];
  for (const Real lane : sums) sum += lane;
  return sum;
}

/// Turns a row of logits into the logarithms of the softmax.
template <typename Real>
void LogSoftmax(Real* row, size_t count) {
  const Real largest = *std::max_element(row, row + count);
  Real sum = 0;
  for (size_t i = 0; i < count; ++i) sum += std::exp(row[i] - largest);
  const Real normaliser = largest + std::log(sum);
  for (size_t i = 0; i < count; ++i) row[i] -= normaliser;
}

}  // namespace

template <typename Real>
Mlp<Real>::Mlp(const std::vector<size_t>& widths) {
  size_t begin = 0;
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    layers_.push_back({widths[i], widths[i + 1], begin});
    begin += layers_.back().size();
  }
  outputs_.resize(layers_.size());
}

template <typename Real>
size_t Mlp<Real>::size() const {
  return layers_.back().begin + layers_.back().size();
}

template <typename Real>
void Mlp<Real>::Initialise(uint64_t seed, std::span<Real> parameters) const {
  std::mt19937_64 random(seed);
  for (const Layer& layer : layers_) {
    std::normal_distribution<Real> normal(0, std::sqrt(Real{2} / static_cast<Real>(layer.inputs)));
    const auto weights = parameters.subspan(layer.begin, layer.inputs * layer.outputs);
    std::generate(weights.begin(), weights.end(), [&] { return normal(random); });
    const auto biases = parameters.subspan(layer.begin + weights.size(), layer.outputs);
    std::fill(biases.begin(), biases.end(), Real{0});
  }
}

template <typename Real>
void Mlp<Real>::Forward(std::span<const Real> parameters, std::span<const Real> samples,
                        size_t rows) {
  const Real* input = samples.data();
  for (size_t number = 0; number < layers_.size(); ++number) {
    const Layer& layer = layers_[number];
    const Real* const weights = parameters.data() + layer.begin;
    const Real* const biases = weights + layer.inputs * layer.outputs;
    std::vector<Real>& output = outputs_[number];
    output.resize(rows * layer.outputs);
    for (size_t row = 0; row < rows; ++row) {
      Real* const out = output.data() + row * layer.outputs;
      const Real* const in = input + row * layer.inputs;
      std::copy(biases, biases + layer.outputs, out);
      for (size_t i = 0; i < layer.inputs; ++i) {
        if (in[i] != 0) AddRow(in[i], weights + i * layer.outputs, out, layer.outputs);
      }
    }
    if (number + 1 < layers_.size()) {
      for (Real& value : output) value = std::max(value, Real{0});
    }
    input = output.data();
  }
}

template <typename Real>
Real Mlp<Real>::Loss(std::span<const Real> parameters, std::span<const Real> samples,
                     std::span<const int> labels) {
  Forward(parameters, samples, labels.size());
  Real loss = 0;
  for (size_t row = 0; row < labels.size(); ++row) {
    Real* const logits = outputs_.back().data() + row * classes();
    LogSoftmax(logits, classes());
    loss -= logits[labels[row]];
  }
  return loss / static_cast<Real>(labels.size());
}

template <typename Real>
void Mlp<Real>::Classify(std::span<const Real> parameters, std::span<const Real> samples,
                         std::span<int> labels) {
  Forward(parameters, samples, labels.size());
  for (size_t row = 0; row < labels.size(); ++row) {
    const Real* const logits = outputs_.back().data() + row * classes();
    labels[row] = static_cast<int>(std::max_element(logits, logits + classes()) - logits);
  }
}

template <typename Real>
Real Mlp<Real>::AddGradients(std::span<const Real> parameters, std::span<const Real> samples,
                             std::span<const int> labels, Real scale, std::span<Real> gradients,
                             const std::function<void(size_t)>& done) {
  const size_t rows = labels.size();
  const Real loss = Loss(parameters, samples, labels);
  // The gradient of the cross-entropy by the logits is the softmax less the label.
  delta_.resize(rows * classes());
  const Real weight = scale / static_cast<Real>(rows);
  for (size_t i = 0; i < delta_.size(); ++i) delta_[i] = weight * std::exp(outputs_.back()[i]);
  for (size_t row = 0; row < rows; ++row) {
    delta_[row * classes() + static_cast<size_t>(labels[row])] -= weight;
  }
  for (size_t layer = layers_.size(); layer-- > 0;) {
    Backward(layer, parameters, layer > 0 ? outputs_[layer - 1] : samples, rows, gradients);
    done(layer);
    delta_.swap(delta_below_);
  }
  return loss;
}

template <typename Real>
void Mlp<Real>::Backward(size_t number, std::span<const Real> parameters,
                         std::span<const Real> inputs, size_t rows, std::span<Real> gradients) {
  const Layer& layer = layers_[number];
  const Real* const weights = parameters.data() + layer.begin;
  Real* const of_weights = gradients.data() + layer.begin;
  Real* const of_biases = of_weights + layer.inputs * layer.outputs;
  delta_below_.resize(rows * layer.inputs);
  for (size_t row = 0; row < rows; ++row) {
    const Real* const delta = delta_.data() + row * layer.outputs;
    const Real* const in = inputs.data() + row * layer.inputs;
    AddRow(Real{1}, delta, of_biases, layer.outputs);
    for (size_t i = 0; i < layer.inputs; ++i) {
      // Where ReLU gave zero, neither the weight nor what lies below has a part in the loss.
      const bool active = in[i] != 0;
      if (active) AddRow(in[i], delta, of_weights + i * layer.outputs, layer.outputs);
      delta_below_[row * layer.inputs + i] =
          active && number > 0 ? Dot(delta, weights + i * layer.outputs, layer.outputs) : Real{0};
    }
  }
}

template class Mlp<float>;
template class Mlp<double>;

}  // namespace harmonaize::opportunities
