#include "cli/status/controller_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/human_units.h"
#include "cli/text_table.h"
#include "cli/top/growth.h"

namespace harmonaize {
namespace {

bool IsTrue(const Json& value) {
  return value.is_boolean() && value.get<bool>();
}

/// Returns a rate in the job's terms; "" if it has none.
std::string RateIfAny(const Json& job, const char* field) {
  const double rate = Growth({}, job, field);
  return rate > 0 ? HumanRate(rate) : "";
}

std::string FloorOf(const Json& job) {
  const std::string state = TextAt(job, "floor");
  const std::string rate = RateIfAny(job, "bandwidth_floor");
  return state == "refused" || state == "missed" ? fmt::format("{} ({})", rate, state) : rate;
}

void PrintJobs(const Json& controller, size_t rows, std::string* text) {
  std::vector<Json> jobs(ListAt(controller, "jobs").begin(), ListAt(controller, "jobs").end());
  const auto rate = [](const Json& job) { return Growth({}, job, "bytes_per_second"); };
  std::stable_sort(jobs.begin(), jobs.end(),
                   [&rate](const Json& a, const Json& b) { return rate(a) > rate(b); });
  TextTable table({"job", "tenant", "sends", "rails", "held back on", "bursts that waited",
                   "priority", "floor", "cap"},
                  2);
  for (size_t i = 0; i < std::min(jobs.size(), rows); ++i) {
    table.Add({TextAt(jobs[i], "communicator"), "uid " + TextAt(jobs[i], "uid"),
               HumanRate(std::max(rate(jobs[i]), 0.0)), TextAt(jobs[i], "rails"),
               TextAt(jobs[i], "held_back_rails"), TextAt(jobs[i], "waited_bursts"),
               TextAt(jobs[i], "priority"), FloorOf(jobs[i]), RateIfAny(jobs[i], "bandwidth_cap")});
  }
  if (table.empty()) return;
  table.Print(text);
  if (jobs.size() > rows) *text += fmt::format("and {} more\n", jobs.size() - rows);
}

}  // namespace

void PrintController(const Json& document, size_t rows, std::string* text) {
  const Json& controller = At(At(document, "cluster"), "controller");
  if (!controller.is_object()) return;
  if (IsTrue(At(controller, "here"))) {
    *text +=
        fmt::format("\nthis daemon is the cluster's controller; {} hosts have told it of traffic\n",
                    TextAt(controller, "hosts"));
    return PrintJobs(controller, rows, text);
  }
  *text += fmt::format("\nthe controller at {} {}; rails held back here: {}\n",
                       TextAt(controller, "address"),
                       IsTrue(At(controller, "follows")) ? "is heeded" : "has said nothing lately",
                       TextAt(controller, "limited_rails"));
}

}  // namespace harmonaize
