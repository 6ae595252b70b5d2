#include "src/schedule/check/validate.h"

#include <algorithm>
#include <limits>
#include <set>

namespace harmonaize {
namespace {

/// Later passes number steps and blocks with int.
constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int>::max());

bool IsMessage(StepKind kind) {
  return kind == StepKind::kSend || kind == StepKind::kReceive || kind == StepKind::kReceiveReduce;
}

Status ValidateHead(const Schedule& schedule) {
  const auto collective = static_cast<int>(schedule.collective);
  if (collective >= kCollectiveCount || schedule.collective == Collective::kReceive) {
    return InternalError("collective {} has no schedules of its own", collective);
  }
  if (schedule.ranks < 1) return InternalError("{} ranks", schedule.ranks);
  if (schedule.collective == Collective::kSend && schedule.ranks != 2) {
    return InternalError("a send has 2 ranks, not {}", schedule.ranks);
  }
  if (schedule.pieces < 1) return InternalError("{} pieces", schedule.pieces);
  if (static_cast<uint64_t>(schedule.ranks) * static_cast<uint64_t>(schedule.pieces) > kLargest) {
    return InternalError("{} ranks with {} pieces are too many blocks", schedule.ranks,
                         schedule.pieces);
  }
  const bool root_in_range = schedule.root >= 0 && schedule.root < schedule.ranks;
  if (HasRoot(schedule.collective) ? !root_in_range : schedule.root != -1) {
    return InternalError("root {} of {} ranks", schedule.root, schedule.ranks);
  }
  if (schedule.host_of_rank.size() != static_cast<size_t>(schedule.ranks)) {
    return InternalError("{} ranks, but hosts of {}", schedule.ranks, schedule.host_of_rank.size());
  }
  return Status::Ok();
}

Status ValidateHosts(const Schedule& schedule) {
  std::set<int> hosts;
  uint64_t blocks = 0;
  uint64_t steps = 0;
  for (const HostProgram& program : schedule.programs) {
    if (program.host < 0) return InternalError("a program of host {}", program.host);
    if (!hosts.insert(program.host).second) {
      return InternalError("host {} has two programs", program.host);
    }
    if (program.scratch_blocks < 0) {
      return InternalError("host {} has {} scratch blocks", program.host, program.scratch_blocks);
    }
    blocks += static_cast<uint64_t>(program.scratch_blocks);
    steps += program.steps.size();
  }
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const int host = schedule.host_of_rank[static_cast<size_t>(rank)];
    if (!hosts.contains(host))
      return InternalError("host {} of rank {} has no program", host, rank);
    blocks += static_cast<uint64_t>(InputBlocks(schedule, rank));
    blocks += static_cast<uint64_t>(OutputBlocks(schedule, rank));
  }
  if (blocks > kLargest || steps > kLargest) {
    return InternalError("{} blocks and {} steps are too many", blocks, steps);
  }
  return Status::Ok();
}

/// Checks one step.
class StepValidator {
 public:
  StepValidator(const Schedule& schedule, const std::set<int>& hosts, const HostProgram& program,
                int index)
      : schedule_(schedule),
        hosts_(hosts),
        program_(program),
        index_(index),
        step_(program.steps[static_cast<size_t>(index)]) {}

  Status Run() const {
    if (static_cast<int>(step_.kind) >= kStepKindCount) {
      return InternalError("host {} step {} is of the unknown kind {}", program_.host, index_,
                           static_cast<int>(step_.kind));
    }
    HZ_RETURN_IF_ERROR(Shape());
    HZ_RETURN_IF_ERROR(Peer());
    for (const Block& block : step_.sources) HZ_RETURN_IF_ERROR(InRange(block));
    for (const Block& block : step_.destinations) {
      HZ_RETURN_IF_ERROR(InRange(block));
      if (block.space == Space::kInput) {
        return InternalError("{} writes {}, an input", Name(), Describe(block));
      }
    }
    HZ_RETURN_IF_ERROR(OnePiece());
    return After();
  }

 private:
  std::string Name() const { return StepName(program_, index_); }

