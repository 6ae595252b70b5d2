#include "tests/unit/schedule/interpreter.h"

#include <fmt/format.h>

#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace harmonaize {
namespace {

using Words = std::vector<uint64_t>;

/// The buffers of a rank, a word for each block: where they begin in Memory.
struct Buffers {
  size_t input = 0;
  size_t output = 0;
  int input_blocks = 0;
  int output_blocks = 0;
  bool in_place = false;
};

/// What is stated here of buffers is NCCL's documentation, not schedule.cc.
class Memory {
 public:
  Memory(const Schedule& schedule, std::mt19937_64& random) : schedule_(schedule) {
    const auto take = [&](int blocks) {
      const size_t begin = words.size();
      for (int i = 0; i < blocks; ++i) words.push_back(random());
      return begin;
    };
    const int pieces = schedule.pieces;
    for (int rank = 0; rank < schedule.ranks; ++rank) {
      const auto [send, receive] = Units(rank);
      Buffers buffers;
      buffers.input_blocks = send * pieces;
      buffers.output_blocks = receive * pieces;
      buffers.in_place = schedule.in_place && send > 0 && receive > 0 && random() % 2 == 0;
      const auto own = static_cast<size_t>(rank * pieces);
      if (!buffers.in_place) {
        buffers.input = take(buffers.input_blocks);
        buffers.output = take(buffers.output_blocks);
      } else if (receive > send) {
        buffers.output = take(buffers.output_blocks);
        buffers.input = buffers.output + own;
      } else {
        buffers.input = take(buffers.input_blocks);
        buffers.output = buffers.input + (send > receive ? own : 0);
      }
      ranks.push_back(buffers);
    }
    for (const HostProgram& program : schedule.programs) {
      scratch.push_back(take(program.scratch_blocks));
    }
  }

  /// The word of a block, or nothing if there is no such block.
  uint64_t* Find(size_t program, const Block& block) {
    if (block.index < 0) return nullptr;
    const auto index = static_cast<size_t>(block.index);
    if (block.space == Space::kScratch) {
      const bool there = block.index < schedule_.programs[program].scratch_blocks;
      return there ? &words[scratch[program] + index] : nullptr;
    }
    if (block.rank < 0 || block.rank >= schedule_.ranks) return nullptr;
    const auto rank = static_cast<size_t>(block.rank);
    if (schedule_.host_of_rank[rank] != schedule_.programs[program].host) return nullptr;
    const Buffers& buffers = ranks[rank];
    const bool input = block.space == Space::kInput;
    if (block.index >= (input ? buffers.input_blocks : buffers.output_blocks)) return nullptr;
    return &words[(input ? buffers.input : buffers.output) + index];
  }

  Words words;
  std::vector<Buffers> ranks;
  std::vector<size_t> scratch;  // by program

 private:
  std::pair<int, int> Units(int rank) const {
    const int all = schedule_.ranks;
    const bool root = rank == schedule_.root;
    switch (schedule_.collective) {
      case Collective::kAllReduce: return {1, 1};
      case Collective::kReduce: return {1, root ? 1 : 0};
      case Collective::kBroadcast: return {root ? 1 : 0, 1};
      case Collective::kAllGather: return {1, all};
      case Collective::kReduceScatter: return {all, 1};
      case Collective::kAllToAll: return {all, all};
      case Collective::kGather: return {1, root ? all : 0};
      case Collective::kScatter: return {root ? all : 0, 1};
      case Collective::kSend: return {rank == 0 ? 1 : 0, rank == 1 ? 1 : 0};
      case Collective::kReceive: break;
    }
    return {0, 0};
  }

