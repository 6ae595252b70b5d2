// The daemon's policy of elastic jobs as a filter: for each world that it reads, it writes the
// offers to make. A program that makes offers over the HTTP interface asks it what to offer.

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "daemon/elasticity/elastic_policy.h"

namespace {

using namespace harmonaize::daemon;
using Json = nlohmann::json;

constexpr char kDescription[] =
    "decide_elastic: which offers to make to elastic jobs. It reads a world, as JSON on a line, "
    "and "
    "writes the offers to make as JSON on a line, until its input ends.";

constexpr char kFooter[] =
    R"(A world, with the fields that may be left out in parentheses:
  {"now": SECONDS,
   "hosts": [{"free_places": N, ("coming_places": N, "link_load": PART)}],
   "jobs": [{"id": N, "ranks": [BY HOST], "seen": [{"ranks": N, "samples": N, "step_seconds": S,
             "exchange_seconds": S}], ("room": [BY HOST], "least": N, "most": N, "step": N, "priority": N,
             "goal": "fastest"|"cheapest"|"deadline", "deadline": SECONDS, "samples_left": N,
             "gradient_noise_scale": N, "change_seconds": S, "quiet_until": SECONDS, "is_asked": BOOL)}],
   "waiting": [{"id": N, "ranks": N, ("priority": N)}]}
The offers:
  [{"job": ID, "host": PLACE, "kind": "grow"|"reclaim", "ranks": N, "why": TEXT,
    "expected_step_seconds": S, "confidence": PART}])";

ElasticGoal GoalNamed(const std::string& name) {
  if (name == "cheapest") return ElasticGoal::kCheapest;
  if (name == "deadline") return ElasticGoal::kDeadline;
  return ElasticGoal::kFastest;
}

/// Returns a job; nullopt where nothing is known of its steps, so that nothing can be said of it.
std::optional<ElasticJob> JobOf(const Json& json) {
  std::vector<SpeedSample> seen;
  for (const Json& one : json.at("seen")) {
    seen.push_back({.ranks = one.at("ranks"),
                    .samples = one.at("samples"),
                    .step_seconds = one.at("step_seconds"),
                    .exchange_seconds = one.at("exchange_seconds")});
  }
  const auto model = SpeedModel::Fit(seen, json.value("gradient_noise_scale", 0.0));
  if (!model.has_value()) return std::nullopt;
  return ElasticJob{.id = json.at("id"),
                    .ranks = json.at("ranks"),
                    .room = json.value("room", std::vector<int32_t>{}),
                    .bounds = {.least = std::max(1, json.value("least", 1)),
                               .most = json.value("most", ElasticBounds{}.most),
                               .step = std::max(1, json.value("step", 1))},
                    .priority = json.value("priority", 0),
                    .goal = GoalNamed(json.value("goal", "fastest")),
                    .deadline_seconds = json.value("deadline", 0.0),
                    .samples_left = json.value("samples_left", 0.0),
                    .speed = *model,
                    .change_seconds = json.value("change_seconds", 1.0),
                    .quiet_until_seconds = json.value("quiet_until", 0.0),
                    .is_asked = json.value("is_asked", false)};
}

ElasticWorld WorldOf(const Json& json) {
  ElasticWorld world = {.now_seconds = json.at("now")};
  for (const Json& host : json.at("hosts")) {
    world.hosts.push_back({.free_places = host.at("free_places"),
                           .coming_places = host.value("coming_places", 0),
                           .link_load = host.value("link_load", 0.0)});
  }
  for (const Json& one : json.at("jobs")) {
    std::optional<ElasticJob> job = JobOf(one);
    if (!job.has_value()) continue;
    job->ranks.resize(world.hosts.size());
    if (!job->room.empty()) job->room.resize(world.hosts.size());
    world.jobs.push_back(std::move(*job));
  }
  for (const Json& one : json.at("waiting")) {
    world.waiting.push_back(
        {.id = one.at("id"), .ranks = one.at("ranks"), .priority = one.value("priority", 0)});
  }
  return world;
}

std::string TextOf(const std::vector<ElasticOffer>& offers) {
  Json list = Json::array();
  for (const ElasticOffer& offer : offers) {
    list.push_back({{"job", offer.job},
                    {"host", offer.host},
                    {"kind", offer.grows ? "grow" : "reclaim"},
                    {"ranks", offer.ranks},
                    {"why", offer.why},
                    {"expected_step_seconds", offer.expected_step_seconds},
                    {"confidence", offer.confidence}});
  }
  return list.dump();
}

int Run(const ElasticPace& pace) {
  ElasticPolicy policy(pace);
  std::string line;
  while (std::getline(std::cin, line)) {
    try {
      std::cout << TextOf(policy.Decide(WorldOf(Json::parse(line)))) << std::endl;
    } catch (const Json::exception& error) {
      std::fprintf(stderr, "decide_elastic: this is no world: %s\n", error.what());
      return 1;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  ElasticPace pace;
  CLI::App app(kDescription, "decide_elastic");
  app.footer(kFooter);
  app.add_option("--looks", pace.looks, "Worlds in a row that have to want a change")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--settle", pace.settle_seconds,
                 "Seconds for which a job is left alone after an offer")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return Run(pace);
}
