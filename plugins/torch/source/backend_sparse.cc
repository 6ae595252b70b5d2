// all_reduce of sparse tensors, whose ranks have values at different places.

#include <algorithm>
#include <utility>

#include "plugins/torch/source/backend.h"
#include "plugins/torch/source/staging.h"

namespace harmonaize_torch {
namespace {

/// One rank's part of what ranks gather: `count` of the `most` columns of indices, and of the
/// values.
struct Gathered {
  at::Tensor indices;  // ranks x dimensions x most
  at::Tensor values;   // ranks x most x ...
};

/// Returns `tensor` with as many rows in `dimension` as the largest has; the rest is zero.
at::Tensor Padded(const at::Tensor& tensor, int64_t dimension, int64_t most) {
  std::vector<int64_t> sizes = tensor.sizes().vec();
  sizes[dimension] = most;
  at::Tensor padded = at::zeros(sizes, tensor.options());
  padded.narrow(dimension, 0, tensor.size(dimension)).copy_(tensor);
  return padded;
}

at::Tensor SpaceForAll(const at::Tensor& part, int ranks) {
  std::vector<int64_t> sizes = part.sizes().vec();
  sizes.insert(sizes.begin(), ranks);
  return at::empty(sizes, part.options());
}

at::Tensor SumOf(const Gathered& gathered, const std::vector<int64_t>& counts,
                 at::IntArrayRef sizes) {
  at::Tensor sum;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    const auto place = static_cast<int64_t>(rank);
    const at::Tensor part = at::sparse_coo_tensor(
        gathered.indices[place].narrow(1, 0, counts[rank]).contiguous(),
        gathered.values[place].narrow(0, 0, counts[rank]).contiguous(), sizes);
    sum = sum.defined() ? sum.add(part) : part;
  }
  return sum.coalesce();
}

}  // namespace

std::vector<int64_t> Backend::ValuesOfRanks(const at::Tensor& sparse,
                                            std::chrono::milliseconds timeout) {
  Tensors mine{at::tensor({sparse._nnz(), sparse.sparse_dim(), sparse.dense_dim()}, at::kLong)};
  at::Tensor all = at::empty({size_, 3}, mine[0].options());
  c10d::AllgatherOptions options;
  options.timeout = timeout;
  _allgather_base(all, mine[0], options)->wait();
  for (int rank = 0; rank < size_; ++rank) {
    TORCH_CHECK_VALUE(all[rank][1].item<int64_t>() == sparse.sparse_dim() &&
                          all[rank][2].item<int64_t>() == sparse.dense_dim(),
                      "allreduce: the sparse tensor of rank ", rank, " has other dimensions");
  }
  const at::Tensor counts = all.select(1, 0).contiguous();
  const auto* const first = static_cast<const int64_t*>(counts.data_ptr());
  return {first, first + size_};
}

// Waits for the other ranks' numbers of values, and leaves the rest to the operation.
WorkPointer Backend::AllReduceSparse(const at::Tensor& tensor,
                                     const c10d::AllreduceOptions& options) {
  TORCH_CHECK_VALUE(options.reduceOp.op_ == c10d::ReduceOp::SUM,
                    "unsupported reduction operation (allreduce of sparse tensors only works with "
                    "ReduceOp.SUM)");
  const at::NoGradGuard no_grad;
  const at::Tensor mine = tensor.coalesce();
  const std::vector<int64_t> counts = ValuesOfRanks(mine, options.timeout);
  const int64_t most = *std::max_element(counts.begin(), counts.end());
  const at::Tensor indices = Padded(mine.indices(), 1, most);
  const at::Tensor values = Padded(mine.values(), 0, most);
  const Gathered all{SpaceForAll(indices, size_), SpaceForAll(values, size_)};
  OperationPlan plan;
  plan.type = c10d::OpType::ALLREDUCE;
  plan.title = "harmonaize:all_reduce";
  plan.inputs = {tensor};
  plan.outputs = {{tensor}};
  plan.post = [indices, values, all](ncclComm_t communicator, cudaStream_t stream) {
    return PostAllGathers({{indices, all.indices}, {values, all.values}}, communicator, stream);
  };
  plan.finish = [all, counts, tensor] {
    const at::NoGradGuard no_grad_here;
    at::Tensor(tensor).copy_(SumOf(all, counts, tensor.sizes()));
  };
  return Collective(std::move(plan), "all_reduce", {values}, options.timeout);
}

}  // namespace harmonaize_torch
