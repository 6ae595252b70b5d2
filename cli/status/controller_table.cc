#include "cli/status/controller_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <vector>

#include "cli/human_units.h"
#include "cli/status/communicator_label.h"
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

/// Returns the labels of the jobs that have communicators on this host, by communicators' ids.
std::map<std::string, std::string> JobsHere(const Json& document) {
  std::map<std::string, std::string> labels;
  for (const Json& tenant : ListAt(document, "tenants")) {
    for (const Json& communicator : ListAt(tenant, "communicators")) {
      labels[CommunicatorIdOf(communicator)] = JobLabelOf(communicator);
    }
  }
  return labels;
}

/// Returns a communicator's id, as `harmonaize jobs` shows it, by the key that it has at all hosts
/// (HandleOf in daemon/formation/communicator_maker.cc).
std::string IdByKey(const std::string& key) {
  uint64_t number = 0;
  const char* const end = key.data() + key.size();
  if (std::from_chars(key.data(), end, number, 16).ptr != end) return key;
  return fmt::format("{:08x}", static_cast<uint32_t>(number ^ number >> 32));
}

void PrintJobs(const Json& document, size_t rows, std::string* text) {
  const Json& controller = At(At(document, "cluster"), "controller");
  const std::map<std::string, std::string> jobs_here = JobsHere(document);
  std::vector<Json> jobs(ListAt(controller, "jobs").begin(), ListAt(controller, "jobs").end());
  const auto rate = [](const Json& job) { return Growth({}, job, "bytes_per_second"); };
  std::stable_sort(jobs.begin(), jobs.end(),
                   [&rate](const Json& a, const Json& b) { return rate(a) > rate(b); });
  TextTable table({"communicator", "job", "tenant", "sends", "rails", "held back on",
                   "bursts that waited", "priority", "floor", "cap"},
                  3);
  for (size_t i = 0; i < std::min(jobs.size(), rows); ++i) {
    const std::string id = IdByKey(TextAt(jobs[i], "communicator"));
    const auto here = jobs_here.find(id);
    table.Add({id, here == jobs_here.end() ? kMissing : here->second,
               "uid " + TextAt(jobs[i], "uid"), HumanRate(std::max(rate(jobs[i]), 0.0)),
               TextAt(jobs[i], "rails"), TextAt(jobs[i], "held_back_rails"),
               TextAt(jobs[i], "waited_bursts"), TextAt(jobs[i], "priority"), FloorOf(jobs[i]),
               RateIfAny(jobs[i], "bandwidth_cap")});
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
    return PrintJobs(document, rows, text);
  }
  *text += fmt::format("\nthe controller at {} {}; rails held back here: {}\n",
                       TextAt(controller, "address"),
                       IsTrue(At(controller, "follows")) ? "is heeded" : "has said nothing lately",
                       TextAt(controller, "limited_rails"));
}

}  // namespace harmonaize
