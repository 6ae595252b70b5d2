#include "src/planner/cost_rounds.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "src/base/clock.h"

namespace harmonaize {
namespace {

/// Two rounds agree on a cost if they differ by no more than this factor. Predictions of the two
/// paths cross at a size that is right within a factor of about two, so closer is not needed. Rates
/// of copies differed by 1.6 from round to round on a virtual machine.
constexpr double kAgreement = 2;

/// Rounds that agree with each other, and by that overrule one that is better than they are. A
/// round can be too good as well: one that wakes threads that have not fallen asleep yet.
constexpr int kOverrule = 3;

/// Rounds measured where all agree: any one may be spoilt, and the other two agree.
constexpr size_t kRounds = 3;
/// Rounds measured at most.
constexpr size_t kMostRounds = 5;
/// No further round begins once this time has passed, apart from the second.
constexpr uint64_t kEnoughNanoseconds = 400'000'000;
/// The pause between two rounds: longer than a burst of another program that hits the end of a
/// round, and short beside a daemon's start.
constexpr std::chrono::milliseconds kPause(20);

bool IsRate(const HostCostField& field) {
  return field.name.ends_with("_per_second");
}

/// The plausible values of a cost, best first.
std::vector<double> ValuesOf(const HostCostField& field, std::span<const HostCosts> rounds) {
  std::vector<double> values;
  for (const HostCosts& round : rounds) {
    if (Plausible(field, round.*field.value)) values.push_back(round.*field.value);
  }
  std::sort(values.begin(), values.end());
  if (IsRate(field)) std::reverse(values.begin(), values.end());
  return values;
}

int CountNear(double best, const std::vector<double>& values) {
  return static_cast<int>(std::count_if(values.begin(), values.end(), [&](double value) {
    return std::max(best / value, value / best) <= kAgreement;
  }));
}

/// Sets one cost from the rounds, and records the doubt about it, if any.
void JudgeCost(const HostCostField& field, std::span<const HostCosts> rounds,
               MeasuredCosts* measured) {
  CostEvidence& evidence = measured->evidence;
  const std::vector<double> values = ValuesOf(field, rounds);
  if (values.empty()) {
    measured->costs.*field.value = field.typical;
    evidence.agreed = 0;
    evidence.doubts.push_back(
        fmt::format("{} was {:.3g}, possible are {:.3g} to {:.3g}: {:.3g} stands in", field.name,
                    rounds.front().*field.value, field.least, field.most, field.typical));
    return;
  }
  double best = values.front();
  int near = CountNear(best, values);
  if (near == 1 && values.size() > 1 && CountNear(values[1], values) >= kOverrule) {
    best = values[1];
    near = CountNear(best, values);
  }
  measured->costs.*field.value = best;
  evidence.agreed = std::min(evidence.agreed, near);
  if (near >= 2 || rounds.size() < 2) return;
  std::vector<std::string> texts;
  for (const HostCosts& round : rounds) texts.push_back(fmt::format("{:.3g}", round.*field.value));
  evidence.doubts.push_back(
      fmt::format("no two rounds agree on {}: {}", field.name, fmt::join(texts, ", ")));
}

}  // namespace

MeasuredCosts JudgeRounds(std::span<const HostCosts> rounds, const HostLoad& load) {
  MeasuredCosts measured;
  CostEvidence& evidence = measured.evidence;
  evidence.rounds = evidence.agreed = static_cast<int>(rounds.size());
  evidence.load = load;
  if (load.heavy()) evidence.doubts.push_back("other programs kept the host busy");
  if (rounds.size() < 2) evidence.doubts.push_back("there was one round only");
  for (const HostCostField& field : kHostCostFields) JudgeCost(field, rounds, &measured);
  return measured;
}

Result<MeasuredCosts> MeasureInRounds(const RoundMeans& means, const GoOn& go_on) {
  const uint64_t start = MonotonicNanoseconds();
  std::vector<HostCosts> rounds;
  Result<HostLoad> load = means.look();
  while (true) {
    if (!load.ok()) return load.status();
    HZ_ASSIGN_OR_RETURN(const HostCosts round, means.measure([&] { return go_on(*load); }));
    rounds.push_back(round);
    load = means.look();
    if (!load.ok()) return load.status();
    if (!go_on(*load)) return Status(Code::kInProgress, "the measurement was given up");
    MeasuredCosts measured = JudgeRounds(rounds, *load);
    const bool late = MonotonicNanoseconds() - start > kEnoughNanoseconds;
    const bool enough = measured.evidence.sure() || rounds.size() >= kMostRounds || late;
    if (load->heavy() || (enough && rounds.size() >= (late ? 2 : kRounds))) return measured;
    means.pause();
  }
}

Result<MeasuredCosts> MeasureHost(size_t last_level_bytes, const GoOn& go_on) {
  LoadMeter meter;
  return MeasureInRounds({.measure =
                              [&](const std::function<bool()>& ask) {
                                return MeasureHostCosts(last_level_bytes, ask);
                              },
                          .look = [&]() -> Result<HostLoad> {
                            HZ_RETURN_IF_ERROR(meter.Look());
                            return meter.load();
                          },
                          .pause = [] { std::this_thread::sleep_for(kPause); }},
                         go_on);
}

}  // namespace harmonaize
