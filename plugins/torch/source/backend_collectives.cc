// The collectives of the backend: each makes a plan of what to post, and what to do with the
// results.

#include <utility>

#include <torch/csrc/distributed/c10d/Utils.hpp>

#include "plugins/torch/source/backend.h"
#include "plugins/torch/source/errors.h"
#include "plugins/torch/source/staging.h"

namespace harmonaize_torch {
namespace {

using c10d::OpType;

/// What an argument that is wrong leads to: a ValueError that names the call.
auto InvalidFor(const char* call) {
  return [call](const std::string& text) { TORCH_CHECK_VALUE(false, call, ": ", text); };
}

size_t Carried(const at::Tensor& tensor) {
  return static_cast<size_t>(tensor.numel()) * TypeToCarry(tensor.scalar_type()).count_factor;
}

ncclDataType_t TypeOf(const at::Tensor& tensor) {
  return TypeToCarry(tensor.scalar_type()).type;
}

/// Runs `post`, which posts several operations, as one group of them.
template <typename Post>
ncclResult_t Grouped(Post&& post) {
  const Library& library = Library::Get();
  const ncclResult_t opened = library.ncclGroupStart();
  if (opened != ncclSuccess) return opened;
  post();  // An error of a call is the group's, too.
  return library.ncclGroupEnd();
}

OperationPlan PlanOf(OpType type, const char* title, Tensors inputs, TensorLists outputs) {
  OperationPlan plan;
  plan.type = type;
  plan.title = title;
  plan.inputs = std::move(inputs);
  plan.outputs = std::move(outputs);
  return plan;
}

/// All tensors of all pieces have the type and size of `like`.
void CheckPieces(const char* call, const Tensors& pieces, const at::Tensor& like, int ranks) {
  TORCH_CHECK_VALUE(pieces.size() == static_cast<size_t>(ranks), call, ": requires a list of ",
                    ranks, " tensors, one for each rank, and got ", pieces.size());
  c10d::assertTypeAndSizesMatch(InvalidFor(call), pieces, like.options(), like.sizes());
}

/// A tensor that is reduced where it lies, and how.
struct InPlace {
  InPlace(const at::Tensor& tensor, const c10d::ReduceOp& operation, int ranks)
      : reduction(tensor.scalar_type(), operation), place(tensor, /*filled=*/true) {
    if (reduction.native()) return;
    contribution = reduction.Contribution(place.memory());
    gathered = at::empty({ranks * tensor.numel()}, tensor.options().requires_grad(false));
  }

  ncclResult_t PostAllReduce(ncclComm_t communicator, cudaStream_t stream) const {
    const Library& library = Library::Get();
    if (!reduction.native()) {
      return library.ncclAllGather(contribution.data_ptr(), gathered.data_ptr(),
                                   Carried(contribution), TypeOf(contribution), communicator,
                                   stream);
    }
    void* const memory = place.memory().data_ptr();
    return reduction.WithOperator(communicator, [&](ncclRedOp_t operation) {
      return library.ncclAllReduce(memory, memory, reduction.CountOf(place.memory()),
                                   reduction.type(), operation, communicator, stream);
    });
  }

  void Finish(int ranks) const {
    if (!reduction.native()) reduction.Reduce(gathered, ranks, place.memory());
    place.Deliver();
  }

