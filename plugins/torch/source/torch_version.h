#pragma once

/// \file
/// What differs between the versions of PyTorch that the plugin is compiled for, 1.13 and 2.6 to
/// 2.15. Other files ask for the names below, and contain no numbers of versions.

#include <ATen/ATen.h>
#include <torch/csrc/api/include/torch/version.h>

#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#define HARMONAIZE_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) ||             \
   (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

#if HARMONAIZE_TORCH_AT_LEAST(2, 0)
#include <c10/util/Exception.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

namespace harmonaize_torch {

#if HARMONAIZE_TORCH_AT_LEAST(2, 0)
/// The class of c10d that a backend derives from.
using BackendBase = c10d::Backend;
using BackendOptions = c10d::Backend::Options;
/// Python sees this one as torch.distributed.DistBackendError, a RuntimeError.
using BackendError = c10::DistBackendError;
#else
using BackendBase = c10d::ProcessGroup;
using BackendOptions = c10d::ProcessGroup::Options;
/// Python sees this one as RuntimeError.
using BackendError = c10::Error;
#endif

namespace version_details {

template <typename Supplement>
auto FactorTensor(const Supplement& supplement, int /*newer*/)
    -> decltype(supplement.tensor_factor) {
  return supplement.tensor_factor;
}

// Older versions keep a list, for several devices of a process.
template <typename Supplement>
at::Tensor FactorTensor(const Supplement& supplement, long /*older*/) {
  return supplement.tensor_factors.empty() ? at::Tensor() : supplement.tensor_factors.front();
}

}  // namespace version_details

namespace version_details {

template <typename Store>
auto CloneOf(Store& store, int /*newer*/) -> decltype(store.clone()) {
  return store.clone();
}

template <typename Store>
c10::intrusive_ptr<c10d::Store> CloneOf(Store& store, long /*older*/) {
  return c10::intrusive_ptr<c10d::Store>::reclaim_copy(&store);
}

}  // namespace version_details

/// Returns the store by a connection of its own, so that nobody waits for calls of others: a
/// program may wait for a key on the other one. Older versions have no such connection, and some
/// stores have none: then it is the store itself.
inline c10::intrusive_ptr<c10d::Store> ConnectedAnew(c10d::Store& store) {
  try {
    return version_details::CloneOf(store, 0);
  } catch (const std::exception&) {
    return c10::intrusive_ptr<c10d::Store>::reclaim_copy(&store);
  }
}

/// The factor of ReduceOp::PREMUL_SUM, which is a number or a tensor of one element.
inline at::Scalar PreMultiplier(const c10d::ReduceOp& operation) {
  const auto* const supplement =
      dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(operation.supplement_.get());
  TORCH_CHECK(supplement != nullptr, "ReduceOp.PREMUL_SUM came without its factor");
  const at::Tensor factor = version_details::FactorTensor(*supplement, 0);
  return factor.defined() ? factor.item() : at::Scalar(supplement->double_factor);
}

}  // namespace harmonaize_torch
