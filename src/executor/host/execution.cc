#include "src/executor/host/execution.h"

#include <algorithm>

namespace harmonaize {
namespace {

constexpr uint64_t kLargestBuffer = uint64_t{1} << 62;

bool NeedsOnePass(ReduceOperator op) {
  return op == ReduceOperator::kAvg || op == ReduceOperator::kPreMulSum;
}

// Goes once over the program, checks every block against the binding, and fills the WorkShape.
class Survey {
 public:
  Survey(const Binding& binding, WorkShape& shape) : binding_(binding), shape_(shape) {}

  Status Run() {
    const HostProgram& program = *binding_.program;
    shape_.steps = static_cast<int>(program.steps.size());
    shape_.scratch_blocks = program.scratch_blocks;
    shape_.ordered = program.scratch_blocks > 0;
    for (const Step& step : program.steps) HZ_RETURN_IF_ERROR(Visit(step));
    const auto units = static_cast<uint64_t>(largest_index_ / binding_.pieces) + 1;
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(binding_.count * shape_.element_bytes, units, &bytes) ||
        bytes > kLargestBuffer) {
      return InvalidArgument("a buffer of {} times {} elements is too large", units,
                             binding_.count);
    }
    return Status::Ok();
  }

  uint64_t blocks_read() const { return blocks_read_; }
  uint64_t outputs_written() const { return outputs_written_; }

 private:
  Status Visit(const Step& step) {
    HZ_RETURN_IF_ERROR(CheckKind(step));
    if (!step.after.empty()) shape_.ordered = true;
    for (const Block& block : step.sources) HZ_RETURN_IF_ERROR(CheckBlock(block, "source"));
    for (const Block& block : step.destinations) {
      HZ_RETURN_IF_ERROR(CheckBlock(block, "destination"));
      if (block.space == Space::kOutput) ++outputs_written_;
    }
    Count(step);
    return Status::Ok();
  }

  Status CheckKind(const Step& step) const {
    const size_t sources = step.sources.size();
    switch (step.kind) {
      case StepKind::kReduce:
        if (NeedsOnePass(binding_.op)) HZ_RETURN_IF_ERROR(CheckOnePass(step));
        return sources > 0 ? Status::Ok() : InternalError("a reduce step without sources");
      case StepKind::kCopy:
        return sources == 1 ? Status::Ok() : InternalError("a copy step of {} sources", sources);
      case StepKind::kExchange:
        return sources > 0 && sources == step.destinations.size()
                   ? Status::Ok()
                   : InternalError("an exchange step of {} sources and {} destinations", sources,
                                   step.destinations.size());
      case StepKind::kSend:
      case StepKind::kReceive:
      case StepKind::kReceiveReduce: break;
    }
    return InvalidUsage("the program has a {} step: it needs a transport to host {}",
                        StepKindName(step.kind), step.peer_host);
  }

  // Only contributions are scaled, and only the result is divided. A partial result would get both
  // a second time.
  Status CheckOnePass(const Step& step) const {
    const bool one_pass = std::all_of(step.sources.begin(), step.sources.end(),
                                      [](const Block& b) { return b.space == Space::kInput; });
    if (one_pass) return Status::Ok();
    return InvalidUsage("operator {} needs a program that reduces all contributions in one step",
                        ReduceOperatorName(binding_.op));
  }

  Status CheckBlock(const Block& block, const char* role) {
    if (block.index < 0) return InternalError("{} {} is no block", role, Describe(block));
    if (block.space == Space::kScratch) {
      return block.index < binding_.program->scratch_blocks
                 ? Status::Ok()
                 : InternalError("{} {}: there is no such block", role, Describe(block));
    }
    const bool input = block.space == Space::kInput;
    const std::span<const MemoryView> buffers = input ? binding_.inputs : binding_.outputs;
    if (block.rank < 0 || static_cast<size_t>(block.rank) >= buffers.size()) {
      return InvalidArgument("{} {}: no such rank among {}", role, Describe(block), buffers.size());
    }
    const MemoryView& buffer = buffers[static_cast<size_t>(block.rank)];
    if (!buffer.exists()) {
      return InvalidArgument("rank {} has no {} buffer", block.rank, input ? "send" : "receive");
    }
    if (buffer.kind != MemoryKind::kHost) {
      return InvalidArgument("the {} buffer of rank {} is not in host memory",
                             input ? "send" : "receive", block.rank);
    }
    largest_index_ = std::max(largest_index_, block.index);
    return Status::Ok();
  }

  void Count(const Step& step) {
    const uint64_t references = step.sources.size() + step.destinations.size();
    shape_.references += references;
    shape_.step_references = std::max(shape_.step_references, references);
    blocks_read_ += step.sources.size();
    if (step.kind == StepKind::kExchange) {
      shape_.staging_slots = std::max(shape_.staging_slots, static_cast<int>(step.sources.size()));
    }
  }

