#include "src/executor/host/unit.h"

#include <algorithm>

#include "src/numerics/reduce.h"

namespace harmonaize {

uint64_t UnitRunner::Run(const BoundProgram& bound, uint32_t unit,
                         const std::atomic<bool>& stopped) {
  bound_ = &bound;
  moved_bytes_ = 0;
  staging_.Reserve(bound.cut.staging_bytes);
  const std::vector<Step>& steps = bound.program->steps;
  const UnitExtent extent = ExtentOfUnit(bound.cut, static_cast<int>(steps.size()), unit);
  first_element_ = extent.first_element;
  for (int i = extent.first_step; i < extent.end_step; ++i) {
    // Relaxed: see Execution::stopped.
    if (stopped.load(std::memory_order_relaxed)) break;
    const Step& step = steps[static_cast<size_t>(i)];
    if (step.destinations.empty()) continue;
    const BlockExtent block = ExtentOf(bound.count, bound.pieces, step.destinations[0].index);
    const uint64_t end = std::min(extent.end_element, block.length);
    if (first_element_ >= end) continue;
    elements_ = end - first_element_;
    bytes_ = elements_ * DataTypeSize(bound.type);
    RunStep(step);
  }
  return moved_bytes_;
}

void UnitRunner::RunStep(const Step& step) {
  if (bound_->format != WireFormat::kSame) return RunEncoded(step);
  switch (step.kind) {
    case StepKind::kReduce: RunReduce(step); break;
    case StepKind::kCopy: RunCopy(step); break;
    case StepKind::kExchange: RunExchange(step); break;
    case StepKind::kSend:
    case StepKind::kReceive:
    case StepKind::kReceiveReduce: break;  // Bind refuses them.
  }
}

void UnitRunner::RunReduce(const Step& step) {
  inputs_.clear();
  outputs_.clear();
  scalars_.clear();
  for (const Block& block : step.sources) {
    inputs_.push_back(Resolve(block).address);
    if (bound_->op == ReduceOperator::kPreMulSum) {
      scalars_.push_back(bound_->scalars[static_cast<size_t>(block.rank)]);
    }
  }
  for (const Block& block : step.destinations) outputs_.push_back(Resolve(block).address);
  Reduce({.type = bound_->type,
          .op = bound_->op,
          .inputs = inputs_,
          .outputs = outputs_,
          .count = elements_,
          .scalars = scalars_,
          .divisor = bound_->divisor,
          .non_temporal = bound_->non_temporal});
  moved_bytes_ += bytes_ * (step.sources.size() + step.destinations.size());
}

void UnitRunner::RunCopy(const Step& step) {
  const MemoryView source = Resolve(step.sources[0]);
  outputs_.clear();
  for (const Block& to : step.destinations) {
    const MemoryView destination = Resolve(to);
    if (!destination.SamePlace(source)) outputs_.push_back(destination.address);
  }
  if (outputs_.empty()) return;
  CopyToMany(source.address, outputs_, bytes_, bound_->non_temporal);
  moved_bytes_ += bytes_ * (1 + outputs_.size());
}

void UnitRunner::RunExchange(const Step& step) {
  const size_t pairs = step.sources.size();
  for (size_t i = 0; i < pairs; ++i) {
    const MemoryView source = Resolve(step.sources[i]);
    if (source.SamePlace(Resolve(step.destinations[i]))) continue;
    std::byte* const slot = Slot(static_cast<int>(i));
    CopyToMany(source.address, {&slot, 1}, bytes_, false);
  }
  for (size_t i = 0; i < pairs; ++i) {
    const MemoryView destination = Resolve(step.destinations[i]);
    if (destination.SamePlace(Resolve(step.sources[i]))) continue;
    CopyToMany(Slot(static_cast<int>(i)), {&destination.address, 1}, bytes_, bound_->non_temporal);
    moved_bytes_ += 2 * bytes_;
  }
}

void UnitRunner::RunEncoded(const Step& step) {
  wire_inputs_.clear();
  wire_outputs_.clear();
  scalars_.clear();
  const auto place = [&](const MemoryView& buffer, bool encoded) {
    const WireFormat format = encoded ? bound_->format : WireFormat::kSame;
    moved_bytes_ += WireBytes(format, bound_->type, elements_);
    return buffer.address + WireBytes(format, bound_->type, first_element_);
  };
  for (const Block& block : step.sources) {
    const auto rank = static_cast<size_t>(block.rank);
    const bool encoded = bound_->encoded_inputs[rank] != 0;
    wire_inputs_.push_back({place(bound_->inputs[rank], encoded), encoded});
    if (bound_->op == ReduceOperator::kPreMulSum) scalars_.push_back(bound_->scalars[rank]);
  }
  for (const Block& block : step.destinations) {
    const auto rank = static_cast<size_t>(block.rank);
    const bool encoded = bound_->encoded_outputs[rank] != 0;
    wire_outputs_.push_back({place(bound_->outputs[rank], encoded), encoded});
  }
  ReduceWire({.format = bound_->format,
              .type = bound_->type,
              .inputs = wire_inputs_,
              .outputs = wire_outputs_,
              .count = elements_,
              .scalars = scalars_,
              .rounds = bound_->rounds});
}

MemoryView UnitRunner::Resolve(const Block& block) const {
  if (block.space == Space::kScratch) {
    // Scratch blocks follow the slots of the steps; a unit has a slice of each.
    const int first = static_cast<int>(bound_->cut.staging_bytes / bound_->cut.stride_bytes) -
                      bound_->program->scratch_blocks;
    return MemoryView{Slot(first + block.index)};
  }
  const bool input = block.space == Space::kInput;
  const std::vector<MemoryView>& buffers = input ? bound_->inputs : bound_->outputs;
  const std::vector<uint64_t>& strides = input ? bound_->input_strides : bound_->output_strides;
  const auto rank = static_cast<size_t>(block.rank);
  uint64_t offset = ExtentOf(bound_->count, bound_->pieces, block.index).offset;
  if (!strides.empty()) {
    const auto unit = static_cast<uint64_t>(block.index / bound_->pieces);
    offset += unit * (strides[rank] - bound_->count);
  }
  return buffers[rank].At((offset + first_element_) * DataTypeSize(bound_->type));
}

std::byte* UnitRunner::Slot(int index) const {
  return staging_.data() + static_cast<size_t>(index) * bound_->cut.stride_bytes;
}

}  // namespace harmonaize
