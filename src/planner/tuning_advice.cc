#include "src/planner/tuning_advice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "src/base/collective.h"
#include "src/planner/planner.h"

namespace harmonaize {
namespace {

/// How many times as fast as any other kind of schedule one has to be to be taken where NCCL tells
/// no costs of its own.
constexpr double kFasterByFar = 1.5;
/// How many times as long as stated a collective has to take before fewer channels are advised.
constexpr double kSlowTimes = 2;
/// The smallest size, in bytes, whose channels are advised: below it latency counts.
constexpr uint64_t kLeastChannelBytes = uint64_t{1} << 20;
/// Bytes per second that a channel carries at the least, on any GPU of the last ten years.
constexpr double kChannelBytesPerSecond = 4e9;
/// Most channels that NCCL has.
constexpr int kMostChannels = 64;

/// Bytes on the wire for a byte of data, by protocol: LL sends a flag of 4 bytes with each 4 bytes,
/// LL128 one of 8 with each 120.
constexpr std::array<double, kTunedProtocols> kWireShares = {2.0, 128.0 / 120.0, 1.0};

/// By NcclFunction.
constexpr std::array<Collective, kTunedFunctions> kCollectives = {
    Collective::kBroadcast, Collective::kReduce, Collective::kAllGather, Collective::kReduceScatter,
    Collective::kAllReduce};

constexpr size_t CellOf(int function, int size) {
  return static_cast<size_t>(function * kTunedSizes + size);
}
constexpr size_t FactorOf(int function, int size, int family, int protocol) {
  return (CellOf(function, size) * kTuningFamilies + static_cast<size_t>(family)) *
             kTunedProtocols +
         static_cast<size_t>(protocol);
}
constexpr size_t kCells = CellOf(kTunedFunctions, 0);
constexpr size_t kFactors = FactorOf(kTunedFunctions, 0, 0, 0);

constexpr uint64_t BytesOf(int size) {
  return kLeastTunedBytes << (2 * size);
}

/// Returns the algorithm that stands for a family; "": NCCL has none of that family.
std::string_view AlgorithmFor(Collective collective, TuningFamily family) {
  const bool has_root = HasRoot(collective);
  switch (family) {
    case TuningFamily::kRing: return has_root ? "chain" : "ring";
    case TuningFamily::kTree:
      return collective == Collective::kAllReduce ? "double-binary-tree" : "";
    case TuningFamily::kLogarithmic:
      return has_root || collective == Collective::kAllReduce ? "" : "circulant";
  }
  return "";
}

/// Predicted seconds of one collective, size and family, by protocol.
using Seconds = std::array<double, kTunedProtocols>;
/// The same by family; nullopt: NCCL has none of that family.
using OfFamilies = std::array<std::optional<Seconds>, kTuningFamilies>;
/// The same by size.
using OfSizes = std::array<OfFamilies, kTunedSizes>;

/// Predicts all sizes of a collective on one model.
Result<OfSizes> PredictAll(const FabricModel& model, const std::vector<int>& hosts,
                           Collective collective, const NetworkCosts& costs) {
  const bool has_root = HasRoot(collective);
  const bool cuts =
      collective == Collective::kAllGather || collective == Collective::kReduceScatter;
  // NCCL tells the bytes of all ranks together, and a schedule's unit is the part of one.
  const uint64_t parts = cuts ? hosts.size() : 1;
  OfSizes all;
  for (int family = 0; family < kTuningFamilies; ++family) {
    const std::string_view name = AlgorithmFor(collective, static_cast<TuningFamily>(family));
    if (name.empty()) continue;
    PlannerOptions options{.policy = PlanPolicy::kFixed, .costs = costs};
    options.fixed = {.algorithm = FindAlgorithm(name),
                     .order = {.name = "given", .hosts = hosts},
                     .paths = PathUse::kWeighted};
    HZ_ASSIGN_OR_RETURN(const Planner planner, Planner::Make(model,
                                                             {.collective = collective,
                                                              .host_of_rank = hosts,
                                                              .root = has_root ? 0 : -1,
                                                              .in_place = true},
                                                             options));
    for (int size = 0; size < kTunedSizes; ++size) {
      Seconds& seconds = all[static_cast<size_t>(size)][static_cast<size_t>(family)].emplace();
      for (size_t protocol = 0; protocol < seconds.size(); ++protocol) {
        const double bytes = kWireShares[protocol] * static_cast<double>(BytesOf(size) / parts);
        const auto unit = std::max<uint64_t>(1, static_cast<uint64_t>(bytes));
        seconds[protocol] = planner.PlanFor(unit).plans.front().prediction.seconds;
      }
    }
  }
  return all;
}

/// Calls `visit(family, stated, now)` for each family that NCCL has.
template <typename Visit>
void ForFamilies(const OfFamilies& stated, const OfFamilies& now, const Visit& visit) {
  for (size_t family = 0; family < stated.size(); ++family) {
    if (stated[family].has_value() && now[family].has_value()) {
      visit(family, *stated[family], *now[family]);
    }
  }
}

void SetFactors(const OfFamilies& stated, const OfFamilies& now, int function, int size,
                std::vector<double>* factors) {
  double least = std::numeric_limits<double>::infinity();
  const auto ratio = [](const Seconds& before, const Seconds& after, size_t protocol) {
    return after[protocol] / before[protocol];
  };
  ForFamilies(stated, now, [&](size_t, const Seconds& before, const Seconds& after) {
    for (size_t one = 0; one < before.size(); ++one)
      least = std::min(least, ratio(before, after, one));
  });
  ForFamilies(stated, now, [&](size_t family, const Seconds& before, const Seconds& after) {
    for (size_t one = 0; one < before.size(); ++one) {
      const double factor = ratio(before, after, one) / least;
      (*factors)[FactorOf(function, size, static_cast<int>(family), static_cast<int>(one))] =
          std::isfinite(factor) ? std::clamp(factor, 1.0, kMostTuningFactor) : 1.0;
    }
  });
}

/// Returns the family that takes the least time.
size_t FastestOf(const OfFamilies& seconds) {
  size_t best = 0;
  for (size_t family = 1; family < seconds.size(); ++family) {
    if (!seconds[family].has_value()) continue;
    if (!seconds[best].has_value() ||
        (*seconds[family])[kNcclSimple] < (*seconds[best])[kNcclSimple]) {
      best = family;
    }
  }
  return best;
}

int FamilyFor(const OfFamilies& stated, const OfFamilies& now) {
  const size_t before = FastestOf(stated);
  const size_t after = FastestOf(now);
  const bool by_far = kFasterByFar * (*now[after])[kNcclSimple] < (*now[before])[kNcclSimple];
  return by_far ? static_cast<int>(after) : -1;
}

// Channels beyond those that fill the links take processors of the GPU that could compute.
int ChannelsFor(const OfFamilies& stated, const OfFamilies& now, uint64_t bytes,
                Collective collective) {
  if (bytes < kLeastChannelBytes) return 0;
  const double before = (*stated[FastestOf(stated)])[kNcclSimple];
  const double after = (*now[FastestOf(now)])[kNcclSimple];
  if (after < kSlowTimes * before) return 0;
  const double crossings = collective == Collective::kAllReduce ? 2 : 1;
  const double rate = crossings * static_cast<double>(bytes) / after;
  return std::clamp(static_cast<int>(std::ceil(rate / kChannelBytesPerSecond)), 1, kMostChannels);
}

double RatioOf(double one, double other) {
  return one > other ? one / other : other / one;
}

/// Returns the family that predicts an algorithm of NCCL's; -1: none, so the least factor of all
/// holds.
int FamilyOf(int algorithm) {
  switch (algorithm) {
    case kNcclTree:
    case kNcclNvlsTree: return static_cast<int>(TuningFamily::kTree);
    case kNcclRing: return static_cast<int>(TuningFamily::kRing);
    case kNcclPat: return static_cast<int>(TuningFamily::kLogarithmic);
    default: return -1;  // CollNet and NVLS reduce in switches
  }
}

int16_t AlgorithmOf(int family) {
  switch (family) {
    case static_cast<int>(TuningFamily::kRing): return kNcclRing;
    case static_cast<int>(TuningFamily::kTree): return kNcclTree;
    case static_cast<int>(TuningFamily::kLogarithmic): return kNcclPat;
    default: return -1;
  }
}

}  // namespace

std::string_view TuningFamilyName(TuningFamily family) {
  switch (family) {
    case TuningFamily::kRing: return "ring";
    case TuningFamily::kTree: return "tree";
    case TuningFamily::kLogarithmic: return "logarithmic";
  }
  return "?";
}

TuningAdvice NoTuningAdvice() {
  return {.factors = std::vector<double>(kFactors, 1.0),
          .channels = std::vector<int>(kCells, 0),
          .families = std::vector<int>(kCells, -1)};
}

bool IsSoundAdvice(const TuningAdvice& advice) {
  const auto in = [](const auto& list, auto least, auto most) {
    return std::all_of(list.begin(), list.end(),
                       [&](auto one) { return one >= least && one <= most; });
  };
  return advice.factors.size() == kFactors && advice.channels.size() == kCells &&
         advice.families.size() == kCells && in(advice.factors, 1.0, kMostTuningFactor) &&
         in(advice.channels, 0, kMostChannels) && in(advice.families, -1, kTuningFamilies - 1);
}

TuningTable TableOf(const TuningAdvice& advice) {
  TuningTable table{};
  for (int function = 0; function < kTunedFunctions; ++function) {
    for (int size = 0; size < kTunedSizes; ++size) {
      TuningCell& cell = table.cells[function][size];
      for (int algorithm = 0; algorithm < kTunedAlgorithms; ++algorithm) {
        const int family = FamilyOf(algorithm);
        for (int protocol = 0; protocol < kTunedProtocols; ++protocol) {
          cell.factors[algorithm][protocol] =
              family < 0
                  ? 1.0F
                  : static_cast<float>(advice.factors[FactorOf(function, size, family, protocol)]);
        }
      }
      cell.channels = advice.channels[CellOf(function, size)];
      cell.algorithm = AlgorithmOf(advice.families[CellOf(function, size)]);
      cell.protocol = cell.algorithm < 0 ? int16_t{-1} : int16_t{kNcclSimple};
    }
  }
  return table;
}

double DifferenceOf(const TuningAdvice& one, const TuningAdvice& other) {
  double difference = 1;
  for (size_t i = 0; i < kFactors; ++i) {
    difference = std::max(difference, RatioOf(one.factors[i], other.factors[i]));
  }
  for (size_t i = 0; i < kCells; ++i) {
    // NCCL's own number of channels is not known, and stands for the most.
    const auto channels = [](int count) { return count == 0 ? kMostChannels : count; };
    difference =
        std::max(difference, RatioOf(channels(one.channels[i]), channels(other.channels[i])));
    if (one.families[i] != other.families[i]) difference = std::max(difference, kFasterByFar);
  }
  return difference;
}

Result<TuningAdvice> AdviseTuning(const FabricModel& stated, const FabricModel& now,
                                  const std::vector<int>& hosts, const NetworkCosts& costs) {
  if (hosts.size() < 2) return InvalidArgument("a communicator on one host uses no network");
  TuningAdvice advice = NoTuningAdvice();
  for (int function = 0; function < kTunedFunctions; ++function) {
    const Collective collective = kCollectives[static_cast<size_t>(function)];
    HZ_ASSIGN_OR_RETURN(const OfSizes before, PredictAll(stated, hosts, collective, costs));
    HZ_ASSIGN_OR_RETURN(const OfSizes after, PredictAll(now, hosts, collective, costs));
    for (int size = 0; size < kTunedSizes; ++size) {
      const auto index = static_cast<size_t>(size);
      SetFactors(before[index], after[index], function, size, &advice.factors);
      const size_t cell = CellOf(function, size);
      advice.families[cell] = FamilyFor(before[index], after[index]);
      advice.channels[cell] = ChannelsFor(before[index], after[index], BytesOf(size), collective);
    }
  }
  return advice;
}

}  // namespace harmonaize
