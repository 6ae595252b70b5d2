#include "src/schedule/algorithms/all_to_all.h"

#include <algorithm>
#include <utility>

#include "src/schedule/ir/program_builder.h"

namespace harmonaize {
namespace {

/// Staged blocks are sent in the turn in which they are staged, so two turns later they are free.
constexpr int kReuseDistance = 2;

/// Adds the blocks that do not leave their host. Where a rank is in place, the two blocks of a pair
/// lie on each other's places, as in OneHost.
void AddLocal(const Outline& outline, int position, ProgramBuilder& builder) {
  const std::vector<int>& ranks = outline.placement().RanksAt(position);
  const int pieces = outline.pieces();
  const auto copy = [&](int from, int to, int piece) {
    builder.Add(0, 0,
                {.kind = StepKind::kCopy,
                 .sources = {InputBlock(from, to * pieces + piece)},
                 .destinations = {OutputBlock(to, from * pieces + piece)}});
  };
  for (size_t i = 0; i < ranks.size(); ++i) {
    for (int piece = 0; piece < pieces; ++piece) copy(ranks[i], ranks[i], piece);
    for (size_t j = i + 1; j < ranks.size(); ++j) {
      for (int piece = 0; piece < pieces; ++piece) {
        const int a = ranks[i];
        const int b = ranks[j];
        if (!outline.problem().in_place) {
          copy(a, b, piece);
          copy(b, a, piece);
          continue;
        }
        builder.Add(
            0, 0,
            {.kind = StepKind::kExchange,
             .sources = {InputBlock(a, b * pieces + piece), InputBlock(b, a * pieces + piece)},
             .destinations = {OutputBlock(b, a * pieces + piece),
                              OutputBlock(a, b * pieces + piece)}});
      }
    }
  }
}

/// Names one block by its two ranks and its piece.
struct Passage {
  int from = 0;
  int to = 0;
  int piece = 0;
};

/// Calls visit(passage) for each block that goes from the ranks of one host to those of another, in
/// the order in which the blocks travel.
template <typename Visit>
void ForEachPassage(const Outline& outline, int from_position, int to_position, Visit visit) {
  for (const int from : outline.placement().RanksAt(from_position)) {
    for (const int to : outline.placement().RanksAt(to_position)) {
      for (int piece = 0; piece < outline.pieces(); ++piece) visit(Passage{from, to, piece});
    }
  }
}

Block SourceOf(const Passage& passage, int pieces) {
  return InputBlock(passage.from, passage.to * pieces + passage.piece);
}
Block DestinationOf(const Passage& passage, int pieces) {
  return OutputBlock(passage.to, passage.from * pieces + passage.piece);
}

Summary EmptySummary(const Outline& outline) {
  Summary summary;
  summary.pieces = outline.pieces();
  for (int position = 0; position < outline.placement().hosts(); ++position) {
    const uint64_t ranks = outline.placement().RanksAt(position).size();
    const uint64_t own = ranks * ranks * static_cast<uint64_t>(outline.pieces());
    summary.hosts.push_back(
        {.host = outline.placement().HostAt(position), .read = own, .written = own});
  }
  return summary;
}

class DirectAllToAll final : public Outline {
 public:
  DirectAllToAll(const Problem& problem, int pieces)
      : Outline("direct all-to-all", problem, pieces) {}

  HostProgram Program(int position) const override {
    ProgramBuilder builder(placement().HostAt(position), pieces(), kReuseDistance);
    AddLocal(*this, position, builder);
    for (int other = 0; other < placement().hosts(); ++other) {
      if (other == position) continue;
      if (problem().in_place) {
        AddPair(builder, std::min(position, other), std::max(position, other), position);
      } else {
        AddSends(builder, position, other);
        AddReceives(builder, other, position);
      }
    }
    return builder.Take();
  }

  Summary Summarize() const override {
    Summary summary = EmptySummary(*this);
    LoadTable loads;
    for (int from = 0; from < placement().hosts(); ++from) {
      for (int to = 0; to < placement().hosts(); ++to) {
        if (from == to) continue;
        const uint64_t blocks = placement().RanksAt(from).size() * placement().RanksAt(to).size() *
                                static_cast<uint64_t>(pieces());
        loads.Add(placement().HostAt(from), placement().HostAt(to), -1, blocks);
        HostTraffic& sender = summary.hosts[static_cast<size_t>(from)];
        const bool stages = problem().in_place && from > to;
        sender.sent += blocks;
        sender.read += stages ? 2 * blocks : blocks;
        sender.written += stages ? blocks : 0;
        summary.hosts[static_cast<size_t>(to)].received += blocks;
        summary.hosts[static_cast<size_t>(to)].written += blocks;
      }
    }
    summary.loads = loads.Take();
    summary.dependent_messages = placement().hosts() > 1 ? 1 : 0;
    return summary;
  }

 private:
  int Rotation(int from, int to) const {
    return (to - from + placement().hosts()) % placement().hosts();
  }