  const Schedule& schedule_;
};

/// What the collective should give: the output words of a rank, from everybody's input words.
Words ExpectedOutput(const Schedule& schedule, const std::vector<Words>& inputs, size_t rank) {
  const auto pieces = static_cast<size_t>(schedule.pieces);
  const auto part = [&](const Words& words, size_t unit) {
    const auto begin = words.begin() + static_cast<std::ptrdiff_t>(unit * pieces);
    return Words(begin, begin + static_cast<std::ptrdiff_t>(pieces));
  };
  const auto sum = [&](size_t unit) {
    Words total(pieces, 0);
    for (const Words& input : inputs) {
      for (size_t i = 0; i < pieces; ++i) total[i] += input[unit * pieces + i];
    }
    return total;
  };
  const auto join = [&](size_t unit) {
    Words all;
    for (const Words& input : inputs) {
      const Words one = part(input, unit);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  };
  const auto root = static_cast<size_t>(schedule.root < 0 ? 0 : schedule.root);
  switch (schedule.collective) {
    case Collective::kAllReduce: return sum(0);
    case Collective::kReduce: return rank == root ? sum(0) : Words{};
    case Collective::kBroadcast: return inputs[root];
    case Collective::kAllGather: return join(0);
    case Collective::kReduceScatter: return sum(rank);
    case Collective::kAllToAll: return join(rank);
    case Collective::kGather: return rank == root ? join(0) : Words{};
    case Collective::kScatter: return part(inputs[root], rank);
    case Collective::kSend: return rank == 1 ? inputs[0] : Words{};
    case Collective::kReceive: break;
  }
  return {};
}

class Run {
 public:
  Run(const Schedule& schedule, std::mt19937_64& random)
      : schedule_(schedule), random_(random), memory_(schedule, random) {
    for (const Buffers& buffers : memory_.ranks) {
      const auto begin = memory_.words.begin() + static_cast<std::ptrdiff_t>(buffers.input);
      inputs_.emplace_back(begin, begin + buffers.input_blocks);
    }
    rendezvous_ = random() % 2 == 0;
    by_priority_ = random() % 2 == 0;
  }

  std::optional<std::string> Go() {
    if (auto wrong = Prepare()) return wrong;
    size_t done = 0;
    while (done < tasks_.size()) {
      Task* task = Choose();
      if (task == nullptr) return "deadlock";
      if (task->state == State::kWaiting) {
        Start(*task);
      } else {
        Finish(*task);
        ++done;
      }
    }
    return Compare();
  }

 private:
  enum class State { kWaiting, kRunning, kDone };
  struct Task {
    const Step* step = nullptr;
    size_t program = 0;
    State state = State::kWaiting;
    Words values;               // read at the start, to be written at the end
    Task* other_end = nullptr;  // of a message
    Task* previous = nullptr;   // message of the same direction, on this side
    std::vector<Task*> after;
    uint64_t priority = 0;
  };

  std::optional<std::string> Prepare() {
    size_t steps = 0;
    for (const HostProgram& program : schedule_.programs) steps += program.steps.size();
    tasks_.reserve(steps);  // tasks point at each other
    // By sender, receiver and path: both ends of its messages.
    std::map<std::tuple<int, int, int>, std::pair<std::vector<Task*>, std::vector<Task*>>>
        directions;
    for (size_t p = 0; p < schedule_.programs.size(); ++p) {
      const HostProgram& program = schedule_.programs[p];
      const size_t first = tasks_.size();
      for (const Step& step : program.steps) {
        Task& task = tasks_.emplace_back();
        task.step = &step;
        task.program = p;
        task.priority = random_();
        for (const int before : step.after) {
          const size_t index = first + static_cast<size_t>(before);
          if (before < 0 || index >= tasks_.size() - 1) return "after a step that is not earlier";
          task.after.push_back(&tasks_[index]);
        }
        if (step.kind == StepKind::kSend) {
          directions[{program.host, step.peer_host, step.path}].first.push_back(&task);
        } else if (step.peer_host >= 0) {
          directions[{step.peer_host, program.host, step.path}].second.push_back(&task);
        }
        if (!BlocksAreThere(task)) return "a block that is not there";
        const bool pairs = step.destinations.size() == step.sources.size();
        if (step.kind == StepKind::kExchange && !pairs) return "an exchange without pairs";
        if (step.kind == StepKind::kSend && step.sources.empty()) return "a send of nothing";
      }
    }
    for (auto& [direction, ends] : directions) {
      auto& [sends, receives] = ends;
      if (sends.size() != receives.size()) return "a message without a match";
      for (size_t i = 0; i < sends.size(); ++i) {
        sends[i]->other_end = receives[i];
        receives[i]->other_end = sends[i];
        if (i == 0) continue;
        sends[i]->previous = sends[i - 1];
        receives[i]->previous = receives[i - 1];
      }
    }
    return std::nullopt;
  }

  bool BlocksAreThere(const Task& task) {
    for (const Block& block : task.step->sources) {
      if (memory_.Find(task.program, block) == nullptr) return false;
    }
    for (const Block& block : task.step->destinations) {
      if (memory_.Find(task.program, block) == nullptr) return false;
    }
    return true;
  }

  bool Possible(const Task& task) const {
    const bool sends = task.step->kind == StepKind::kSend;
    if (task.state == State::kDone) return false;
    if (task.state == State::kRunning) {
      return !sends || !rendezvous_ || task.other_end->state != State::kWaiting;
    }
    for (const Task* before : task.after) {
      if (before->state != State::kDone) return false;
    }
    if (task.previous != nullptr && task.previous->state == State::kWaiting) return false;
    return sends || task.other_end == nullptr || task.other_end->state != State::kWaiting;
  }

  Task* Choose() {
    Task* chosen = nullptr;
    uint64_t seen = 0;
    for (Task& task : tasks_) {
      if (!Possible(task)) continue;
      ++seen;
      const bool better = by_priority_ ? chosen == nullptr || task.priority > chosen->priority
                                       : random_() % seen == 0;
      if (better) chosen = &task;
    }
    return chosen;
  }

  void Start(Task& task) {
    task.state = State::kRunning;
    if (by_priority_) task.priority = random_();  // its end is another event
    if (task.step->kind != StepKind::kSend && task.other_end != nullptr) {
      task.values.push_back(task.other_end->values[0]);
    }
    for (const Block& source : task.step->sources) {
      task.values.push_back(*memory_.Find(task.program, source));
    }
  }

  void Finish(Task& task) {
    task.state = State::kDone;
    uint64_t sum = 0;
    for (const uint64_t value : task.values) sum += value;
    for (size_t i = 0; i < task.step->destinations.size(); ++i) {
      const bool pairwise = task.step->kind == StepKind::kExchange;
      *memory_.Find(task.program, task.step->destinations[i]) = pairwise ? task.values[i] : sum;
    }
  }

  std::optional<std::string> Compare() const {
    for (size_t rank = 0; rank < memory_.ranks.size(); ++rank) {
      const Buffers& buffers = memory_.ranks[rank];
      const Words expected = ExpectedOutput(schedule_, inputs_, rank);
      for (size_t i = 0; i < expected.size(); ++i) {
        if (memory_.words[buffers.output + i] != expected[i]) {
          return fmt::format("output {}[{}] is wrong", rank, i);
        }
      }
      for (size_t i = 0; i < inputs_[rank].size() && !buffers.in_place; ++i) {
        if (memory_.words[buffers.input + i] != inputs_[rank][i]) {
          return fmt::format("input {}[{}] has changed", rank, i);
        }
      }
    }
    return std::nullopt;
  }

  const Schedule& schedule_;
  std::mt19937_64& random_;
  Memory memory_;
  std::vector<Words> inputs_;  // by rank, as they were
  std::vector<Task> tasks_;
  bool rendezvous_ = false;
  bool by_priority_ = false;
};

}  // namespace

std::optional<std::string> RunOnce(const Schedule& schedule, std::mt19937_64& random) {
  return Run(schedule, random).Go();
}

std::optional<std::string> RunOften(const Schedule& schedule, int runs, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int run = 0; run < runs; ++run) {
    if (auto wrong = RunOnce(schedule, random)) return wrong;
  }
  return std::nullopt;
}

}  // namespace harmonaize
