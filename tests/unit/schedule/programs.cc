#include "tests/unit/schedule/programs.h"

#include <algorithm>
#include <utility>

namespace harmonaize {
namespace {

class Builder {
 public:
  Builder(std::string name, Collective collective, const std::vector<int>& ranks_per_host,
          int pieces, bool in_place) {
    schedule_.name = std::move(name);
    schedule_.collective = collective;
    schedule_.pieces = pieces;
    schedule_.in_place = in_place;
    for (int host = 0; host < static_cast<int>(ranks_per_host.size()); ++host) {
      schedule_.programs.push_back({host, 0, {}});
      ranks_.emplace_back();
      for (int i = 0; i < ranks_per_host[static_cast<size_t>(host)]; ++i) {
        ranks_.back().push_back(schedule_.ranks++);
        schedule_.host_of_rank.push_back(host);
      }
    }
  }

  int hosts() const { return static_cast<int>(ranks_.size()); }
  const std::vector<int>& RanksOf(int host) const { return ranks_[static_cast<size_t>(host)]; }
  int Around(int host) const { return (host % hosts() + hosts()) % hosts(); }

  std::vector<Block> Inputs(int host, int index) const {
    std::vector<Block> blocks;
    for (const int rank : RanksOf(host)) blocks.push_back(InputBlock(rank, index));
    return blocks;
  }
  std::vector<Block> Outputs(int host, int index) const {
    std::vector<Block> blocks;
    for (const int rank : RanksOf(host)) blocks.push_back(OutputBlock(rank, index));
    return blocks;
  }

  void SetScratch(int blocks) {
    for (HostProgram& program : schedule_.programs) program.scratch_blocks = blocks;
  }

  /// Returns the index of the new step in the host's program.
  int Add(int host, Step step) {
    auto& steps = schedule_.programs[static_cast<size_t>(host)].steps;
    steps.push_back(std::move(step));
    return static_cast<int>(steps.size()) - 1;
  }

  Schedule Take() { return std::move(schedule_); }

