#include "cli/explain/explain_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/human_units.h"
#include "cli/json_view.h"
#include "cli/text_table.h"
#include "src/base/json_text.h"

namespace harmonaize {
namespace {

struct CostLabel {
  const char* key;
  const char* meaning;
};
constexpr CostLabel kCostLabels[] = {
    {"handoff_ns", "a cache line seen on another processor"},
    {"yield_ns", "giving way to another thread"},
    {"copy_bytes_per_second", "copying into a shared slot"},
    {"fetch_bytes_per_second", "copying out of another rank's slot"},
    {"reduce_bytes_per_second", "adding two inputs in cache, read and written"},
    {"stream_bytes_per_second", "the same beyond the caches"},
    {"round_trip_ns", "an offloaded operation without data"},
    {"wake_ns", "waking a thread"},
    {"wake_up_ns", "until it is awake, on another processor"},
};

std::string CostAt(const Json& costs, const std::string& key) {
  const Json& value = At(costs, key.c_str());
  if (!value.is_number()) return kMissing;
  return key.ends_with("_ns") ? HumanTime(value.get<double>() * 1e-9)
                              : HumanRate(value.get<double>());
}

std::string LimitAt(const Json& paths) {
  const Json& limit = At(paths, "limit_bytes");
  if (!limit.is_number_unsigned()) return kMissing;
  return limit.get<uint64_t>() == 0 ? "never" : HumanBytes(limit.get<uint64_t>());
}

std::string PathAt(const Json& paths, const Json& prediction) {
  const Json& limit = At(paths, "limit_bytes");
  const Json& bytes = At(prediction, "bytes");
  if (!limit.is_number_unsigned() || !bytes.is_number_unsigned()) return kMissing;
  return bytes.get<uint64_t>() <= limit.get<uint64_t>() ? "inline" : "offload";
}

/// Prints how far the costs can be trusted, and how they are used.
void PrintEvidence(const Json& calibration, std::string* text) {
  const Json& sure = At(calibration, "sure");
  if (!sure.is_boolean()) return;
  const Json& load = At(calibration, "load");
  *text += fmt::format(
      "{}: {} of {} rounds agree; meanwhile other programs had {} of the time, with {} threads\n",
      sure.get<bool>() ? "sure" : "unsure", TextAt(calibration, "rounds_agreed"),
      TextAt(calibration, "rounds"), PercentAt(load, "lost_fraction"),
      TextAt(load, "running_threads"));
  if (sure.get<bool>()) return;
  for (const Json& doubt : ListAt(calibration, "doubts")) *text += "  " + TextOf(doubt) + "\n";
  const Json& again = At(calibration, "again");
  if (At(again, "wanted") == true) {
    *text +=
        fmt::format("measured again when the host is at rest: next try in {}, {} tries so far\n",
                    DurationAt(again, "next_in_seconds"), TextAt(again, "tries"));
  } else if (At(again, "allowed") == false) {
    *text += "not measured again: the configuration forbids it (calibration.again)\n";
  }
}

void PrintHost(const Json& document, std::string* text) {
  const Json& calibration = At(document, "calibration");
  const Json& fingerprint = At(calibration, "fingerprint");
  *text += fmt::format("{}, {} processors, {} GiB, Linux {}; harmonaized {} with {} workers\n",
                       TextAt(fingerprint, "processor"), TextAt(document, "processors"),
                       TextAt(fingerprint, "memory_gib"), TextAt(fingerprint, "kernel"),
                       TextAt(fingerprint, "version"), TextAt(document, "workers"));
  TextTable costs({"measured " + TextAt(calibration, "measured_at"), ""}, 1);
  for (const CostLabel& label : kCostLabels) {
    costs.Add({label.meaning, CostAt(At(calibration, "costs"), label.key)});
  }
  costs.Print(text);
  PrintEvidence(calibration, text);
  if (At(calibration, "state_path").is_string()) {
    *text += fmt::format("kept in {}/calibration.json; without it the next start measures anew\n",
                         TextAt(calibration, "state_path"));
  }
}

/// Prints why the limits are not those of the calibration, if they are not.
void PrintReservations(const Json& document, std::string* text) {
  const Json& path = At(document, "inline");
  if (At(path, "enabled") == false) {
    *text += "The inline path is switched off by the configuration (inline.enabled).\n";
  } else if (At(path, "possible") == false) {
    *text += fmt::format("Communicators of more than {} ranks never go inline.\n",
                         TextAt(path, "most_ranks"));
  }
  const Json& most = At(path, "stream_bytes");
  if (most.is_number_unsigned() && At(path, "possible") != false) {
    *text += fmt::format("On a host stream a block of more than {} goes to the daemon.\n",
                         HumanBytes(most.get<uint64_t>()));
  }
  for (const char* kind : {"registered", "heap"}) {
    if (TextAt(path, fmt::format("{}_limits_by", kind).c_str()) != "configuration") continue;
    *text += fmt::format("The limits of {} memory are the configuration's (inline.{}_bytes).\n",
                         kind, kind);
  }
}

void PrintLimits(const Json& document, std::string* text) {
  *text += fmt::format("\ncommunicators of {} ranks: the largest block that goes inline\n",
                       TextAt(document, "ranks"));
  PrintReservations(document, text);
  TextTable limits({"collective", "registered", "heap"}, 1);
  for (const Json& collective : ListAt(document, "collectives")) {
    limits.Add({TextAt(collective, "name"), LimitAt(At(collective, "registered")),
                LimitAt(At(collective, "heap"))});
  }
  limits.Print(text);
}

void PrintPredictions(const Json& collective, std::string* text) {
  const Json& registered = At(collective, "registered");
  const Json& heap = At(collective, "heap");
  const Json& of_registered = ListAt(registered, "predictions");
  const Json& of_heap = ListAt(heap, "predictions");
  TextTable table({TextAt(collective, "name"), "registered: inline", "offload", "path",
                   "heap: inline", "offload", "path"},
                  0);
  // Every other size is enough to read.
  for (size_t i = 0; i < std::min(of_registered.size(), of_heap.size()); i += 2) {
    const Json& bytes = At(of_registered[i], "bytes");
    table.Add({bytes.is_number_unsigned() ? HumanBytes(bytes.get<uint64_t>()) : kMissing,
               TimeAt(of_registered[i], "inline_seconds"),
               TimeAt(of_registered[i], "offload_seconds"), PathAt(registered, of_registered[i]),
               TimeAt(of_heap[i], "inline_seconds"), TimeAt(of_heap[i], "offload_seconds"),
               PathAt(heap, of_heap[i])});
  }
  *text += "\n";
  table.Print(text);
}

}  // namespace

Result<std::string> ExplainTable(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json json, ParseDocument(document));
  std::string text;
  PrintHost(json, &text);
  PrintLimits(json, &text);
  for (const Json& collective : ListAt(json, "collectives")) PrintPredictions(collective, &text);
  return text;
}

Result<std::string> SelectCollective(std::string_view document, std::string_view name) {
  HZ_ASSIGN_OR_RETURN(Json json, ParseDocument(document));
  Json selected = Json::array();
  for (const Json& collective : ListAt(json, "collectives")) {
    if (TextAt(collective, "name") == name) selected.push_back(collective);
  }
  json["collectives"] = std::move(selected);
  return JsonText(json);
}

}  // namespace harmonaize