  const Binding& binding_;
  WorkShape& shape_;
  int largest_index_ = 0;
  uint64_t blocks_read_ = 0;
  uint64_t outputs_written_ = 0;
};

Status CheckEncoded(const Binding& binding) {
  const EncodedBuffers& encoded = binding.encoded;
  if (encoded.format == WireFormat::kSame) return Status::Ok();
  const bool carried_out =
      WireFormatFor(encoded.format, binding.type, binding.op) == encoded.format &&
      binding.op != ReduceOperator::kAvg;
  if (!carried_out) {
    return InternalError("{} of {} has buffers in {}", ReduceOperatorName(binding.op),
                         DataTypeName(binding.type), WireFormatName(encoded.format));
  }
  const bool all = encoded.inputs.size() >= binding.inputs.size() &&
                   encoded.outputs.size() >= binding.outputs.size();
  if (!all || binding.pieces != 1 || !binding.input_strides.empty() ||
      !binding.output_strides.empty()) {
    return InternalError("buffers in {} hold more than a block", WireFormatName(encoded.format));
  }
  return Status::Ok();
}

Status CheckValues(const Binding& binding) {
  const size_t element_bytes = DataTypeSize(binding.type);
  if (element_bytes == 0) {
    return InvalidArgument("{} is no data type", static_cast<int>(binding.type));
  }
  if (static_cast<int>(binding.op) >= kReduceOperatorCount) {
    return InvalidArgument("{} is no operator", static_cast<int>(binding.op));
  }
  if (binding.program == nullptr) return InternalError("a binding without a program");
  if (binding.pieces <= 0) return InternalError("a binding with {} pieces", binding.pieces);
  if (binding.most_workers < 0) {
    return InvalidArgument("at most {} threads may work for a job", binding.most_workers);
  }
  if (binding.count > kLargestBuffer / element_bytes) {
    return InvalidArgument("{} elements of {} are too many", binding.count,
                           DataTypeName(binding.type));
  }
  if (binding.op == ReduceOperator::kAvg && binding.divisor == 0) {
    return InvalidArgument("an average over nothing: the divisor is 0");
  }
  if (binding.op == ReduceOperator::kPreMulSum && binding.scalars.size() < binding.inputs.size()) {
    return InvalidArgument("premulsum has {} scalars for {} ranks", binding.scalars.size(),
                           binding.inputs.size());
  }
  HZ_RETURN_IF_ERROR(CheckEncoded(binding));
  for (const auto& [strides, buffers] : {std::pair(binding.input_strides, binding.inputs),
                                         std::pair(binding.output_strides, binding.outputs)}) {
    if (!strides.empty() && strides.size() < buffers.size()) {
      return InvalidArgument("{} strides for {} ranks", strides.size(), buffers.size());
    }
  }
  return Status::Ok();
}

uint64_t SaturatingProduct(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

}  // namespace

Status Execution::Bind(const Binding& binding, const Machine& machine) {
  if (phase_ != Phase::kIdle) return InternalError("an execution was bound while it runs");
  bound_.cut = {};  // Nothing to run, should this fail.
  HZ_RETURN_IF_ERROR(CheckValues(binding));
  WorkShape shape;
  shape.element_bytes = DataTypeSize(binding.type);
  shape.block_elements = LongestBlock(binding.count, binding.pieces);
  Survey survey(binding, shape);
  HZ_RETURN_IF_ERROR(survey.Run());

  bound_.helpable = binding.helpable;
  bound_.node = binding.node;
  bound_.whole = binding.whole;
  bound_.tenant = binding.tenant;
  bound_.weight = binding.weight;
  bound_.job = binding.job;
  // The owner is one more thread.
  bound_.most_workers = binding.most_workers <= machine.workers ? binding.most_workers : 0;
  bound_.sleeps_at_once = binding.sleeps_at_once;
  shape.participants = std::min(machine.workers + (bound_.helpable ? 1 : 0), machine.processors);
  if (bound_.most_workers > 0) {
    shape.participants = std::min(shape.participants, bound_.most_workers);
  }
  shape.shared = binding.shared;
  shape.granule_elements = WireGranule(binding.encoded.format);
  HZ_ASSIGN_OR_RETURN(bound_.cut, CutWork(shape, machine));
  bound_.program = binding.program;
  bound_.pieces = binding.pieces;
  bound_.type = binding.type;
  bound_.op = binding.op;
  bound_.count = binding.count;
  bound_.divisor = binding.divisor;
  bound_.inputs.assign(binding.inputs.begin(), binding.inputs.end());
  bound_.outputs.assign(binding.outputs.begin(), binding.outputs.end());
  bound_.scalars.assign(binding.scalars.begin(), binding.scalars.end());
  bound_.input_strides.assign(binding.input_strides.begin(), binding.input_strides.end());
  bound_.output_strides.assign(binding.output_strides.begin(), binding.output_strides.end());
  bound_.format = binding.encoded.format;
  bound_.rounds = binding.encoded.rounds;
  bound_.encoded_inputs.assign(binding.encoded.inputs.begin(), binding.encoded.inputs.end());
  bound_.encoded_outputs.assign(binding.encoded.outputs.begin(), binding.encoded.outputs.end());
  const uint64_t block_bytes = shape.block_elements * shape.element_bytes;
  bound_.beyond_cache = SaturatingProduct(shape.references, block_bytes) > machine.last_level_bytes;
  // If the operation touches more than the shared cache holds, ordinary stores would evict data
  // that is still to be read, and would be evicted themselves before anybody reads them.
  bound_.non_temporal = survey.outputs_written() > 0 &&
                        SaturatingProduct(survey.blocks_read() + survey.outputs_written(),
                                          block_bytes) >= machine.last_level_bytes;
  status_ = Status::Ok();
  stopped_.store(false, std::memory_order_relaxed);
  return Status::Ok();
}

}  // namespace harmonaize