  Reduction reduction;
  ResultPlace place;
  at::Tensor contribution;  // where ranks gather
  at::Tensor gathered;      // where ranks gather
};

ncclResult_t PostReduce(const InPlace& one, int root, ncclComm_t communicator,
                        cudaStream_t stream) {
  const Library& library = Library::Get();
  if (!one.reduction.native()) {
    return library.ncclGather(one.contribution.data_ptr(), one.gathered.data_ptr(),
                              Carried(one.contribution), TypeOf(one.contribution), root,
                              communicator, stream);
  }
  void* const memory = one.place.memory().data_ptr();
  return one.reduction.WithOperator(communicator, [&](ncclRedOp_t operation) {
    return library.ncclReduce(memory, memory, one.reduction.CountOf(one.place.memory()),
                              one.reduction.type(), operation, root, communicator, stream);
  });
}

}  // namespace

ncclResult_t PostAllGathers(const std::vector<std::pair<at::Tensor, at::Tensor>>& pairs,
                            ncclComm_t communicator, cudaStream_t stream) {
  return Grouped([&] {
    for (const auto& [input, output] : pairs) {
      Library::Get().ncclAllGather(input.data_ptr(), output.data_ptr(), Carried(input),
                                   TypeOf(input), communicator, stream);
    }
  });
}

WorkPointer Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  c10d::assertSingleElement(InvalidFor("broadcast"), tensors);
  CheckCarried("broadcast", tensors);
  CheckRoot("broadcast", options.rootRank);
  const ResultPlace place(tensors[0], /*filled=*/rank_ == options.rootRank);
  const int root = static_cast<int>(options.rootRank);
  OperationPlan plan = PlanOf(OpType::BROADCAST, "harmonaize:broadcast", tensors, {tensors});
  plan.post = [place, root](ncclComm_t communicator, cudaStream_t stream) {
    void* const memory = place.memory().data_ptr();
    return Library::Get().ncclBroadcast(memory, memory, Carried(place.memory()),
                                        TypeOf(place.memory()), root, communicator, stream);
  };
  plan.finish = [place] { place.Deliver(); };
  return Collective(std::move(plan), "broadcast", tensors, options.timeout);
}

WorkPointer Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  c10d::assertSingleElement(InvalidFor("allreduce"), tensors);
  if (tensors[0].layout() == at::kSparse) {
    CheckProcess();
    return AllReduceSparse(tensors[0], options);
  }
  CheckCarried("allreduce", tensors);
  const InPlace one(tensors[0], options.reduceOp, size_);
  OperationPlan plan = PlanOf(OpType::ALLREDUCE, "harmonaize:all_reduce", tensors, {tensors});
  plan.post = [one](ncclComm_t communicator, cudaStream_t stream) {
    return one.PostAllReduce(communicator, stream);
  };
  plan.finish = [one, ranks = size_] { one.Finish(ranks); };
  return Collective(std::move(plan), "all_reduce", tensors, options.timeout);
}

WorkPointer Backend::allreduce_coalesced(Tensors& tensors,
                                         const c10d::AllreduceCoalescedOptions& options) {
  c10d::assertNonEmpty(InvalidFor("allreduce_coalesced"), tensors);
  CheckCarried("allreduce_coalesced", tensors);
  std::vector<InPlace> all;
  for (const at::Tensor& tensor : tensors) all.emplace_back(tensor, options.reduceOp, size_);
  OperationPlan plan =
      PlanOf(OpType::ALLREDUCE_COALESCED, "harmonaize:all_reduce", tensors, {tensors});
  plan.post = [all](ncclComm_t communicator, cudaStream_t stream) {
    return Grouped([&] {
      for (const InPlace& one : all) one.PostAllReduce(communicator, stream);
    });
  };
  plan.finish = [all, ranks = size_] {
    for (const InPlace& one : all) one.Finish(ranks);
  };
  return Collective(std::move(plan), "all_reduce", tensors, options.timeout);
}

WorkPointer Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  c10d::assertSingleElement(InvalidFor("reduce"), tensors);
  CheckCarried("reduce", tensors);
  CheckRoot("reduce", options.rootRank);
  const int root = static_cast<int>(options.rootRank);
  const InPlace one(tensors[0], options.reduceOp, size_);
  OperationPlan plan = PlanOf(OpType::REDUCE, "harmonaize:reduce", tensors, {tensors});
  plan.post = [one, root](ncclComm_t communicator, cudaStream_t stream) {
    return PostReduce(one, root, communicator, stream);
  };
  if (rank_ == root) plan.finish = [one, ranks = size_] { one.Finish(ranks); };
  return Collective(std::move(plan), "reduce", tensors, options.timeout);
}

