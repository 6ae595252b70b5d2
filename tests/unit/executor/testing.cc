#include "tests/unit/executor/testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/schedule/algorithms/one_host.h"

namespace harmonaize {
namespace {

// Behind every buffer, to see who writes too far.
constexpr uint64_t kGuardElements = 16;
constexpr int32_t kGuard = 0x5a5a5a5a;

std::vector<int32_t> ReadAll(const MemoryView& buffer, uint64_t elements) {
  std::vector<int32_t> values(elements);
  if (elements > 0) std::memcpy(values.data(), buffer.address, elements * sizeof(int32_t));
  return values;
}

void WriteAll(const MemoryView& buffer, const std::vector<int32_t>& values) {
  if (!values.empty()) std::memcpy(buffer.address, values.data(), values.size() * sizeof(int32_t));
}

}  // namespace

TestExecutor::TestExecutor(int workers, size_t cache_bytes, size_t last_level_bytes)
    : TestExecutor(Executor::Options{.workers = workers,
                                     .cache_bytes = cache_bytes,
                                     .last_level_bytes = last_level_bytes,
                                     // All workers take part, whatever the machine has.
                                     .processors = kMaxWorkers}) {}

TestExecutor::TestExecutor(Executor::Options options) {
  options.wake_owner = [this] {
    wakes_.fetch_add(1, std::memory_order_release);
    wakes_.notify_one();
  };
  Result<std::unique_ptr<Executor>> executor = Executor::Create(std::move(options));
  EXPECT_TRUE(executor.ok()) << executor.status().ToString();
  if (executor.ok()) executor_ = std::move(*executor);
}

Execution* TestExecutor::Wait() {
  for (;;) {
    const uint32_t seen = wakes_.load(std::memory_order_acquire);
    if (Execution* execution = executor_->TakeFinished()) return execution;
    wakes_.wait(seen, std::memory_order_acquire);
  }
}

Execution* TestExecutor::HelpUntilFinished() {
  while (executor_->Help()) {
  }
  return Wait();
}

std::string CollectiveCase::ToString() const {
  return fmt::format("{} ranks={} root={} count={}{}", CollectiveName(collective), ranks, root,
                     count, in_place ? " in place" : "");
}

CollectiveRun::CollectiveRun(const CollectiveCase& test_case)
    : case_(test_case),
      schedule_(
          OneHost(test_case.collective, test_case.ranks, test_case.root, test_case.in_place)) {
  for (int rank = 0; rank < case_.ranks; ++rank) AllocateRank(rank);
  for (const Place& place : inputs_) input_buffers_.push_back(place.buffer);
  for (const Place& place : outputs_) output_buffers_.push_back(place.buffer);
}

uint64_t CollectiveRun::InputElements(int rank) const {
  return static_cast<uint64_t>(InputBlocks(schedule_, rank)) * case_.count;
}

uint64_t CollectiveRun::OutputElements(int rank) const {
  return static_cast<uint64_t>(OutputBlocks(schedule_, rank)) * case_.count;
}

// `shift` elements past a 64-byte boundary: buffers of different alignment.
CollectiveRun::Place CollectiveRun::Allocate(uint64_t elements, uint64_t shift) {
  Place place;
  place.elements = elements;
  const uint64_t whole = elements + kGuardElements + 16;
  memory_.push_back(std::make_unique<int32_t[]>(whole));
  place.buffer.address = reinterpret_cast<std::byte*>(memory_.back().get() + shift);
  return place;
}

void CollectiveRun::AllocateRank(int rank) {
  const auto shift = static_cast<uint64_t>(rank % 4);
  const uint64_t inputs = InputElements(rank);
  const uint64_t outputs = OutputElements(rank);
  const bool joined =
      case_.in_place && inputs > 0 && outputs > 0 && !IsPointToPoint(case_.collective);
  if (!joined) {
    inputs_.push_back(Allocate(inputs, shift));
    outputs_.push_back(Allocate(outputs, shift));
    return;
  }
  const Place whole = Allocate(std::max(inputs, outputs), shift);
  const uint64_t offset = static_cast<uint64_t>(rank) * case_.count * sizeof(int32_t);
  Place input = whole;
  Place output = whole;
  if (inputs < outputs) input.buffer = whole.buffer.At(offset);
  if (outputs < inputs) output.buffer = whole.buffer.At(offset);
  input.elements = inputs;
  output.elements = outputs;
  inputs_.push_back(input);
  outputs_.push_back(output);
}

int32_t CollectiveRun::Value(int rank, uint64_t element) const {
  return static_cast<int32_t>((element * 2654435761u) ^ (static_cast<uint64_t>(rank + 1) * 40503u) ^
                              (static_cast<uint64_t>(round_) * 97u));
}

void CollectiveRun::Fill(int round) {
  round_ = round;
  const auto fill = [](const Place& place, auto value) {
    std::vector<int32_t> values;
    for (uint64_t i = 0; i < place.elements; ++i) values.push_back(value(i));
    values.insert(values.end(), kGuardElements, kGuard);
    WriteAll(place.buffer, values);
  };
  for (const Place& output : outputs_) fill(output, [](uint64_t) { return -1; });
  for (int rank = 0; rank < case_.ranks; ++rank) {
    const Place& input = inputs_[static_cast<size_t>(rank)];
    std::vector<int32_t> values(input.elements);
    for (uint64_t i = 0; i < input.elements; ++i) values[i] = Value(rank, i);
    // In place, an input in the middle of an output has no guard of its own.
    WriteAll(input.buffer, values);
    const Place& output = outputs_[static_cast<size_t>(rank)];
    if (!case_.in_place || output.elements < input.elements) {
      WriteAll(input.buffer.At(input.elements * sizeof(int32_t)),
               std::vector<int32_t>(kGuardElements, kGuard));
    }
  }
}

Status CollectiveRun::Bind(Execution& execution, const Machine& machine, bool helpable, int node) {
  Binding binding;
  static_cast<Operands&>(binding) = terms;
  binding.program = &schedule_.programs[0];
  binding.pieces = schedule_.pieces;
  binding.type = DataType::kInt32;
  binding.op = ReduceOperator::kSum;
  binding.count = case_.count;
  binding.inputs = input_buffers_;
  binding.outputs = output_buffers_;
  binding.helpable = helpable;
  binding.node = node;
  return execution.Bind(binding, machine);
}

int32_t CollectiveRun::Expected(int rank, uint64_t element) const {
  const uint64_t unit = element / case_.count;
  const uint64_t within = element % case_.count;
  const auto from = static_cast<int>(unit);
  const uint64_t own = static_cast<uint64_t>(rank) * case_.count + within;
  const auto sum = [&](uint64_t at) {
    uint32_t total = 0;
    for (int r = 0; r < case_.ranks; ++r) total += static_cast<uint32_t>(Value(r, at));
    return static_cast<int32_t>(total);
  };
  switch (case_.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce: return sum(within);
    case Collective::kReduceScatter: return sum(own);
    case Collective::kBroadcast: return Value(case_.root, within);
    case Collective::kAllGather:
    case Collective::kGather: return Value(from, within);
    case Collective::kAllToAll: return Value(from, own);
    case Collective::kScatter: return Value(case_.root, own);
    case Collective::kSend:
    case Collective::kReceive: return Value(0, within);
  }
  return 0;
}

std::string CollectiveRun::Check() const {
  for (int rank = 0; rank < case_.ranks; ++rank) {
    const Place& place = outputs_[static_cast<size_t>(rank)];
    // Behind a reduce-scatter's or scatter's output in place lies more of the input.
    const bool guarded = !case_.in_place || place.elements >= InputElements(rank);
    const std::vector<int32_t> values =
        ReadAll(place.buffer, place.elements + (guarded ? kGuardElements : 0));
    for (uint64_t i = 0; i < values.size(); ++i) {
      const int32_t expected = i < place.elements ? Expected(rank, i) : kGuard;
      if (values[i] != expected) {
        return fmt::format("{}: rank {} element {} is {}, expected {}", case_.ToString(), rank, i,
                           values[i], expected);
      }
    }
    if (case_.in_place || InputElements(rank) == 0) continue;
    const std::vector<int32_t> input =
        ReadAll(inputs_[static_cast<size_t>(rank)].buffer, InputElements(rank));
    for (uint64_t i = 0; i < input.size(); ++i) {
      if (input[i] != Value(rank, i)) {
        return fmt::format("{}: the input of rank {} was changed at {}", case_.ToString(), rank, i);
      }
    }
  }
  return "";
}

}  // namespace harmonaize
