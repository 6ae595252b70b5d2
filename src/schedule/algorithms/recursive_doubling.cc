#include "src/schedule/algorithms/recursive_doubling.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "src/schedule/ir/program_builder.h"

namespace harmonaize {
namespace {

class RecursiveDoubling final : public Outline {
 public:
  RecursiveDoubling(const Problem& problem, std::vector<int> order, int pieces)
      : Outline("recursive doubling", problem, pieces),
        order_(std::move(order)),
        place_of_(order_.size()),
        core_(static_cast<int>(std::bit_floor(order_.size()))),
        turns_(std::bit_width(order_.size()) - 1) {
    for (size_t place = 0; place < order_.size(); ++place) {
      place_of_[static_cast<size_t>(order_[place])] = static_cast<int>(place);
    }
  }

  HostProgram Program(int position) const override;
  Summary Summarize() const override;

 private:
  int hosts() const { return static_cast<int>(order_.size()); }
  int HostAtPlace(int place) const {
    return placement().HostAt(order_[static_cast<size_t>(place)]);
  }
  bool has_guests() const { return hosts() > core_; }
  /// Returns whether the host takes no part, and gives its data to the host `core_` places before.
  bool IsGuest(int place) const { return place >= core_; }
  bool HasGuest(int place) const { return !IsGuest(place) && place + core_ < hosts(); }
  int Partner(int place, int turn) const { return place ^ (1 << turn); }

  int DependentMessages() const;
  void AddPiece(ProgramBuilder& builder, int place, int piece) const;
  void AddGuestsPiece(ProgramBuilder& builder, int place, int piece) const;
  std::vector<Block> Inputs(int place, int piece) const;
  std::vector<Block> Outputs(int place, int piece) const;

