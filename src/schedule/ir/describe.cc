#include <fmt/format.h>

#include <iterator>

#include "src/schedule/ir/schedule.h"

namespace harmonaize {
namespace {

void AppendBlocks(std::string& line, const std::vector<Block>& blocks) {
  for (const Block& block : blocks) line.append(" ").append(Describe(block));
}

std::string PathSuffix(const Step& step) {
  return step.path >= 0 ? fmt::format(" by path {}", step.path) : std::string();
}

void AppendHost(std::string& text, const Schedule& schedule, const HostProgram& program) {
  auto out = std::back_inserter(text);
  fmt::format_to(out, "host {}: ranks", program.host);
  for (size_t rank = 0; rank < schedule.host_of_rank.size(); ++rank) {
    if (schedule.host_of_rank[rank] == program.host) fmt::format_to(out, " {}", rank);
  }
  fmt::format_to(out, "; scratch blocks: {}\n", program.scratch_blocks);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    fmt::format_to(out, "  {:>3}  {}\n", i, Describe(program.steps[i]));
  }
}

}  // namespace

const char* StepKindName(StepKind kind) {
  switch (kind) {
    case StepKind::kReduce: return "reduce";
    case StepKind::kCopy: return "copy";
    case StepKind::kExchange: return "exchange";
    case StepKind::kSend: return "send";
    case StepKind::kReceive: return "receive";
    case StepKind::kReceiveReduce: return "receive-reduce";
  }
  return "unknown";
}

std::string Describe(const Block& block) {
  switch (block.space) {
    case Space::kInput: return fmt::format("input {}[{}]", block.rank, block.index);
    case Space::kOutput: return fmt::format("output {}[{}]", block.rank, block.index);
    case Space::kScratch: return fmt::format("scratch[{}]", block.index);
  }
  return "unknown";
}

std::string Describe(const Step& step) {
  std::string line = StepKindName(step.kind);
  if (step.kind == StepKind::kReceive || step.kind == StepKind::kReceiveReduce) {
    line += fmt::format(" from host {}", step.peer_host) + PathSuffix(step);
  }
  AppendBlocks(line, step.sources);
  if (step.kind == StepKind::kSend) {
    line += fmt::format(" to host {}", step.peer_host) + PathSuffix(step);
  }
  if (!step.destinations.empty()) line += " ->";
  AppendBlocks(line, step.destinations);
  if (!step.after.empty()) line += fmt::format(" after {}", fmt::join(step.after, " "));
  return line;
}

std::string Describe(const Schedule& schedule) {
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{} {} of {} ranks on {} hosts", schedule.name,
                 CollectiveName(schedule.collective), schedule.ranks, schedule.programs.size());
  if (schedule.root >= 0) fmt::format_to(out, ", root {}", schedule.root);
  fmt::format_to(out, ", {} pieces, {}\n", schedule.pieces,
                 schedule.in_place ? "in place or not" : "not in place");
  for (const HostProgram& program : schedule.programs) AppendHost(text, schedule, program);
  return text;
}

}  // namespace harmonaize
