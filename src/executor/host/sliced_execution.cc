#include "src/executor/host/sliced_execution.h"

#include <algorithm>
#include <utility>

namespace harmonaize {

Status SlicedExecution::Start(const SlicedBinding& binding) {
  if (!done()) return InternalError("an operation was started anew while it is under way");
  if (binding.slice_elements == 0 || binding.slots == 0 || binding.feed == nullptr) {
    return InternalError("an operation in slices of {} elements, in {} slots",
                         binding.slice_elements, binding.slots);
  }
  const uint64_t slices = (binding.count + binding.slice_elements - 1) / binding.slice_elements;
  if (slices > UINT32_MAX) return InvalidArgument("an operation of {} slices", slices);
  binding_ = binding;
  Keep(binding.inputs, &inputs_);
  Keep(binding.outputs, &outputs_);
  scalars_.assign(binding.scalars.begin(), binding.scalars.end());
  while (places_.size() < binding.slots) places_.push_back(std::make_unique<Slice>());
  slices_ = static_cast<uint32_t>(slices);
  binding_.slots = std::min(binding.slots, std::max(slices_, 1u));
  begun_ = 0;
  carried_ = 0;
  status_ = Status::Ok();
  binding_.feed->Begin({.piece_elements = binding.count,
                        .slice_elements = binding.slice_elements,
                        .slices = slices_,
                        .slots = binding_.slots});
  BeginSlices();
  NoteIfDone();
  return Status::Ok();
}

void SlicedExecution::Keep(std::span<const MemoryView> views, std::vector<SlicedBuffer>* buffers) {
  buffers->clear();
  for (const MemoryView& view : views) buffers->push_back({.view = view});
}

bool SlicedExecution::CanFeed() const {
  if (!status_.ok() || begun_ == slices_ || begun_ >= binding_.feed->Filled()) return false;
  // A slot is free again once all slices up to the one that it held are carried: a rank fills it
  // only then, but a rank's word is not trusted.
  return begun_ - carried_ < binding_.slots;
}

bool SlicedExecution::Feed() {
  if (!CanFeed()) return false;
  BeginSlices();
  NoteIfDone();
  return true;
}

void SlicedExecution::BeginSlices() {
  while (CanFeed()) {
    Status begun = begun_ == 0 ? binding_.feed->PlaceWindows(&inputs_, &outputs_) : Status::Ok();
    if (begun.ok()) begun = BeginSlice(begun_);
    if (!begun.ok()) return Fail(begun);
  }
}

Status SlicedExecution::BeginSlice(uint32_t number) {
  const uint64_t first = uint64_t{number} * binding_.slice_elements;
  Place(inputs_, number, &input_views_, &input_strides_);
  Place(outputs_, number, &output_views_, &output_strides_);
  Binding binding;
  static_cast<Operands&>(binding) = binding_;
  binding.program = binding_.program;
  binding.count = std::min(binding_.slice_elements, binding_.count - first);
  binding.inputs = input_views_;
  binding.outputs = output_views_;
  binding.input_strides = input_strides_;
  binding.output_strides = output_strides_;
  binding.scalars = scalars_;
  binding.helpable = true;
  binding.shared = work_engine_->shared();
  Slice* const slice = places_[number % binding_.slots].get();
  slice->owner = this;
  slice->execution.cookie = slice;
  slice->execution.on_finished = &OnExecuted;
  HZ_RETURN_IF_ERROR(slice->execution.Bind(binding, work_engine_->machine()));
  slice->running = true;
  ++running_;
  ++begun_;
  work_engine_->Start(&slice->execution);
  return Status::Ok();
}

// Finds where each rank's part of the slice lies.
void SlicedExecution::Place(const std::vector<SlicedBuffer>& buffers, uint32_t number,
                            std::vector<MemoryView>* views, std::vector<uint64_t>* strides) const {
  const uint64_t first = uint64_t{number} * binding_.slice_elements * DataTypeSize(binding_.type);
  const uint64_t slot = number % binding_.slots;
  views->clear();
  strides->clear();
  for (const SlicedBuffer& buffer : buffers) {
    const uint64_t offset = buffer.windowed() ? slot * buffer.slot_bytes : first;
    views->push_back(buffer.view.exists() ? buffer.view.At(offset) : MemoryView{});
    strides->push_back(buffer.windowed() ? binding_.slice_elements : binding_.count);
  }
}

void SlicedExecution::OnExecuted(Execution* execution) {
  auto* const slice = static_cast<Slice*>(execution->cookie);
  slice->owner->EndSlice(slice);
}

void SlicedExecution::EndSlice(Slice* slice) {
  --running_;
  slice->running = false;
  if (const Status& ended = slice->execution.status(); !ended.ok()) Fail(ended);
  if (!status_.ok()) return NoteIfDone();
  const uint32_t before = carried_;
  while (carried_ < begun_ && !places_[carried_ % binding_.slots]->running) ++carried_;
  if (carried_ > before) binding_.feed->Carried(carried_);
  BeginSlices();
  NoteIfDone();
}

void SlicedExecution::Cancel(Status reason) {
  if (done()) return;
  Fail(std::move(reason));
  NoteIfDone();
}

void SlicedExecution::Fail(Status status) {
  if (!status_.ok()) return;
  status_ = std::move(status);
  for (const std::unique_ptr<Slice>& slice : places_) {
    if (slice->running) work_engine_->Cancel(&slice->execution, status_);
  }
}

}  // namespace harmonaize
