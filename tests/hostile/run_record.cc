#include "tests/hostile/run_record.h"

#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "tests/hostile/attacks.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;

json Document(const DaemonSample& sample) {
  return {{"resident_kilobytes", sample.resident_kilobytes},
          {"proportional_kilobytes", sample.proportional_kilobytes},
          {"anonymous_kilobytes", sample.anonymous_kilobytes},
          {"descriptors", sample.descriptors},
          {"threads", sample.threads},
          {"mappings", sample.mappings}};
}

json Document(const Phase& phase) {
  return {{"kind", phase.hostile ? "hostile" : "burners"},
          {"seconds", phase.seconds},
          {"rounds_per_second", phase.rate()},
          {"processor_seconds_of_others", phase.others.seconds},
          {"processor_seconds_of_daemon", phase.daemon_processor},
          {"longest_round_seconds", phase.longest_round},
          {"longest_visit_seconds", phase.longest_visit},
          {"longest_status_seconds", phase.longest_status},
          {"most", Document(phase.most)}};
}

json Document(const AttackTally& tally) {
  return {{"runs", tally.runs.load()},         {"blows", tally.blows.load()},
          {"refusals", tally.refusals.load()}, {"turned_away", tally.turned_away.load()},
          {"cut_off", tally.cut_off.load()},   {"overdue", tally.overdue.load()}};
}

template <typename Values>
json Documents(const Values& values) {
  json documents = json::array();
  for (const auto& value : values) documents.push_back(Document(value));
  return documents;
}

}  // namespace

RunRecord::Rates RunRecord::rates() const {
  double rounds[2] = {};
  double seconds[2] = {};
  for (const Phase& phase : phases) {
    rounds[phase.hostile ? 0 : 1] += phase.rounds;
    seconds[phase.hostile ? 0 : 1] += phase.seconds;
  }
  return {rounds[0] / seconds[0], rounds[1] / seconds[1]};
}

long RunRecord::LeastMemoryOfLast() const {
  constexpr size_t kLast = 3;
  std::vector<long> last;
  for (const DaemonSample& sample : calm) last.push_back(sample.resident_kilobytes);
  last.erase(last.begin(), last.end() - static_cast<ptrdiff_t>(std::min(kLast, last.size())));
  return *std::min_element(last.begin(), last.end());
}

std::string RunRecord::ToJson(const AttackPlan& plan, const Field& field) const {
  json attacks = json::object();
  for (const size_t number : AttacksOf(plan)) {
    attacks[AllAttacks()[number].name] = Document(field.tallies[number]);
  }
  const Rates all = rates();
  const json document = {
      {"seed", plan.seed},
      {"hosts", plan.hosts},
      {"attackers", plan.attackers},
      {"attacks", std::move(attacks)},
      {"phases", Documents(phases)},
      {"beginning", Document(beginning)},
      {"warm", Document(warm)},
      {"calm", Documents(calm)},
      {"log_bytes", log_bytes},
      {"rounds_per_second", {{"hostile", all.hostile}, {"burners", all.burners}}},
      {"findings", field.findings.Texts()}};
  return JsonText(document, 2);
}

void Tell(const Phase& phase) {
  std::printf(
      "%-8s %5.1f s: %6.1f rounds/s (longest %.2f s), visits up to %.2f s, status up to %.2f s; "
      "others used %.1f s, the daemon %.1f s; at most %ld MiB, %d descriptors, %d threads, %d "
      "mappings\n",
      phase.hostile ? "hostile" : "burners", phase.seconds, phase.rate(), phase.longest_round,
      phase.longest_visit, phase.longest_status, phase.others.seconds, phase.daemon_processor,
      phase.most.resident_kilobytes / 1024, phase.most.descriptors, phase.most.threads,
      phase.most.mappings);
  std::fflush(stdout);
}

void TellCalm(const char* when, const DaemonSample& sample) {
  std::printf(
      "calm %s: %ld KiB resident, %ld proportional, %ld anonymous; %d descriptors, %d threads, "
      "%d mappings\n",
      when, sample.resident_kilobytes, sample.proportional_kilobytes, sample.anonymous_kilobytes,
      sample.descriptors, sample.threads, sample.mappings);
  std::fflush(stdout);
}

void TellAttacks(const AttackPlan& plan, const Field& field) {
  std::printf("%-22s %6s %10s %10s %11s %7s %7s\n", "attack", "runs", "blows", "refused",
              "turned away", "cut off", "overdue");
  for (const size_t number : AttacksOf(plan)) {
    const AttackTally& tally = field.tallies[number];
    std::printf("%-22s %6lu %10lu %10lu %11lu %7lu %7lu\n", AllAttacks()[number].name,
                tally.runs.load(), tally.blows.load(), tally.refusals.load(),
                tally.turned_away.load(), tally.cut_off.load(), tally.overdue.load());
  }
  std::fflush(stdout);
}

}  // namespace harmonaize::testing