 private:
  Schedule schedule_;
  std::vector<std::vector<int>> ranks_;  // by host
};

/// A block and the step of the same host that made what it holds.
struct Held {
  Block block;
  int step = -1;
};

std::vector<int> After(int step) {
  return step < 0 ? std::vector<int>{} : std::vector<int>{step};
}

}  // namespace

Schedule RingAllReduce(const std::vector<int>& ranks_per_host, bool in_place) {
  const int hosts = static_cast<int>(ranks_per_host.size());
  Builder builder("ring", Collective::kAllReduce, ranks_per_host, hosts, in_place);
  builder.SetScratch(hosts);
  std::vector<Held> held;  // by host: what it passes on next
  for (int host = 0; host < hosts; ++host) {
    const Block partial = ScratchBlock(host);
    held.push_back({partial, builder.Add(host, {.kind = StepKind::kReduce,
                                                .sources = builder.Inputs(host, host),
                                                .destinations = {partial}})});
  }
  for (int turn = 0; turn < 2 * (hosts - 1); ++turn) {
    std::vector<Held> next = held;
    for (int host = 0; host < hosts; ++host) {
      const int to = builder.Around(host + 1);
      const Held& mine = held[static_cast<size_t>(host)];
      const int piece = mine.block.index;
      builder.Add(host, {.kind = StepKind::kSend,
                         .sources = {mine.block},
                         .peer_host = to,
                         .after = {mine.step}});
      const bool reducing = turn < hosts - 1;
      const bool complete = turn >= hosts - 2;
      Step receive{.kind = reducing ? StepKind::kReceiveReduce : StepKind::kReceive,
                   .sources = reducing ? builder.Inputs(to, piece) : std::vector<Block>{},
                   .destinations = complete ? builder.Outputs(to, piece)
                                            : std::vector<Block>{ScratchBlock(piece)},
                   .peer_host = host};
      const Block holds = receive.destinations[0];
      next[static_cast<size_t>(to)] = {holds, builder.Add(to, std::move(receive))};
    }
    held = next;
  }
  return builder.Take();
}

Schedule RingAllGather(const std::vector<int>& ranks_per_host, bool in_place) {
  const int hosts = static_cast<int>(ranks_per_host.size());
  Builder builder("ring", Collective::kAllGather, ranks_per_host, 1, in_place);
  std::vector<std::vector<Held>> held(ranks_per_host.size());  // by host: what it passes on next
  for (int host = 0; host < hosts; ++host) {
    for (const int rank : builder.RanksOf(host)) {
      const std::vector<Block> outputs = builder.Outputs(host, rank);
      const int copy = builder.Add(
          host,
          {.kind = StepKind::kCopy, .sources = {InputBlock(rank, 0)}, .destinations = outputs});
      held[static_cast<size_t>(host)].push_back({outputs[0], copy});
    }
  }
  for (int turn = 0; turn < hosts - 1; ++turn) {
    std::vector<std::vector<Held>> next(held.size());
    for (int host = 0; host < hosts; ++host) {
      const int to = builder.Around(host + 1);
      for (const Held& mine : held[static_cast<size_t>(host)]) {
        builder.Add(host, {.kind = StepKind::kSend,
                           .sources = {mine.block},
                           .peer_host = to,
                           .after = {mine.step}});
        const std::vector<Block> outputs = builder.Outputs(to, mine.block.index);
        const int receive = builder.Add(
            to, {.kind = StepKind::kReceive, .destinations = outputs, .peer_host = host});
        next[static_cast<size_t>(to)].push_back({outputs[0], receive});
      }
    }
    held = next;
  }
  return builder.Take();
}

Schedule RingReduceScatter(const std::vector<int>& ranks_per_host, bool in_place, int slots) {
  const int hosts = static_cast<int>(ranks_per_host.size());
  const int most = *std::max_element(ranks_per_host.begin(), ranks_per_host.end());
  Builder builder("ring", Collective::kReduceScatter, ranks_per_host, 1, in_place);
  builder.SetScratch(slots * most);
  // By host: what travels, in the order of the ranks that it is for; and who sent from a slot last.
  std::vector<std::vector<Held>> held(ranks_per_host.size());
  std::vector<std::vector<int>> sent(ranks_per_host.size(),
                                     std::vector<int>(static_cast<size_t>(slots * most), -1));
  for (int host = 0; host < hosts; ++host) {
    int slot = 0;
    for (const int rank : builder.RanksOf(builder.Around(host - 1))) {
      const Block partial = ScratchBlock(slot++);
      const int reduce = builder.Add(host, {.kind = StepKind::kReduce,
                                            .sources = builder.Inputs(host, rank),
                                            .destinations = {partial}});
      held[static_cast<size_t>(host)].push_back({partial, reduce});
    }
  }
  for (int turn = 0; turn < hosts - 1; ++turn) {
    // All sends of a turn stand before its receives, so that one slot set can be waited for.
    for (int host = 0; host < hosts; ++host) {
      for (const Held& mine : held[static_cast<size_t>(host)]) {
        sent[static_cast<size_t>(host)][static_cast<size_t>(mine.block.index)] =
            builder.Add(host, {.kind = StepKind::kSend,
                               .sources = {mine.block},
                               .peer_host = builder.Around(host + 1),
                               .after = {mine.step}});
      }
    }
    std::vector<std::vector<Held>> next(held.size());
    for (int host = 0; host < hosts; ++host) {
      const int owner = builder.Around(host - 2 - turn);
      int slot = (turn + 1) % slots * most;
      for (const int rank : builder.RanksOf(owner)) {
        const bool complete = owner == host;
        const Block target = complete ? OutputBlock(rank, 0) : ScratchBlock(slot);
        const int free = complete ? -1 : sent[static_cast<size_t>(host)][static_cast<size_t>(slot)];
        const int receive = builder.Add(host, {.kind = StepKind::kReceiveReduce,
                                               .sources = builder.Inputs(host, rank),
                                               .destinations = {target},
                                               .peer_host = builder.Around(host - 1),
                                               .after = After(free)});
        next[static_cast<size_t>(host)].push_back({target, receive});
        ++slot;
      }
    }
    held = next;
  }
  return builder.Take();
}

Schedule ChainAllReduce(const std::vector<int>& ranks_per_host, bool in_place) {
  const int hosts = static_cast<int>(ranks_per_host.size());
  const int last = hosts - 1;
  Builder builder("chain", Collective::kAllReduce, ranks_per_host, 1, in_place);
  builder.SetScratch(1);
  Held held{ScratchBlock(0), builder.Add(0, {.kind = StepKind::kReduce,
                                             .sources = builder.Inputs(0, 0),
                                             .destinations = {ScratchBlock(0)}})};
  const auto send = [&](int from, int to) {
    builder.Add(
        from,
        {.kind = StepKind::kSend, .sources = {held.block}, .peer_host = to, .after = {held.step}});
  };
  for (int host = 1; host < hosts; ++host) {
    send(host - 1, host);
    Step receive{.kind = StepKind::kReceiveReduce,
                 .sources = builder.Inputs(host, 0),
                 .destinations =
                     host == last ? builder.Outputs(host, 0) : std::vector<Block>{ScratchBlock(0)},
                 .peer_host = host - 1};
    held.block = receive.destinations[0];
    held.step = builder.Add(host, std::move(receive));
  }
  for (int host = last - 1; host >= 0; --host) {
    send(host + 1, host);
    Step receive{.kind = StepKind::kReceive,
                 .destinations = builder.Outputs(host, 0),
                 .peer_host = host + 1};
    held.block = receive.destinations[0];
    held.step = builder.Add(host, std::move(receive));
  }
  return builder.Take();
}

}  // namespace harmonaize