WorkPointer Backend::allgather(TensorLists& outputs, Tensors& inputs,
                               const c10d::AllgatherOptions& options) {
  c10d::assertSingleElement(InvalidFor("allgather"), inputs);
  TORCH_CHECK_VALUE(outputs.size() == 1, "allgather: requires a single list of output tensors");
  CheckCarried("allgather", inputs);
  CheckCarried("allgather", outputs[0]);
  CheckPieces("allgather", outputs[0], inputs[0], size_);
  const at::Tensor input = Packed(inputs[0]);
  const FlatBlock block(outputs[0], /*filled=*/false);
  OperationPlan plan = PlanOf(OpType::ALLGATHER, "harmonaize:all_gather", inputs, outputs);
  plan.nested_outputs = true;
  plan.post = [input, block](ncclComm_t communicator, cudaStream_t stream) {
    return Library::Get().ncclAllGather(input.data_ptr(), block.memory().data_ptr(), Carried(input),
                                        TypeOf(input), communicator, stream);
  };
  plan.finish = [block] { block.Deliver(); };
  return Collective(std::move(plan), "all_gather", inputs, options.timeout);
}

WorkPointer Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                     const c10d::AllgatherOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

WorkPointer Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size() && !inputs.empty(),
                    "all_gather: requires as many output tensors as input tensors");
  CheckCarried("all_gather", outputs);
  CheckCarried("all_gather", inputs);
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;
  std::vector<ResultPlace> places;
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_VALUE(outputs[i].scalar_type() == inputs[i].scalar_type(),
                      "output tensor must have the same type as input tensor");
    TORCH_CHECK_VALUE(outputs[i].numel() == inputs[i].numel() * size_,
                      "output tensor size must be equal to world_size times input tensor size");
    places.emplace_back(outputs[i], /*filled=*/false);
    pairs.emplace_back(Packed(inputs[i]), places.back().memory());
  }
  OperationPlan plan =
      PlanOf(OpType::_ALLGATHER_BASE, "harmonaize:_all_gather_base", inputs, {outputs});
  plan.post = [pairs](ncclComm_t communicator, cudaStream_t stream) {
    return PostAllGathers(pairs, communicator, stream);
  };
  plan.finish = [places] {
    for (const ResultPlace& place : places) place.Deliver();
  };
  return Collective(std::move(plan), "all_gather", inputs, options.timeout);
}

WorkPointer Backend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                         const c10d::AllgatherOptions& options) {
  c10d::assertNonEmpty(InvalidFor("allgather_coalesced"), inputs);
  TORCH_CHECK_VALUE(outputs.size() == static_cast<size_t>(size_),
                    "allgather_coalesced: output lists should be equal to world size");
  CheckCarried("allgather_coalesced", inputs);
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;
  std::vector<FlatBlock> blocks;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensors pieces;
    for (const Tensors& list : outputs) {
      TORCH_CHECK_VALUE(list.size() == inputs.size(),
                        "allgather_coalesced: invalid output size: (expected length ",
                        inputs.size(), ", got ", list.size(), ")");
      pieces.push_back(list[i]);
    }
    CheckCarried("allgather_coalesced", pieces);
    CheckPieces("allgather_coalesced", pieces, inputs[i], size_);
    blocks.emplace_back(pieces, /*filled=*/false);
    pairs.emplace_back(Packed(inputs[i]), blocks.back().memory());
  }
  OperationPlan plan =
      PlanOf(OpType::ALLGATHER_COALESCED, "harmonaize:all_gather", inputs, outputs);
  plan.nested_outputs = true;
  plan.post = [pairs](ncclComm_t communicator, cudaStream_t stream) {
    return PostAllGathers(pairs, communicator, stream);
  };
  plan.finish = [blocks] {
    for (const FlatBlock& block : blocks) block.Deliver();
  };
  return Collective(std::move(plan), "all_gather_coalesced", inputs, options.timeout);
}

WorkPointer Backend::gather(TensorLists& outputs, Tensors& inputs,
                            const c10d::GatherOptions& options) {
  c10d::assertSingleElement(InvalidFor("gather"), inputs);
  CheckCarried("gather", inputs);
  CheckRoot("gather", options.rootRank);
  const int root = static_cast<int>(options.rootRank);
  const at::Tensor input = Packed(inputs[0]);
  std::optional<FlatBlock> block;
  if (rank_ == root) {
    TORCH_CHECK_VALUE(outputs.size() == 1, "gather: requires a single list of output tensors");
    CheckCarried("gather", outputs[0]);
    CheckPieces("gather", outputs[0], inputs[0], size_);
    block.emplace(outputs[0], /*filled=*/false);
  } else {
    TORCH_CHECK_VALUE(outputs.empty(), "gather: requires empty output on non-root");
  }
  OperationPlan plan = PlanOf(OpType::GATHER, "harmonaize:gather", inputs, outputs);
  plan.nested_outputs = true;
  plan.post = [input, block, root](ncclComm_t communicator, cudaStream_t stream) {
    return Library::Get().ncclGather(input.data_ptr(), block ? block->memory().data_ptr() : nullptr,
                                     Carried(input), TypeOf(input), root, communicator, stream);
  };
  if (block) plan.finish = [block] { block->Deliver(); };
  return Collective(std::move(plan), "gather", inputs, options.timeout);
}

