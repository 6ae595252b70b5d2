#include "src/executor/unit.h"

#include <algorithm>
#include <utility>

#include "src/base/clock.h"
#include "src/memory/process_memory.h"
#include "src/numerics/reduce.h"

namespace harmonaize {

UnitOutcome UnitRunner::Run(const BoundProgram& bound, uint32_t unit,
                            const std::atomic<bool>& stopped) {
  bound_ = &bound;
  outcome_ = {};
  staging_.Reserve(bound.cut.staging_bytes);
  const std::vector<Step>& steps = bound.program->steps;
  const UnitExtent extent = ExtentOfUnit(bound.cut, static_cast<int>(steps.size()), unit);
  first_element_ = extent.first_element;
  for (int i = extent.first_step; i < extent.end_step && outcome_.end == End::kDone; ++i) {
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
  return std::move(outcome_);
}

void UnitRunner::RunStep(const Step& step) {
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
  int slots = 0;
  for (const Block& block : step.sources) {
    const Buffer source = Resolve(block);
    std::byte* input = source.mapped;
    if (!source.is_mapped()) {
      input = Slot(slots++);
      if (!ReadPrivate(block, source, input)) return;
    }
    inputs_.push_back(input);
    if (bound_->op == ReduceOperator::kPreMulSum) {
      scalars_.push_back(bound_->scalars[static_cast<size_t>(block.rank)]);
    }
  }
  for (const Block& block : step.destinations) {
    const Buffer destination = Resolve(block);
    if (destination.is_mapped()) outputs_.push_back(destination.mapped);
  }
  const bool to_private = outputs_.size() < step.destinations.size();
  // The result takes the place of the first staged source, which is no longer needed.
  if (to_private) outputs_.push_back(Slot(0));
  Reduce({.type = bound_->type,
          .op = bound_->op,
          .inputs = inputs_,
          .outputs = outputs_,
          .count = elements_,
          .scalars = scalars_,
          .divisor = bound_->divisor,
          // A staged result is read at once.
          .non_temporal = bound_->non_temporal && !to_private});
  outcome_.bytes += bytes_ * (step.sources.size() + step.destinations.size());
  if (to_private) WritePrivateDestinations(step, Slot(0), nullptr);
}

void UnitRunner::RunCopy(const Step& step) {
  const Block& block = step.sources[0];
  const Buffer source = Resolve(block);
  outputs_.clear();
  size_t skipped = 0;
  for (const Block& to : step.destinations) {
    const Buffer destination = Resolve(to);
    if (destination.SamePlace(source)) {
      ++skipped;
    } else if (destination.is_mapped()) {
      outputs_.push_back(destination.mapped);
    }
  }
  if (skipped == step.destinations.size()) return;
  const bool to_private = outputs_.size() + skipped < step.destinations.size();
  const std::byte* data = source.mapped;
  if (!source.is_mapped()) {
    if (!ReadPrivate(block, source, Slot(0))) return;
    data = Slot(0);
  } else if (to_private) {
    outputs_.push_back(Slot(0));
  }
  if (!outputs_.empty()) {
    CopyToMany(data, outputs_, bytes_, bound_->non_temporal && !to_private);
  }
  outcome_.bytes += bytes_ * (1 + step.destinations.size() - skipped);
  if (to_private) WritePrivateDestinations(step, Slot(0), &source);
}

void UnitRunner::RunExchange(const Step& step) {
  const size_t pairs = step.sources.size();
  for (size_t i = 0; i < pairs; ++i) {
    const Buffer source = Resolve(step.sources[i]);
    if (source.SamePlace(Resolve(step.destinations[i]))) continue;
    std::byte* const slot = Slot(static_cast<int>(i));
    if (source.is_mapped()) {
      CopyToMany(source.mapped, {&slot, 1}, bytes_, false);
    } else if (!ReadPrivate(step.sources[i], source, slot)) {
      return;
    }
  }
  for (size_t i = 0; i < pairs; ++i) {
    const Buffer destination = Resolve(step.destinations[i]);
    if (destination.SamePlace(Resolve(step.sources[i]))) continue;
    const std::byte* slot = Slot(static_cast<int>(i));
    if (destination.is_mapped()) {
      CopyToMany(slot, {&destination.mapped, 1}, bytes_, bound_->non_temporal);
    } else if (!WritePrivate(step.destinations[i], slot, destination)) {
      return;
    }
    outcome_.bytes += 2 * bytes_;
  }
}

Buffer UnitRunner::Resolve(const Block& block) const {
  if (block.space == Space::kScratch) {
    // Behind the slots of the steps; a unit has a slice of each scratch block.
    const int first = static_cast<int>(bound_->cut.staging_bytes / bound_->cut.stride_bytes) -
                      bound_->program->scratch_blocks;
    return Buffer{.mapped = Slot(first + block.index), .process = 0, .address = 0};
  }
  const std::vector<Buffer>& buffers =
      block.space == Space::kInput ? bound_->inputs : bound_->outputs;
  const BlockExtent extent = ExtentOf(bound_->count, bound_->pieces, block.index);
  return buffers[static_cast<size_t>(block.rank)].At((extent.offset + first_element_) *
                                                     DataTypeSize(bound_->type));
}

std::byte* UnitRunner::Slot(int index) const {
  return staging_.data() + static_cast<size_t>(index) * bound_->cut.stride_bytes;
}

bool UnitRunner::WritePrivateDestinations(const Step& step, const std::byte* result,
                                          const Buffer* source) {
  for (const Block& block : step.destinations) {
    const Buffer destination = Resolve(block);
    if (destination.is_mapped()) continue;
    if (source != nullptr && destination.SamePlace(*source)) continue;
    if (!WritePrivate(block, result, destination)) return false;
  }
  return true;
}

bool UnitRunner::ReadPrivate(const Block& block, const Buffer& from, std::byte* to) {
  foreign_call_.Enter({block.rank, block.space}, MonotonicNanoseconds());
  return EndForeignCall(block, ReadProcess(from.process, from.address, to, bytes_));
}

bool UnitRunner::WritePrivate(const Block& block, const std::byte* from, const Buffer& to) {
  foreign_call_.Enter({block.rank, block.space}, MonotonicNanoseconds());
  return EndForeignCall(block, WriteProcess(to.process, to.address, from, bytes_));
}

bool UnitRunner::EndForeignCall(const Block& block, Status status) {
  if (!foreign_call_.Leave()) {
    // The program that `block` lies in may be gone.
    outcome_.end = End::kAbandoned;
    return false;
  }
  if (status.ok()) return true;
  outcome_.end = End::kFailed;
  outcome_.status = std::move(status);
  outcome_.faulty_buffer = {block.rank, block.space};
  return false;
}

}  // namespace harmonaize
