#include "src/executor/network/network_program.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace harmonaize {
namespace {

StepKind WorkOf(StepKind kind) {
  switch (kind) {
    case StepKind::kReduce:
    case StepKind::kReceiveReduce: return StepKind::kReduce;
    case StepKind::kExchange: return StepKind::kExchange;
    case StepKind::kCopy:
    case StepKind::kSend:
    case StepKind::kReceive: break;
  }
  return StepKind::kCopy;
}

HostProgram MakeWork(const Step& step) {
  Step work;
  work.kind = WorkOf(step.kind);
  const size_t sources = step.sources.size() + (Receives(step.kind) ? 1 : 0);
  const size_t destinations = step.kind == StepKind::kSend ? 1 : step.destinations.size();
  for (size_t i = 0; i < sources; ++i) work.sources.push_back(InputBlock(static_cast<int>(i), 0));
  for (size_t i = 0; i < destinations; ++i) {
    work.destinations.push_back(OutputBlock(static_cast<int>(i), 0));
  }
  HostProgram program;
  program.steps.push_back(std::move(work));
  return program;
}

}  // namespace

NetworkProgram::NetworkProgram(const HostProgram& program, int pieces, Messages messages)
    : pieces_(pieces), scratch_blocks_(program.scratch_blocks) {
  steps_.reserve(program.steps.size());
  for (const Step& step : program.steps) {
    const int index = static_cast<int>(steps_.size());
    if (step.after.empty()) {
      first_.push_back(index);
    } else if (step.kind == StepKind::kReceiveReduce) {
      early_.push_back(index);
    }
    for (const int earlier : step.after) {
      steps_[static_cast<size_t>(earlier)].successors.push_back(index);
    }
    if (step.kind == StepKind::kSend) ++sends_;
    steps_.push_back({step, 0, {}, MakeWork(step)});
  }
  NumberMessages();
  CollectOutputs();
  if (messages == Messages::kPlainOrEncoded) encoded_ = EncodedProgram::Make(program);
  CountMemory();
}

void NetworkProgram::NumberMessages() {
  std::map<std::tuple<int, int, bool>, uint32_t> next;
  for (NetworkStep& step : steps_) {
    if (step.peer_host < 0) continue;
    step.message = next[{step.peer_host, step.path, Receives(step.kind)}]++;
  }
}

void NetworkProgram::CollectOutputs() {
  for (const NetworkStep& step : steps_) {
    for (const Block& block : step.destinations) {
      if (block.space == Space::kOutput) outputs_.push_back(block);
    }
  }
  const auto place = [](const Block& block) { return std::pair(block.rank, block.index); };
  std::sort(outputs_.begin(), outputs_.end(),
            [&](const Block& a, const Block& b) { return place(a) < place(b); });
  outputs_.erase(std::unique(outputs_.begin(), outputs_.end()), outputs_.end());
}

void NetworkProgram::CountMemory() {
  memory_bytes_ = steps_.size() * sizeof(NetworkStep) + outputs_.size() * sizeof(Block);
  for (const NetworkStep& step : steps_) {
    memory_bytes_ += (step.successors.size() + step.after.size()) * sizeof(int) +
                     2 * (step.sources.size() + step.destinations.size()) * sizeof(Block) +
                     sizeof(Step);
  }
  if (encoded_ != nullptr) memory_bytes_ += encoded_->memory_bytes();
}

}  // namespace harmonaize