  bool CountsFit() const {
    const size_t sources = step_.sources.size();
    const size_t destinations = step_.destinations.size();
    switch (step_.kind) {
      case StepKind::kReduce:
      case StepKind::kReceiveReduce: return sources >= 1 && destinations >= 1;
      case StepKind::kCopy: return sources == 1 && destinations >= 1;
      case StepKind::kExchange: return sources >= 1 && destinations == sources;
      case StepKind::kSend: return sources == 1 && destinations == 0;
      case StepKind::kReceive: return sources == 0 && destinations >= 1;
    }
    return false;
  }

  Status Shape() const {
    if (!CountsFit()) {
      return InternalError("{} has {} sources and {} destinations", Name(), step_.sources.size(),
                           step_.destinations.size());
    }
    const bool reduces = step_.kind == StepKind::kReduce || step_.kind == StepKind::kReceiveReduce;
    if (reduces && !Reduces(schedule_.collective)) {
      return InternalError("{} reduces, but {} has no operator", Name(),
                           CollectiveName(schedule_.collective));
    }
    return Status::Ok();
  }

  Status Peer() const {
    if (!IsMessage(step_.kind)) {
      if (step_.peer_host == -1 && step_.path == -1) return Status::Ok();
      return InternalError("{} names the peer host {} and the path {} without a message", Name(),
                           step_.peer_host, step_.path);
    }
    if (step_.path < -1) return InternalError("{} takes path {}", Name(), step_.path);
    if (!hosts_.contains(step_.peer_host) || step_.peer_host == program_.host) {
      return InternalError("{} has host {} as its peer, which is not another host", Name(),
                           step_.peer_host);
    }
    return Status::Ok();
  }

  Status InRange(const Block& block) const {
    int blocks = 0;
    switch (block.space) {
      case Space::kScratch: blocks = program_.scratch_blocks; break;
      case Space::kInput:
      case Space::kOutput:
        if (block.rank < 0 || block.rank >= schedule_.ranks) {
          return InternalError("{} names {}: no such rank", Name(), Describe(block));
        }
        if (schedule_.host_of_rank[static_cast<size_t>(block.rank)] != program_.host) {
          return InternalError("{} names {}: the rank is on another host", Name(), Describe(block));
        }
        blocks = block.space == Space::kInput ? InputBlocks(schedule_, block.rank)
                                              : OutputBlocks(schedule_, block.rank);
        break;
      default: return InternalError("{} names a block in no known space", Name());
    }
    if (block.index < 0 || block.index >= blocks) {
      return InternalError("{} names {}: out of range, there are {} blocks", Name(),
                           Describe(block), blocks);
    }
    return Status::Ok();
  }

  Status OnePiece() const {
    const Block& first = step_.sources.empty() ? step_.destinations[0] : step_.sources[0];
    for (const std::vector<Block>* blocks : {&step_.sources, &step_.destinations}) {
      for (const Block& block : *blocks) {
        if (block.index % schedule_.pieces != first.index % schedule_.pieces) {
          return InternalError("{} mixes {} and {}, which are different pieces", Name(),
                               Describe(first), Describe(block));
        }
      }
    }
    return Status::Ok();
  }

  Status After() const {
    for (const int before : step_.after) {
      if (before < 0 || before >= index_) {
        return InternalError("{} is after step {}, which is not an earlier one", Name(), before);
      }
    }
    return Status::Ok();
  }

  const Schedule& schedule_;
  const std::set<int>& hosts_;
  const HostProgram& program_;
  const int index_;
  const Step& step_;
};

}  // namespace

std::string StepName(const HostProgram& program, int step) {
  return fmt::format("host {} step {} ({})", program.host, step,
                     StepKindName(program.steps[static_cast<size_t>(step)].kind));
}

Status Validate(const Schedule& schedule) {
  HZ_RETURN_IF_ERROR(ValidateHead(schedule));
  HZ_RETURN_IF_ERROR(ValidateHosts(schedule));
  std::set<int> hosts;
  for (const HostProgram& program : schedule.programs) hosts.insert(program.host);
  for (const HostProgram& program : schedule.programs) {
    for (size_t i = 0; i < program.steps.size(); ++i) {
      HZ_RETURN_IF_ERROR(StepValidator(schedule, hosts, program, static_cast<int>(i)).Run());
    }
  }
  return Status::Ok();
}

}  // namespace harmonaize