WorkPointer Backend::gather_single(at::Tensor& output, at::Tensor& input,
                                   const c10d::GatherOptions& options) {
  CheckCarried("gather", {input});
  CheckRoot("gather", options.rootRank);
  const int root = static_cast<int>(options.rootRank);
  const at::Tensor packed = Packed(input);
  std::optional<ResultPlace> place;
  if (rank_ == root) {
    CheckCarried("gather", {output});
    TORCH_CHECK_VALUE(output.numel() == input.numel() * size_,
                      "output tensor size must be equal to world_size times input tensor size");
    place.emplace(output, /*filled=*/false);
  }
  const TensorLists outputs = place ? TensorLists{{output}} : TensorLists{};
  OperationPlan plan = PlanOf(OpType::GATHER, "harmonaize:gather", {input}, outputs);
  plan.post = [packed, place, root](ncclComm_t communicator, cudaStream_t stream) {
    return Library::Get().ncclGather(packed.data_ptr(),
                                     place ? place->memory().data_ptr() : nullptr, Carried(packed),
                                     TypeOf(packed), root, communicator, stream);
  };
  if (place) plan.finish = [place] { place->Deliver(); };
  return Collective(std::move(plan), "gather", {input}, options.timeout);
}

WorkPointer Backend::scatter(Tensors& outputs, TensorLists& inputs,
                             const c10d::ScatterOptions& options) {
  c10d::assertSingleElement(InvalidFor("scatter"), outputs);
  CheckCarried("scatter", outputs);
  CheckRoot("scatter", options.rootRank);
  const int root = static_cast<int>(options.rootRank);
  const ResultPlace place(outputs[0], /*filled=*/false);
  at::Tensor block;
  if (rank_ == root) {
    TORCH_CHECK_VALUE(inputs.size() == 1, "scatter: requires a single list of input tensors");
    CheckCarried("scatter", inputs[0]);
    CheckPieces("scatter", inputs[0], outputs[0], size_);
    block = FlatBlock(inputs[0], /*filled=*/true).memory();
  } else {
    TORCH_CHECK_VALUE(inputs.empty(), "scatter: requires empty input on non-root");
  }
  OperationPlan plan = PlanOf(OpType::SCATTER, "harmonaize:scatter",
                              inputs.empty() ? Tensors{} : inputs[0], {outputs});
  plan.post = [block, place, root](ncclComm_t communicator, cudaStream_t stream) {
    return Library::Get().ncclScatter(block.defined() ? block.data_ptr() : nullptr,
                                      place.memory().data_ptr(), Carried(place.memory()),
                                      TypeOf(place.memory()), root, communicator, stream);
  };
  plan.finish = [place] { place.Deliver(); };
  return Collective(std::move(plan), "scatter", outputs, options.timeout);
}

namespace {

/// This rank's block of a reduction of all `input`s into `output`.
struct Scattering {
  Scattering(const at::Tensor& to, const at::Tensor& from, const c10d::ReduceOp& operation,
             int ranks)
      : reduction(to.scalar_type(), operation),
        input(reduction.native() ? from : reduction.Contribution(from)),
        output(to, /*filled=*/false) {
    TORCH_CHECK_VALUE(to.scalar_type() == from.scalar_type(),
                      "input tensor must be the same type as the output tensor.");
    TORCH_CHECK_VALUE(from.numel() == to.numel() * ranks,
                      "input tensor must be the same size as output size times world size");
    if (!reduction.native()) exchanged = at::empty_like(input);
  }

