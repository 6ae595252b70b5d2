#include "src/executor/network/network_execution.h"

#include <algorithm>
#include <set>

namespace harmonaize {
namespace {

// A token is the slice's place and the step: one message of a step is under way at a time.
constexpr int kStepBits = 32;

// Most bytes of early messages in buffers of ours, for steps whose turn has not come. They let a
// tree's inner host receive from all its children at once, not from one after the other.
constexpr size_t kEarlyBytes = size_t{16} << 20;

// Work on up to this many bytes of each buffer is done at once: handing it to the executor takes
// longer.
constexpr size_t kAtOnceBytes = size_t{4} << 10;

}  // namespace

// ---------------------------------------------------------------------------------------------
// Slices

Status NetworkExecution::Start(const NetworkBinding& binding) {
  if (!done()) return InternalError("an operation was started anew while it is under way");
  if (binding.slice_elements == 0 || binding.slices_at_once <= 0) {
    return InvalidArgument("an operation in slices of {} elements, {} at once",
                           binding.slice_elements, binding.slices_at_once);
  }
  for (const std::span<const MemoryView> views : {binding.inputs, binding.outputs}) {
    const bool host = std::all_of(views.begin(), views.end(), [](const MemoryView& view) {
      return view.kind == MemoryKind::kHost;
    });
    if (!host) return InvalidArgument("a buffer is not in host memory, which messages come from");
  }
  const bool encodes = WireFormatFor(binding.wire, binding.type, binding.op) != WireFormat::kSame;
  if (encodes && binding.program->encoded() == nullptr) {
    return InternalError("a program was not made for messages in {}", WireFormatName(binding.wire));
  }
  Reset(binding);
  BeginSlices();
  LaunchReady();
  NoteIfDone();
  return Status::Ok();
}

bool NetworkExecution::Feed() {
  if (!CanFeed()) return false;
  BeginSlices();
  LaunchReady();
  NoteIfDone();
  return true;
}

uint32_t NetworkExecution::FilledSlices() const {
  if (binding_.feed == nullptr || next_slice_ == slices_) return slices_;
  return static_cast<uint32_t>(std::min<uint64_t>(slices_, binding_.feed->Filled()));
}

void NetworkExecution::BeginSlices() {
  const uint32_t filled = FilledSlices();
  if (next_slice_ == 0 && filled > 0 && binding_.feed != nullptr) {
    const Status placed = binding_.feed->PlaceWindows(&inputs_, &outputs_);
    if (!placed.ok()) return Fail(placed);
  }
  while (!idle_.empty() && next_slice_ < filled) {
    Slice* const slice = idle_.back();
    idle_.pop_back();
    BeginSlice(*slice);
  }
}

void NetworkExecution::Reset(const NetworkBinding& binding) {
  binding_ = binding;
  inputs_.clear();
  outputs_.clear();
  for (const MemoryView& input : binding.inputs) inputs_.push_back({.view = input});
  for (const MemoryView& output : binding.outputs) outputs_.push_back({.view = output});
  scalars_.assign(binding.scalars.begin(), binding.scalars.end());
  element_bytes_ = DataTypeSize(binding.type);
  const uint64_t longest = LongestBlock(binding.count, binding.program->pieces());
  // A short operation needs no more memory than it has.
  binding_.slice_elements = std::max<uint64_t>(1, std::min(binding.slice_elements, longest));
  slice_bytes_ = binding_.slice_elements * element_bytes_;
  wire_ = WireFormatFor(binding.wire, binding.type, binding.op);
  encoded_ = wire_ == WireFormat::kSame ? nullptr : binding.program->encoded();
  held_bytes_ = std::max<size_t>(slice_bytes_, MessageBytes(binding_.slice_elements));
  slices_ =
      static_cast<uint32_t>((longest + binding_.slice_elements - 1) / binding_.slice_elements);
  if (binding.program->steps().empty()) slices_ = 0;
  binding_.slots = std::min(binding.slots, std::max(slices_, 1u));
  if (binding_.feed != nullptr) {
    binding_.feed->Begin({.piece_elements = longest,
                          .pieces = static_cast<uint64_t>(binding.program->pieces()),
                          .slice_elements = binding_.slice_elements,
                          .slices = slices_,
                          .slots = binding_.slots});
  }
  slices_left_ = slices_;
  next_slice_ = 0;
  status_ = Status::Ok();
  if (landing_bytes_ < held_bytes_) {
    all_landings_.clear();
    landing_bytes_ = held_bytes_;
  }
  // Buffers that a failed operation still held come back as well.
  early_landings_ = 0;
  free_landings_.clear();
  for (const auto& landing : all_landings_) free_landings_.push_back(landing.get());
  const size_t at_once = std::min<size_t>(slices_, static_cast<size_t>(binding.slices_at_once));
  while (running_.size() < at_once) {
    running_.push_back(std::make_unique<Slice>());
    running_.back()->place = static_cast<uint32_t>(running_.size() - 1);
  }
  // After a failure some slices were left in the middle.
  for (const std::unique_ptr<Slice>& slice : running_) {
    slice->steps_left = 0;
    slice->under_way = false;
  }
  idle_.clear();
  for (size_t place = at_once; place > 0; --place) idle_.push_back(running_[place - 1].get());
}

void NetworkExecution::BeginSlice(Slice& slice) {
  const NetworkProgram& program = *binding_.program;
  const std::vector<NetworkStep>& steps = program.steps();
  slice.number = next_slice_++;
  slice.under_way = true;
  slice.steps_left = steps.size();
  slice.averages_left = 0;
  slice.waits_for.resize(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) slice.waits_for[i] = steps[i].after.size();
  slice.landings.assign(steps.size(), {});
  slice.next_early = 0;
  const size_t scratch_bytes = static_cast<size_t>(ScratchBlocks()) * held_bytes_;
  if (slice.scratch_bytes < scratch_bytes) {
    slice.scratch = std::make_unique_for_overwrite<std::byte[]>(scratch_bytes);
    slice.scratch_bytes = scratch_bytes;
  }
  for (const int step : program.first()) MakeReady(slice, step);
}

// Frees the slice's place for the next one.
void NetworkExecution::EndSlice(Slice& slice) {
  --slices_left_;
  slice.under_way = false;
  idle_.push_back(&slice);
  if (!status_.ok()) return;
  if (binding_.feed != nullptr) binding_.feed->Carried(FirstUnderWay());
  BeginSlices();
}

uint32_t NetworkExecution::FirstUnderWay() const {
  uint32_t first = next_slice_;
  for (const std::unique_ptr<Slice>& slice : running_) {
    if (slice->under_way) first = std::min(first, slice->number);
  }
  return first;
}

// ---------------------------------------------------------------------------------------------
// Steps

void NetworkExecution::MakeReady(Slice& slice, int step) {
  ready_.emplace_back(&slice, step);
  std::push_heap(ready_.begin(), ready_.end(), Later);
}

// The oldest slice's next step comes first: others wait for it, and its memory is needed again.
bool NetworkExecution::Later(const ReadyStep& a, const ReadyStep& b) {
  return std::pair(a.first->number, a.second) > std::pair(b.first->number, b.second);
}

// Launches steps one after the other, however long the chains of steps that end at once, instead of
// recursively.
void NetworkExecution::LaunchReady() {
  if (launching_) return;
  launching_ = true;
  while (!ready_.empty()) {
    std::pop_heap(ready_.begin(), ready_.end(), Later);
    const auto [slice, step] = ready_.back();
    ready_.pop_back();
    if (status_.ok()) Launch(*slice, step);
  }
  ReceiveEarly();
  launching_ = false;
}

void NetworkExecution::Launch(Slice& slice, int step) {
  const NetworkStep& what = StepAt(step);
  // A shorter piece ends in an earlier slice, which both ends of a message know.
  if (ElementsOf(slice, what) == 0) return FinishStep(slice, step);
  switch (what.kind) {
    case StepKind::kReceive:
    case StepKind::kReceiveReduce: return BeginReceive(slice, step);
    case StepKind::kSend: return BeginSend(slice, step);
    case StepKind::kReduce:
    case StepKind::kCopy:
    case StepKind::kExchange: return BeginWork(slice, step);
  }
}

void NetworkExecution::FinishStep(Slice& slice, int step) {
  for (const int successor : StepAt(step).successors) {
    if (--slice.waits_for[static_cast<size_t>(successor)] == 0) {
      MakeReady(slice, successor);
    }
  }
  if (--slice.steps_left > 0) return;
  if (binding_.op == ReduceOperator::kAvg) {
    BeginAveraging(slice);
  } else {
    EndSlice(slice);
  }
}

// ---------------------------------------------------------------------------------------------
// Messages

void NetworkExecution::BeginSend(Slice& slice, int step) {
  const NetworkStep& what = StepAt(step);
  const Block& source = what.sources.front();
  Landing& from = slice.landings[static_cast<size_t>(step)];
  if (from.at == nullptr) {
    const EncodedStep* const encoded = EncodedAt(step);
    const MemoryView buffer = Resolve(slice, encoded == nullptr ? source : encoded->sources[0]);
    if (Scales(source)) {
      from = {TakeLanding(), true};
      return BeginWork(slice, step);  // and comes back
    }
    from = {buffer.address, false};
  }
  ++outstanding_;
  // Computed from the slice alone, so that all hosts state about the same.
  const uint64_t left =
      (slices_ - slice.number) * MessageBytes(binding_.slice_elements) * binding_.program->sends();
  NoteBegun(port_->Send(NameOf(slice, what), {from.at, MessageBytes(ElementsOf(slice, what))}, left,
                        this, TokenOf(slice, step)));
}

void NetworkExecution::BeginReceive(Slice& slice, int step) {
  const NetworkStep& what = StepAt(step);
  Landing& to = slice.landings[static_cast<size_t>(step)];
  if (to.at != nullptr) {
    // The message was received early.
    if (to.there) AfterReceive(slice, step);
    return;
  }
  if (const EncodedStep* const encoded = EncodedAt(step); encoded != nullptr) {
    if (encoded->landing.has_value()) to.at = Resolve(slice, *encoded->landing).address;
  } else if (what.kind == StepKind::kReceive) {
    // Received straight into the first destination that can be reached.
    for (const Block& destination : what.destinations) {
      to.at = Resolve(slice, destination).address;
      if (to.at != nullptr) break;
    }
  }
  if (to.at == nullptr) to = {TakeLanding(), true};
  ++outstanding_;
  NoteBegun(port_->Receive(NameOf(slice, what), {to.at, MessageBytes(ElementsOf(slice, what))},
                           this, TokenOf(slice, step)));
}

// Takes in whether the message that was counted last is under way.
void NetworkExecution::NoteBegun(const Status& begun) {
  if (begun.ok()) return;
  --outstanding_;
  Fail(begun);
}

// Begins with the oldest slice, and with its steps in the order of the program: the other ends send
// in roughly that order.
void NetworkExecution::ReceiveEarly() {
  const std::vector<int>& steps = binding_.program->early();
  if (steps.empty() || !status_.ok()) return;
  const size_t most = std::max<size_t>(kEarlyBytes / std::max<size_t>(landing_bytes_, 1), 1);
  while (early_landings_ < most && status_.ok()) {
    Slice* oldest = nullptr;
    for (const std::unique_ptr<Slice>& slice : running_) {
      if (slice->steps_left == 0 || slice->next_early == steps.size()) continue;
      if (oldest == nullptr || slice->number < oldest->number) oldest = slice.get();
    }
    if (oldest == nullptr) return;
    const int step = steps[oldest->next_early++];
    const bool waits = oldest->waits_for[static_cast<size_t>(step)] > 0;
    if (!waits || ElementsOf(*oldest, StepAt(step)) == 0) continue;
    BeginReceive(*oldest, step);
    oldest->landings[static_cast<size_t>(step)].early = true;
    ++early_landings_;
  }
}

void NetworkExecution::AfterReceive(Slice& slice, int step) {
  const NetworkStep& what = StepAt(step);
  const EncodedStep* const encoded = EncodedAt(step);
  const bool is_there = encoded != nullptr
                            ? encoded->destinations.empty()
                            : what.kind == StepKind::kReceive && what.destinations.size() == 1 &&
                                  !slice.landings[static_cast<size_t>(step)].pooled;
  if (is_there) {
    ReleaseLanding(slice, step);
    return FinishStep(slice, step);
  }
  BeginWork(slice, step);
}

void NetworkExecution::OnMessage(uint64_t token, const Status& status) {
  --outstanding_;
  Slice& slice = *running_[token >> kStepBits];
  const auto step = static_cast<int>(static_cast<uint32_t>(token));
  if (!status.ok()) {
    Fail(status);
  } else if (status_.ok() && StepAt(step).kind == StepKind::kSend) {
    ReleaseLanding(slice, step);
    FinishStep(slice, step);
  } else if (status_.ok() && slice.waits_for[static_cast<size_t>(step)] == 0) {
    AfterReceive(slice, step);
  } else if (status_.ok()) {
    slice.landings[static_cast<size_t>(step)].there = true;
  }
  LaunchReady();
  NoteIfDone();
}

// ---------------------------------------------------------------------------------------------
// Work

void NetworkExecution::BeginWork(Slice& slice, int step) {
  const NetworkStep& what = StepAt(step);
  Work* const work = TakeWork();
  work->slice = &slice;
  work->step = step;
  AddSources(*work);
  const EncodedStep* const encoded = EncodedAt(step);
  if (what.kind == StepKind::kSend) {
    work->outputs.push_back(MemoryView{.address = slice.landings[static_cast<size_t>(step)].at});
  } else {
    for (const Block& block : encoded != nullptr ? encoded->destinations : what.destinations) {
      work->outputs.push_back(Resolve(slice, block));
    }
  }
  const HostProgram* program = encoded != nullptr ? &encoded->work : &what.work;
  if (program->steps.front().kind == StepKind::kCopy && !what.sources.empty() &&
      Scales(what.sources.front())) {
    // The step is not a copy but the sum of one contribution.
    work->scaling = *program;
    work->scaling.steps.front().kind = StepKind::kReduce;
    program = &work->scaling;
  }
  const bool averages = binding_.op == ReduceOperator::kAvg;
  RunWork(work, program, ElementsOf(slice, what), averages ? ReduceOperator::kSum : binding_.op,
          encoded);
}

void NetworkExecution::AddSources(Work& work) {
  const NetworkStep& step = StepAt(work.step);
  const uint64_t one = OneBits(binding_.type);
  if (Receives(step.kind)) {
    work.inputs.push_back(
        MemoryView{.address = work.slice->landings[static_cast<size_t>(work.step)].at});
    work.scalars.push_back(one);
  }
  const EncodedStep* const encoded = EncodedAt(work.step);
  for (const Block& block : encoded != nullptr ? encoded->sources : step.sources) {
    work.inputs.push_back(Resolve(*work.slice, block));
    work.scalars.push_back(Scales(block) ? scalars_[static_cast<size_t>(block.rank)] : one);
  }
}

void NetworkExecution::BeginAveraging(Slice& slice) {
  // One is added while blocks are counted, so that the first cannot end the averaging.
  slice.averages_left = 1;
  for (const Block& block : binding_.program->outputs()) {
    const uint64_t elements = ElementsOf(slice, block);
    if (elements == 0) continue;
    ++slice.averages_left;
    Work* const work = TakeWork();
    work->slice = &slice;
    work->step = kAveraging;
    work->inputs.push_back(Resolve(slice, block));
    work->outputs.push_back(Resolve(slice, block));
    static const HostProgram dividing{.steps = {{.kind = StepKind::kReduce,
                                                 .sources = {InputBlock(0, 0)},
                                                 .destinations = {OutputBlock(0, 0)}}}};
    RunWork(work, &dividing, elements, ReduceOperator::kAvg);
  }
  if (--slice.averages_left == 0) EndSlice(slice);
}

void NetworkExecution::RunWork(Work* work, const HostProgram* program, uint64_t elements,
                               ReduceOperator op, const EncodedStep* encoded) {
  Binding binding;
  binding.program = program;
  binding.type = binding_.type;
  binding.op = op;
  binding.count = elements;
  binding.inputs = work->inputs;
  binding.outputs = work->outputs;
  binding.scalars = work->scalars;
  binding.divisor = binding_.divisor;
  binding.helpable = true;
  binding.shared = work_engine_->shared();
  binding.tenant = binding_.tenant;
  binding.weight = binding_.weight;
  if (encoded != nullptr) {
    binding.encoded = {.format = wire_,
                       .inputs = encoded->encoded_inputs,
                       .outputs = encoded->encoded_outputs,
                       .rounds = encoded->rounds};
  }
  binding.job = binding_.job;
  binding.most_workers = binding_.most_workers;
  binding.sleeps_at_once = binding_.sleeps_at_once;
  const Status bound = work->execution.Bind(binding, work_engine_->machine());
  if (!bound.ok()) {
    free_works_.push_back(work);
    return Fail(bound);
  }
  ++outstanding_;
  const bool tiny = elements * element_bytes_ <= kAtOnceBytes;
  if (tiny && work_engine_->RunAtOnce(&work->execution)) return FinishWork(work);
  work_engine_->Start(&work->execution);
}

void NetworkExecution::OnExecuted(Execution* execution) {
  auto* const work = static_cast<Work*>(execution->cookie);
  NetworkExecution* const owner = work->owner;
  owner->FinishWork(work);
  owner->LaunchReady();
  owner->NoteIfDone();
}

void NetworkExecution::FinishWork(Work* work) {
  --outstanding_;
  free_works_.push_back(work);
  Slice& slice = *work->slice;
  const int step = work->step;
  if (const Status& ended = work->execution.status(); !ended.ok()) {
    return Fail(ended);
  }
  if (!status_.ok()) return;
  if (step == kAveraging) {
    if (--slice.averages_left == 0) EndSlice(slice);
    return;
  }
  if (StepAt(step).kind == StepKind::kSend) return BeginSend(slice, step);
  ReleaseLanding(slice, step);
  FinishStep(slice, step);
}

// ---------------------------------------------------------------------------------------------
// Ends

// A message has a landing from the moment that it may come until its step is done.
std::vector<int> NetworkExecution::AwaitedHosts() const {
  std::set<int> hosts;
  for (const std::unique_ptr<Slice>& slice : running_) {
    if (!slice->under_way) continue;
    for (size_t step = 0; step < slice->landings.size(); ++step) {
      const NetworkStep& what = binding_.program->steps()[step];
      const Landing& landing = slice->landings[step];
      if (Receives(what.kind) && landing.at != nullptr && !landing.there) {
        hosts.insert(what.peer_host);
      }
    }
  }
  return {hosts.begin(), hosts.end()};
}

void NetworkExecution::Cancel(Status reason) {
  if (done()) return;
  Fail(std::move(reason));
  NoteIfDone();
}

void NetworkExecution::Fail(Status status) {
  if (!status_.ok()) return;
  status_ = std::move(status);
  ready_.clear();
  port_->Cancel(binding_.operation);
  for (const std::unique_ptr<Work>& work : all_works_) {
    if (std::find(free_works_.begin(), free_works_.end(), work.get()) == free_works_.end()) {
      work_engine_->Cancel(&work->execution, status_);
    }
  }
}

// ---------------------------------------------------------------------------------------------
// Places

uint64_t NetworkExecution::TokenOf(const Slice& slice, int step) {
  return static_cast<uint64_t>(slice.place) << kStepBits | static_cast<uint32_t>(step);
}

MessageName NetworkExecution::NameOf(const Slice& slice, const NetworkStep& step) const {
  return {.operation = binding_.operation,
          .host = step.peer_host,
          .path = step.path,
          .number = step.message,
          .slice = slice.number,
          .check = binding_.check};
}

uint64_t NetworkExecution::ElementsOf(const Slice& slice, const Block& block) const {
  const uint64_t length = ExtentOf(binding_.count, binding_.program->pieces(), block.index).length;
  const uint64_t first = slice.number * binding_.slice_elements;
  return first < length ? std::min(length - first, binding_.slice_elements) : 0;
}

uint64_t NetworkExecution::ElementsOf(const Slice& slice, const NetworkStep& step) const {
  return ElementsOf(
      slice, step.kind == StepKind::kSend ? step.sources.front() : step.destinations.front());
}

MemoryView NetworkExecution::Resolve(const Slice& slice, const Block& block) const {
  if (block.space == Space::kScratch) {
    return MemoryView{.address =
                          slice.scratch.get() + static_cast<size_t>(block.index) * held_bytes_};
  }
  const std::vector<SlicedBuffer>& buffers = block.space == Space::kInput ? inputs_ : outputs_;
  const SlicedBuffer& buffer = buffers[static_cast<size_t>(block.rank)];
  if (buffer.windowed()) {
    const uint64_t slot = slice.number % binding_.slots;
    return buffer.view.At(slot * buffer.slot_bytes +
                          static_cast<uint64_t>(block.index) * slice_bytes_);
  }
  const uint64_t first = ExtentOf(binding_.count, binding_.program->pieces(), block.index).offset +
                         slice.number * binding_.slice_elements;
  return buffer.view.At(first * element_bytes_);
}

bool NetworkExecution::Scales(const Block& block) const {
  return binding_.op == ReduceOperator::kPreMulSum && block.space == Space::kInput;
}

std::byte* NetworkExecution::TakeLanding() {
  if (free_landings_.empty()) {
    all_landings_.push_back(std::make_unique_for_overwrite<std::byte[]>(landing_bytes_));
    return all_landings_.back().get();
  }
  std::byte* const landing = free_landings_.back();
  free_landings_.pop_back();
  return landing;
}

void NetworkExecution::ReleaseLanding(Slice& slice, int step) {
  Landing& landing = slice.landings[static_cast<size_t>(step)];
  if (landing.pooled) free_landings_.push_back(landing.at);
  if (landing.early) --early_landings_;
  landing = {};
}

NetworkExecution::Work* NetworkExecution::TakeWork() {
  Work* work = nullptr;
  if (free_works_.empty()) {
    all_works_.push_back(std::make_unique<Work>());
    work = all_works_.back().get();
    work->owner = this;
    work->execution.cookie = work;
    work->execution.on_finished = &OnExecuted;
  } else {
    work = free_works_.back();
    free_works_.pop_back();
  }
  work->inputs.clear();
  work->outputs.clear();
  work->scalars.clear();
  return work;
}

size_t NetworkExecution::memory_bytes() const {
  const size_t steps = binding_.program == nullptr ? 0 : binding_.program->steps().size();
  size_t bytes = sizeof(*this) + all_landings_.size() * landing_bytes_ +
                 all_works_.size() * sizeof(Work) +
                 running_.size() * (sizeof(Slice) + steps * (sizeof(size_t) + sizeof(Landing)));
  for (const std::unique_ptr<Slice>& slice : running_) bytes += slice->scratch_bytes;
  return bytes;
}

}  // namespace harmonaize
