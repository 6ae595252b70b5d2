#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace harmonaize::opportunities {

/// A multi-layer perceptron: linear layers with ReLU between them, and the cross-entropy of a
/// softmax as its loss. Parameters and gradients are the caller's, in one piece each, so that an
/// all-reduce can take them as they are: for each layer the weights, by input and then by output,
/// and then the biases. Float trains; double checks gradients. Thread: one.
template <typename Real>
class Mlp {
 public:
  /// The parameters of one layer within the whole.
  struct Layer {
    size_t inputs;
    size_t outputs;
    size_t begin;  ///< Index of the first weight.
    size_t size() const { return (inputs + 1) * outputs; }
  };

  /// `widths`: inputs, hidden layers, classes; at least two.
  explicit Mlp(const std::vector<size_t>& widths);

  const std::vector<Layer>& layers() const { return layers_; }
  /// Returns the number of parameters.
  size_t size() const;
  size_t inputs() const { return layers_.front().inputs; }
  size_t classes() const { return layers_.back().outputs; }

  /// Fills in He's initial weights, the same for the same seed, and biases of zero.
  void Initialise(uint64_t seed, std::span<Real> parameters) const;

  /// Returns the mean loss of `samples` (one row of inputs for each label).
  Real Loss(std::span<const Real> parameters, std::span<const Real> samples,
            std::span<const int> labels);

  /// Fills in the label that the network says of each of the samples.
  void Classify(std::span<const Real> parameters, std::span<const Real> samples,
                std::span<int> labels);

  /// Returns the mean loss, and adds its gradients, times `scale`, to `gradients`.
  /// `done(layer)` is called as soon as the gradients of a layer are complete, the last layer
  /// first.
  Real AddGradients(std::span<const Real> parameters, std::span<const Real> samples,
                    std::span<const int> labels, Real scale, std::span<Real> gradients,
                    const std::function<void(size_t)>& done);

 private:
  void Forward(std::span<const Real> parameters, std::span<const Real> samples, size_t rows);
  void Backward(size_t layer, std::span<const Real> parameters, std::span<const Real> inputs,
                size_t rows, std::span<Real> gradients);

  std::vector<Layer> layers_;
  std::vector<std::vector<Real>> outputs_;  ///< Of each layer; of the last one, logits.
  std::vector<Real> delta_;                 ///< Gradient of the outputs of the layer in turn.
  std::vector<Real> delta_below_;
};

extern template class Mlp<float>;
extern template class Mlp<double>;

}  // namespace harmonaize::opportunities