  ncclResult_t Post(ncclComm_t communicator, cudaStream_t stream) const {
    const Library& library = Library::Get();
    const at::Tensor& to = output.memory();
    if (!reduction.native()) {
      return library.ncclAlltoAll(input.data_ptr(), exchanged.data_ptr(), Carried(to), TypeOf(to),
                                  communicator, stream);
    }
    return reduction.WithOperator(communicator, [&](ncclRedOp_t operation) {
      return library.ncclReduceScatter(input.data_ptr(), to.data_ptr(), reduction.CountOf(to),
                                       reduction.type(), operation, communicator, stream);
    });
  }

  void Finish(int ranks) const {
    if (!reduction.native()) reduction.Reduce(exchanged, ranks, output.memory());
    output.Deliver();
  }

  Reduction reduction;
  at::Tensor input;
  ResultPlace output;
  at::Tensor exchanged;  // where ranks exchange
};

}  // namespace

WorkPointer Backend::ReduceScatterBlocks(const Tensors& outputs, const Tensors& blocks,
                                         OperationPlan plan,
                                         const c10d::ReduceScatterOptions& options) {
  std::vector<Scattering> all;
  for (size_t i = 0; i < outputs.size(); ++i) {
    all.emplace_back(outputs[i], blocks[i], options.reduceOp, size_);
  }
  plan.post = [all](ncclComm_t communicator, cudaStream_t stream) {
    return Grouped([&] {
      for (const Scattering& one : all) one.Post(communicator, stream);
    });
  };
  plan.finish = [all, ranks = size_] {
    for (const Scattering& one : all) one.Finish(ranks);
  };
  return Collective(std::move(plan), "reduce_scatter", outputs, options.timeout);
}

WorkPointer Backend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                    const c10d::ReduceScatterOptions& options) {
  c10d::assertSingleElement(InvalidFor("reduce_scatter"), outputs);
  TORCH_CHECK_VALUE(inputs.size() == 1, "reduce_scatter: requires a single list of input tensors");
  CheckCarried("reduce_scatter", outputs);
  CheckCarried("reduce_scatter", inputs[0]);
  CheckPieces("reduce_scatter", inputs[0], outputs[0], size_);
  OperationPlan plan =
      PlanOf(OpType::REDUCE_SCATTER, "harmonaize:reduce_scatter", inputs[0], {outputs});
  const FlatBlock block(inputs[0], /*filled=*/true);
  return ReduceScatterBlocks(outputs, {block.memory()}, std::move(plan), options);
}

WorkPointer Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

WorkPointer Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size() && !inputs.empty(),
                    "reduce_scatter: requires as many output tensors as input tensors");
  CheckCarried("reduce_scatter", outputs);
  CheckCarried("reduce_scatter", inputs);
  Tensors packed;
  for (const at::Tensor& input : inputs) packed.push_back(Packed(input));
  OperationPlan plan =
      PlanOf(OpType::_REDUCE_SCATTER_BASE, "harmonaize:_reduce_scatter_base", inputs, {outputs});
  return ReduceScatterBlocks(outputs, packed, std::move(plan), options);
}

namespace {

/// A rank's part of an exchange: elements at a place.
struct Part {
  void* memory;
  size_t count;
};

/// Sends each rank its part, and receives one from each.
ncclResult_t PostExchange(const std::vector<Part>& outgoing, const std::vector<Part>& incoming,
                          ncclDataType_t type, ncclComm_t communicator, cudaStream_t stream) {
  const Library& library = Library::Get();
  return Grouped([&] {
    for (size_t rank = 0; rank < outgoing.size(); ++rank) {
      const int peer = static_cast<int>(rank);
      library.ncclSend(outgoing[rank].memory, outgoing[rank].count, type, peer, communicator,
                       stream);
      library.ncclRecv(incoming[rank].memory, incoming[rank].count, type, peer, communicator,
                       stream);
    }
  });
}

/// The parts of a tensor that is cut along its first dimension, into equal ones without `sizes`.
std::vector<Part> PartsOf(const at::Tensor& tensor, const std::vector<int64_t>& sizes, int ranks) {
  const size_t element = tensor.element_size();
  const size_t factor = TypeToCarry(tensor.scalar_type()).count_factor;
  const int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  const size_t row = rows == 0 ? 0 : static_cast<size_t>(tensor.numel() / rows);
  std::vector<Part> parts;
  auto* place = static_cast<char*>(tensor.data_ptr());
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t share = sizes.empty() ? rows / ranks : sizes[rank];
    const size_t count = static_cast<size_t>(share) * row;
    parts.push_back({place, count * factor});
    place += count * element;
  }
  return parts;
}

}  // namespace