  /// Returns the round in which two hosts meet (the circle method): all others rotate around the
  /// last one, whose place is empty if the number of hosts is odd.
  int Round(int lower, int higher) const {
    const int circle = (placement().hosts() + 1) / 2 * 2 - 1;
    return (higher == circle ? 2 * lower : lower + higher) % circle;
  }

  void AddSends(ProgramBuilder& builder, int from, int to) const {
    ForEachPassage(*this, from, to, [&](const Passage& passage) {
      builder.Add(Rotation(from, to), 0,
                  {.kind = StepKind::kSend,
                   .sources = {SourceOf(passage, pieces())},
                   .peer_host = placement().HostAt(to)});
    });
  }

  void AddReceives(ProgramBuilder& builder, int from, int to) const {
    ForEachPassage(*this, from, to, [&](const Passage& passage) {
      builder.Add(Rotation(from, to), 0,
                  {.kind = StepKind::kReceive,
                   .destinations = {DestinationOf(passage, pieces())},
                   .peer_host = placement().HostAt(from)});
    });
  }

  /// Adds the blocks that two hosts exchange in place. The lower one sends before it receives; the
  /// higher one stages what it sends, so that it can receive at once.
  void AddPair(ProgramBuilder& builder, int lower, int higher, int position) const {
    const int turn = 1 + Round(lower, higher);
    int flow = 0;
    ForEachPassage(*this, lower, higher, [&](const Passage& up) {
      const Passage down{up.to, up.from, up.piece};
      if (position == lower) {
        const int send = builder.Add(turn, flow,
                                     {.kind = StepKind::kSend,
                                      .sources = {SourceOf(up, pieces())},
                                      .peer_host = placement().HostAt(higher)});
        builder.Add(turn, flow,
                    {.kind = StepKind::kReceive,
                     .destinations = {DestinationOf(down, pieces())},
                     .peer_host = placement().HostAt(higher),
                     .after = {send}});
      } else {
        const Block staged = builder.NewScratch(up.piece);
        const int copy = builder.Add(turn, flow,
                                     {.kind = StepKind::kCopy,
                                      .sources = {SourceOf(down, pieces())},
                                      .destinations = {staged}});
        builder.Add(turn, flow,
                    {.kind = StepKind::kReceive,
                     .destinations = {DestinationOf(up, pieces())},
                     .peer_host = placement().HostAt(lower),
                     .after = {copy}});
        builder.Add(turn, flow,
                    {.kind = StepKind::kSend,
                     .sources = {staged},
                     .peer_host = placement().HostAt(lower),
                     .after = {copy}});
      }
      ++flow;
    });
  }
};

/// Turns up to the largest group's size are inside groups, those from there on between groups.
class TwoLevelAllToAll final : public Outline {
 public:
  TwoLevelAllToAll(const Problem& problem, std::vector<std::vector<int>> groups, int pieces)
      : Outline("two-level all-to-all", problem, pieces), groups_(std::move(groups)) {
    places_.resize(static_cast<size_t>(placement().hosts()));
    for (size_t group = 0; group < groups_.size(); ++group) {
      largest_ = std::max(largest_, Size(static_cast<int>(group)));
      for (size_t i = 0; i < groups_[group].size(); ++i) {
        places_[static_cast<size_t>(groups_[group][i])] = {static_cast<int>(group),
                                                           static_cast<int>(i)};
      }
    }
  }

  HostProgram Program(int position) const override;
  Summary Summarize() const override;

 private:
  struct Place {
    int group = 0;
    int number = 0;
  };

  const Place& PlaceOf(int position) const { return places_[static_cast<size_t>(position)]; }
  int Size(int group) const { return static_cast<int>(groups_[static_cast<size_t>(group)].size()); }

  /// Returns the host of `from`'s group that sends to `to`: `to` itself inside a group.
  int Gateway(int from, int to) const {
    const Place& place = PlaceOf(from);
    if (place.group == PlaceOf(to).group) return to;
    return groups_[static_cast<size_t>(place.group)]
                  [static_cast<size_t>(PlaceOf(to).number % Size(place.group))];
  }

  int TurnWithin(int from, int to) const {
    const int size = Size(PlaceOf(from).group);
    return (PlaceOf(to).number - PlaceOf(from).number + size) % size;
  }
  int TurnAcross(int from, int to) const {
    const int groups = static_cast<int>(groups_.size());
    return largest_ + (PlaceOf(to).group - PlaceOf(from).group + groups) % groups;
  }

  void AddOwn(ProgramBuilder& builder, int position) const;
  void AddTransit(ProgramBuilder& builder, int position) const;
  void AddArrivals(ProgramBuilder& builder, int position) const;