  std::vector<int> order_;     // positions, by place
  std::vector<int> place_of_;  // by position
  int core_;
  int turns_;  // among the core
};

std::vector<Block> RecursiveDoubling::Inputs(int place, int piece) const {
  std::vector<Block> blocks;
  for (const int rank : placement().RanksAt(order_[static_cast<size_t>(place)])) {
    blocks.push_back(InputBlock(rank, piece));
  }
  return blocks;
}

std::vector<Block> RecursiveDoubling::Outputs(int place, int piece) const {
  std::vector<Block> blocks;
  for (const int rank : placement().RanksAt(order_[static_cast<size_t>(place)])) {
    blocks.push_back(OutputBlock(rank, piece));
  }
  return blocks;
}

HostProgram RecursiveDoubling::Program(int position) const {
  ProgramBuilder builder(placement().HostAt(position), pieces(), 0);
  const int place = place_of_[static_cast<size_t>(position)];
  for (int piece = 0; piece < pieces(); ++piece) {
    IsGuest(place) ? AddGuestsPiece(builder, place, piece) : AddPiece(builder, place, piece);
  }
  return builder.Take();
}

// Turn 0 is reserved for the guests, whether there are any or not.
void RecursiveDoubling::AddPiece(ProgramBuilder& builder, int place, int piece) const {
  // An exchange never writes the blocks it reads, because the send may take longer than the
  // receive.
  const auto target = [&](int exchanges_left) {
    return exchanges_left == 0 ? Outputs(place, piece)
                               : std::vector<Block>{builder.NewScratch(piece)};
  };
  std::vector<Block> held = target(turns_);
  Step first{.kind = StepKind::kReduce, .sources = Inputs(place, piece), .destinations = held};
  if (HasGuest(place)) {
    first.kind = StepKind::kReceiveReduce;
    first.peer_host = HostAtPlace(place + core_);
  }
  int last = builder.Add(0, piece, std::move(first));
  for (int turn = 0; turn < turns_; ++turn) {
    const int peer = HostAtPlace(Partner(place, turn));
    std::vector<Block> result = target(turns_ - turn - 1);
    builder.Add(
        turn + 1, piece,
        {.kind = StepKind::kSend, .sources = {held.front()}, .peer_host = peer, .after = {last}});
    last = builder.Add(turn + 1, piece,
                       {.kind = StepKind::kReceiveReduce,
                        .sources = {held.front()},
                        .destinations = result,
                        .peer_host = peer,
                        .after = {last}});
    held = std::move(result);
  }
  if (!HasGuest(place)) return;
  builder.Add(turns_ + 1, piece,
              {.kind = StepKind::kSend,
               .sources = {held.front()},
               .peer_host = HostAtPlace(place + core_),
               .after = {last}});
}

void RecursiveDoubling::AddGuestsPiece(ProgramBuilder& builder, int place, int piece) const {
  const int host = HostAtPlace(place - core_);
  const Block partial = builder.NewScratch(piece);
  const int reduce = builder.Add(
      0, piece,
      {.kind = StepKind::kReduce, .sources = Inputs(place, piece), .destinations = {partial}});
  builder.Add(
      0, piece,
      {.kind = StepKind::kSend, .sources = {partial}, .peer_host = host, .after = {reduce}});
  builder.Add(
      turns_ + 1, piece,
      {.kind = StepKind::kReceive, .destinations = Outputs(place, piece), .peer_host = host});
}

// Between two hosts of the core the longest chain has a message for each bit in which their places
// differ, since there is a turn for each; the guests are at the first places.
int RecursiveDoubling::DependentMessages() const {
  if (!has_guests()) return turns_;
  const auto last_with_guest = static_cast<unsigned>(hosts() - core_ - 1);
  return std::max(turns_ + 1, static_cast<int>(std::bit_width(last_with_guest)) + 2);
}

Summary RecursiveDoubling::Summarize() const {
  Summary summary;
  summary.pieces = pieces();
  const auto blocks = static_cast<uint64_t>(pieces());
  const auto turns = static_cast<uint64_t>(turns_);
  const int guests = has_guests() ? 1 : 0;
  summary.dependent_messages = DependentMessages();
  LoadTable loads;
  for (int position = 0; position < hosts(); ++position) {
    const int place = place_of_[static_cast<size_t>(position)];
    const int host = placement().HostAt(position);
    const uint64_t ranks = placement().RanksAt(position).size();
    HostTraffic traffic{.host = host};
    if (IsGuest(place)) {
      const int peer = HostAtPlace(place - core_);
      traffic = {host, blocks * (ranks + 1), blocks * (ranks + 1), blocks, blocks};
      loads.Add({.from_host = host, .to_host = peer, .blocks = blocks, .following = turns_});
      loads.Add({.from_host = peer,
                 .to_host = host,
                 .blocks = blocks,
                 .earliest = turns_,
                 .latest = summary.dependent_messages - 1});
    } else {
      const uint64_t own_guests = HasGuest(place) ? 1 : 0;
      traffic = {host, blocks * (ranks + 2 * turns + own_guests), blocks * (ranks + turns),
                 blocks * (turns + own_guests), blocks * (turns + own_guests)};
    }
    summary.hosts.push_back(traffic);
    for (int turn = 0; turn < turns_ && !IsGuest(place); ++turn) {
      loads.Add({.from_host = host,
                 .to_host = HostAtPlace(Partner(place, turn)),
                 .blocks = blocks,
                 .earliest = turn,
                 .latest = turn + guests,
                 .following = turns_ - 1 - turn});
    }
  }
  summary.loads = loads.Take();
  return summary;
}

}  // namespace

OutlineResult MakeRecursiveDoubling(const Problem& problem, const std::vector<int>& order,
                                    int pieces) {
  HZ_RETURN_IF_ERROR(CheckProblem(problem));
  HZ_RETURN_IF_ERROR(CheckPieces(problem, pieces));
  if (problem.collective != Collective::kAllReduce) {
    return NotCarriedOut("recursive doubling", problem.collective);
  }
  HZ_ASSIGN_OR_RETURN(std::vector<int> positions,
                      HostPlacement(problem.host_of_rank).PositionsOf(order));
  return std::unique_ptr<Outline>(
      std::make_unique<RecursiveDoubling>(problem, std::move(positions), pieces));
}

}  // namespace harmonaize