WorkPointer Backend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                   std::vector<int64_t>& output_sizes,
                                   std::vector<int64_t>& input_sizes,
                                   const c10d::AllToAllOptions& options) {
  CheckCarried("all_to_all", {output, input});
  TORCH_CHECK_VALUE(output.scalar_type() == input.scalar_type(),
                    "all_to_all: tensors must have the same type");
  c10d::checkSplitSizes(input_sizes, input, size_);
  c10d::checkSplitSizes(output_sizes, output, size_);
  const at::Tensor packed = Packed(input);
  const ResultPlace place(output, /*filled=*/false);
  OperationPlan plan = PlanOf(OpType::ALLTOALL_BASE, "harmonaize:all_to_all", {input}, {{output}});
  plan.finish = [place] { place.Deliver(); };
  if (output_sizes.empty() && input_sizes.empty()) {
    plan.post = [packed, place, ranks = size_](ncclComm_t communicator, cudaStream_t stream) {
      return Library::Get().ncclAlltoAll(packed.data_ptr(), place.memory().data_ptr(),
                                         Carried(packed) / static_cast<size_t>(ranks),
                                         TypeOf(packed), communicator, stream);
    };
    return Collective(std::move(plan), "all_to_all", {input}, options.timeout);
  }
  const std::vector<Part> outgoing = PartsOf(packed, input_sizes, size_);
  const std::vector<Part> incoming = PartsOf(place.memory(), output_sizes, size_);
  plan.post = [packed, place, outgoing, incoming](ncclComm_t communicator, cudaStream_t stream) {
    return PostExchange(outgoing, incoming, TypeOf(packed), communicator, stream);
  };
  return Exchange(std::move(plan), "all_to_all", {input}, options.timeout);
}

WorkPointer Backend::alltoall(Tensors& outputs, Tensors& inputs,
                              const c10d::AllToAllOptions& options) {
  const auto ranks = static_cast<size_t>(size_);
  TORCH_CHECK_VALUE(inputs.size() == ranks && outputs.size() == ranks,
                    "all_to_all: requires a list of ", ranks, " tensors, one for each rank");
  CheckCarried("all_to_all", inputs);
  CheckCarried("all_to_all", outputs);
  Tensors packed;
  std::vector<ResultPlace> places;
  std::vector<Part> outgoing;
  std::vector<Part> incoming;
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (const at::Tensor& tensor : {inputs[rank], outputs[rank]}) {
      TORCH_CHECK_VALUE(tensor.scalar_type() == inputs[0].scalar_type(),
                        "all_to_all: tensors must have the same type");
    }
    packed.push_back(Packed(inputs[rank]));
    places.emplace_back(outputs[rank], /*filled=*/false);
    outgoing.push_back({packed.back().data_ptr(), Carried(packed.back())});
    incoming.push_back({places.back().memory().data_ptr(), Carried(outputs[rank])});
  }
  OperationPlan plan = PlanOf(OpType::ALLTOALL, "harmonaize:all_to_all", inputs, {outputs});
  plan.post = [packed, places, outgoing, incoming](ncclComm_t communicator, cudaStream_t stream) {
    return PostExchange(outgoing, incoming, TypeOf(packed[0]), communicator, stream);
  };
  plan.finish = [places] {
    for (const ResultPlace& place : places) place.Deliver();
  };
  return Exchange(std::move(plan), "all_to_all", inputs, options.timeout);
}

WorkPointer Backend::barrier(const c10d::BarrierOptions& options) {
  CheckProcess();
  const at::Tensor token = at::zeros({1}, at::TensorOptions().dtype(at::kByte));
  OperationPlan plan = PlanOf(OpType::BARRIER, "harmonaize:barrier", {}, {});
  plan.post = [token](ncclComm_t communicator, cudaStream_t stream) {
    return Library::Get().ncclAllReduce(token.data_ptr(), token.data_ptr(), 1, ncclUint8, ncclMax,
                                        communicator, stream);
  };
  return Collective(std::move(plan), "barrier", {}, options.timeout);
}

}  // namespace harmonaize_torch