  std::vector<std::vector<int>> groups_;  // positions
  std::vector<Place> places_;             // by position
  int largest_ = 0;
};

// A direction inside a group carries, ordered by the destination's position, what is for that host
// and what it passes on; one between groups what the sender's group has for the destination,
// ordered by the origin's number. The number of the destination, or of the origin, is the flow.

void TwoLevelAllToAll::AddOwn(ProgramBuilder& builder, int position) const {
  for (int to = 0; to < placement().hosts(); ++to) {
    if (to == position) continue;
    const int gateway = Gateway(position, to);
    const bool across = gateway == position;
    const int peer = across ? to : gateway;
    ForEachPassage(*this, position, to, [&](const Passage& passage) {
      builder.Add(across ? TurnAcross(position, to) : TurnWithin(position, peer),
                  across ? PlaceOf(position).number : to,
                  {.kind = StepKind::kSend,
                   .sources = {SourceOf(passage, pieces())},
                   .peer_host = placement().HostAt(peer)});
    });
  }
}

void TwoLevelAllToAll::AddTransit(ProgramBuilder& builder, int position) const {
  for (const int from : groups_[static_cast<size_t>(PlaceOf(position).group)]) {
    if (from == position) continue;
    for (int to = 0; to < placement().hosts(); ++to) {
      const bool passes = PlaceOf(to).group != PlaceOf(from).group && Gateway(from, to) == position;
      if (!passes) continue;
      ForEachPassage(*this, from, to, [&](const Passage& passage) {
        const Block held = builder.NewScratch(passage.piece);
        const int receive = builder.Add(TurnWithin(from, position), to,
                                        {.kind = StepKind::kReceive,
                                         .destinations = {held},
                                         .peer_host = placement().HostAt(from)});
        builder.Add(TurnAcross(position, to), PlaceOf(from).number,
                    {.kind = StepKind::kSend,
                     .sources = {held},
                     .peer_host = placement().HostAt(to),
                     .after = {receive}});
      });
    }
  }
}

void TwoLevelAllToAll::AddArrivals(ProgramBuilder& builder, int position) const {
  for (int from = 0; from < placement().hosts(); ++from) {
    if (from == position) continue;
    const bool within = PlaceOf(from).group == PlaceOf(position).group;
    const int peer = within ? from : Gateway(from, position);
    ForEachPassage(*this, from, position, [&](const Passage& passage) {
      builder.Add(within ? TurnWithin(from, position) : TurnAcross(peer, position),
                  within ? position : PlaceOf(from).number,
                  {.kind = StepKind::kReceive,
                   .destinations = {DestinationOf(passage, pieces())},
                   .peer_host = placement().HostAt(peer)});
    });
  }
}

HostProgram TwoLevelAllToAll::Program(int position) const {
  ProgramBuilder builder(placement().HostAt(position), pieces(), 0);
  AddLocal(*this, position, builder);
  AddOwn(builder, position);
  AddTransit(builder, position);
  AddArrivals(builder, position);
  return builder.Take();
}

Summary TwoLevelAllToAll::Summarize() const {
  Summary summary = EmptySummary(*this);
  LoadTable loads;
  const auto send = [&](int from, int to, uint64_t blocks) {
    loads.Add(placement().HostAt(from), placement().HostAt(to), -1, blocks);
    summary.hosts[static_cast<size_t>(from)].sent += blocks;
    summary.hosts[static_cast<size_t>(from)].read += blocks;
    summary.hosts[static_cast<size_t>(to)].received += blocks;
    summary.hosts[static_cast<size_t>(to)].written += blocks;
  };
  for (int from = 0; from < placement().hosts(); ++from) {
    for (int to = 0; to < placement().hosts(); ++to) {
      if (from == to) continue;
      const uint64_t blocks = placement().RanksAt(from).size() * placement().RanksAt(to).size() *
                              static_cast<uint64_t>(pieces());
      const int gateway = Gateway(from, to);
      if (gateway != from && gateway != to) {
        send(from, gateway, blocks);
        send(gateway, to, blocks);
        summary.dependent_messages = 2;
      } else {
        send(from, to, blocks);
        summary.dependent_messages = std::max(summary.dependent_messages, 1);
      }
    }
  }
  summary.loads = loads.Take();
  return summary;
}

}  // namespace

OutlineResult MakeDirectAllToAll(const Problem& problem, int pieces) {
  HZ_RETURN_IF_ERROR(CheckProblem(problem));
  HZ_RETURN_IF_ERROR(CheckPieces(problem, pieces));
  if (problem.collective != Collective::kAllToAll) {
    return NotCarriedOut("a direct all-to-all", problem.collective);
  }
  return std::unique_ptr<Outline>(std::make_unique<DirectAllToAll>(problem, pieces));
}

OutlineResult MakeTwoLevelAllToAll(const Problem& problem,
                                   const std::vector<std::vector<int>>& groups, int pieces) {
  HZ_RETURN_IF_ERROR(CheckProblem(problem));
  HZ_RETURN_IF_ERROR(CheckPieces(problem, pieces));
  if (problem.collective != Collective::kAllToAll) {
    return NotCarriedOut("a two-level all-to-all", problem.collective);
  }
  if (problem.in_place) {
    return InvalidArgument("a two-level all-to-all is not carried out in place; the direct one is");
  }
  const HostPlacement placement(problem.host_of_rank);
  HZ_ASSIGN_OR_RETURN(std::vector<std::vector<int>> positions, placement.PositionsOfGroups(groups));
  return std::unique_ptr<Outline>(
      std::make_unique<TwoLevelAllToAll>(problem, std::move(positions), pieces));
}

}  // namespace harmonaize
