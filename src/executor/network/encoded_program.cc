#include "src/executor/network/encoded_program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "src/executor/network/network_program.h"
#include "src/schedule/ir/roundings.h"

namespace harmonaize {
namespace {

/// Writes the steps of an EncodedProgram one after the other.
class EncodedWriter {
 public:
  explicit EncodedWriter(const HostProgram& program)
      : program_(program), use_(UseOfResults(program)) {}

  std::vector<EncodedStep> Write() {
    FindSentOutputs();
    std::vector<EncodedStep> steps;
    for (size_t i = 0; i < program_.steps.size(); ++i) steps.push_back(WriteStep(i));
    return steps;
  }
  int scratch_blocks() const { return static_cast<int>(numbers_.size()); }

 private:
  /// Scratch memory by what it holds: a block of the program as it is, the same in the format, or
  /// what a step has written to outputs, in the format.
  enum class Holds { kPlain, kEncoded, kSentOutput };

  Block Scratch(Holds holds, int index) {
    const auto next = static_cast<int>(numbers_.size());
    return ScratchBlock(numbers_.try_emplace({holds, index}, next).first->second);
  }

  void FindSentOutputs() {
    sends_output_.assign(program_.steps.size(), false);
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      if (step.kind != StepKind::kSend || step.sources[0].space != Space::kOutput) continue;
      sends_output_[static_cast<size_t>(use_.makers[i][0])] = true;
    }
  }

  /// Returns whether the scratch blocks that a step writes are in the format.
  bool EncodesScratch(size_t step) const {
    return use_.sent[step] || program_.steps[step].kind == StepKind::kReceive;
  }

  EncodedStep WriteStep(size_t index) {
    const Step& step = program_.steps[index];
    EncodedStep written;
    const bool receives = Receives(step.kind);
    if (receives) written.encoded_inputs.push_back(1);
    for (size_t i = 0; i < step.sources.size(); ++i) AddSource(index, i, &written);
    if (step.kind == StepKind::kSend) return written;
    if (sends_output_[index]) {
      AddEncoded(Scratch(Holds::kSentOutput, static_cast<int>(index)), &written);
    }
    for (const Block& block : step.destinations) AddDestination(index, block, &written);
    if (step.kind == StepKind::kReceive) LandMessage(&written);
    written.rounds = step.kind != StepKind::kReceive && WritesOutput(step);
    NumberWork(&written);
    return written;
  }

  void AddSource(size_t index, size_t number, EncodedStep* written) {
    const Step& step = program_.steps[index];
    const Block& source = step.sources[number];
    const int maker = use_.makers[index][number];
    Block block = source;
    bool encoded = false;
    if (source.space == Space::kScratch) {
      encoded = maker >= 0 && EncodesScratch(static_cast<size_t>(maker));
      block = Scratch(encoded ? Holds::kEncoded : Holds::kPlain, source.index);
    } else if (step.kind == StepKind::kSend) {
      encoded = true;
      block = Scratch(Holds::kSentOutput, maker);
    }
    written->sources.push_back(block);
    written->encoded_inputs.push_back(encoded ? 1 : 0);
  }

  static void AddEncoded(const Block& block, EncodedStep* written) {
    written->destinations.push_back(block);
    written->encoded_outputs.push_back(1);
  }

  void AddDestination(size_t index, const Block& block, EncodedStep* written) {
    if (block.space == Space::kScratch && EncodesScratch(index)) {
      return AddEncoded(Scratch(Holds::kEncoded, block.index), written);
    }
    const bool scratch = block.space == Space::kScratch;
    written->destinations.push_back(scratch ? Scratch(Holds::kPlain, block.index) : block);
    written->encoded_outputs.push_back(0);
  }

  /// Has the message of a receive arrive in the first block that is to hold it as it comes.
  static void LandMessage(EncodedStep* written) {
    if (written->encoded_outputs.empty() || written->encoded_outputs.front() == 0) return;
    written->landing = written->destinations.front();
    written->destinations.erase(written->destinations.begin());
    written->encoded_outputs.erase(written->encoded_outputs.begin());
  }

  static void NumberWork(EncodedStep* written) {
    Step work{.kind = StepKind::kReduce};
    for (size_t i = 0; i < written->encoded_inputs.size(); ++i) {
      work.sources.push_back(InputBlock(static_cast<int>(i), 0));
    }
    for (size_t i = 0; i < written->destinations.size(); ++i) {
      work.destinations.push_back(OutputBlock(static_cast<int>(i), 0));
    }
    written->work.steps.push_back(std::move(work));
  }

  const HostProgram& program_;
  const ResultUse use_;
  std::vector<bool> sends_output_;  // by step
  std::map<std::pair<Holds, int>, int> numbers_;
};

bool CanBeEncoded(const HostProgram& program) {
  return std::none_of(program.steps.begin(), program.steps.end(), [](const Step& step) {
    const bool sends_input = step.kind == StepKind::kSend && step.sources[0].space == Space::kInput;
    return sends_input || step.kind == StepKind::kExchange;
  });
}

}  // namespace

std::unique_ptr<const EncodedProgram> EncodedProgram::Make(const HostProgram& program) {
  if (!CanBeEncoded(program)) return nullptr;
  EncodedWriter writer(program);
  std::unique_ptr<EncodedProgram> made(new EncodedProgram());
  made->steps_ = writer.Write();
  made->scratch_blocks_ = writer.scratch_blocks();
  return made;
}

size_t EncodedProgram::memory_bytes() const {
  size_t bytes = sizeof(*this) + steps_.size() * (sizeof(EncodedStep) + sizeof(Step));
  for (const EncodedStep& step : steps_) {
    bytes += 2 * (step.sources.size() + step.destinations.size()) * (sizeof(Block) + 1);
  }
  return bytes;
}

}  // namespace harmonaize
