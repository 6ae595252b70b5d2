#include "cli/probe/inference_report.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/plan/fabric_summary.h"
#include "cli/text_table.h"
#include "src/base/json_text.h"
#include "src/topology/fabric/link_rate.h"

namespace harmonaize {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// A rate that was found, and the file's value.
struct Rate {
  std::string what;
  double found = 0;
  double stated = 0;
};

std::vector<std::string> HostNames(const Fabric& fabric) {
  std::vector<std::string> names;
  for (const int host : fabric.Hosts()) {
    names.push_back(fabric.nodes[static_cast<size_t>(host)].name);
  }
  return names;
}

/// Returns the most that a rack and the rest of the fabric can exchange by the file: the rate of
/// the rack's links, or that of the participants' NICs if these cannot fill the links.
CutRate StatedAround(const Fabric& file, const std::vector<std::string>& rack) {
  CutRate within;
  CutRate others;
  for (const std::string& host : HostNames(file)) {
    const bool inside = std::find(rack.begin(), rack.end(), host) != rack.end();
    const CutRate rate = CutAround(file, {host});
    (inside ? within : others).out += rate.out;
    (inside ? within : others).in += rate.in;
  }
  const CutRate links = CutAround(file, rack);
  return {.out = std::min({links.out, within.out, others.in}),
          .in = std::min({links.in, within.in, others.out})};
}

/// Returns the rates that each host sends and receives, and those of racks.
std::vector<Rate> RatesOf(const InferredFabric& inferred, const Fabric* file) {
  std::vector<Rate> all;
  const auto add = [&](const std::string& what, const CutRate& found, const CutRate& stated,
                       const char* out, const char* in) {
    all.push_back({what + out, found.out, stated.out});
    all.push_back({what + in, found.in, stated.in});
  };
  for (const std::string& host : HostNames(inferred.fabric)) {
    add(host, CutAround(inferred.fabric, {host}),
        file == nullptr ? CutRate() : CutAround(*file, {host}), " sends", " receives");
  }
  for (const RackBoundary& boundary : inferred.boundaries) {
    // If a fabric has several rails, each has its own boundary, and their sum is compared with the
    // file.
    if (boundary.plane != 0) continue;
    CutRate found;
    for (const RackBoundary& other : inferred.boundaries) {
      if (other.hosts != boundary.hosts) continue;
      found.out += other.bytes_per_second_out;
      found.in += other.bytes_per_second_in;
    }
    add(RacksText({boundary.hosts}), found,
        file == nullptr ? CutRate() : StatedAround(*file, boundary.hosts), " out", " in");
  }
  return all;
}

bool SameShape(const Fabric& a, const Fabric& b) {
  return RacksOf(a) == RacksOf(b) && HostPairs(a) == HostPairs(b);
}

std::string WhatTheFileSays(const Fabric& file, const Fabric& inferred) {
  if (SameShape(file, inferred)) return "the file says the same\n";
  return fmt::format("the file says: {}\n",
                     HostPairs(file).empty() ? RacksText(RacksOf(file)) : "links between hosts");
}

std::string RateTable(const InferredFabric& inferred, const Fabric* file) {
  std::string text;
  if (file == nullptr) {
    TextTable table({"rate", "found"}, 1);
    for (const Rate& one : RatesOf(inferred, file)) {
      table.Add({one.what, FormatLinkRate(one.found)});
    }
    table.Print(&text);
    return text;
  }
  TextTable table({"rate", "found", "file", "off"}, 1);
  for (const Rate& one : RatesOf(inferred, file)) {
    table.Add({one.what, FormatLinkRate(one.found), FormatLinkRate(one.stated),
               fmt::format("{:+.1f}%", 100 * (one.found / one.stated - 1))});
  }
  table.Print(&text);
  return text;
}

OrderedJson DescribeBoundaries(const InferredFabric& inferred) {
  OrderedJson boundaries = OrderedJson::array();
  for (const RackBoundary& boundary : inferred.boundaries) {
    boundaries.push_back({{"plane", boundary.plane},
                          {"hosts", boundary.hosts},
                          {"bytes_per_second_out", boundary.bytes_per_second_out},
                          {"bytes_per_second_in", boundary.bytes_per_second_in},
                          {"limits_out", boundary.limits_out},
                          {"limits_in", boundary.limits_in},
                          {"confidence", boundary.confidence},
                          {"reason", boundary.reason}});
  }
  return boundaries;
}

OrderedJson DescribeRates(const InferredFabric& inferred, const Fabric* file) {
  OrderedJson rates = OrderedJson::array();
  for (const Rate& one : RatesOf(inferred, file)) {
    OrderedJson rate = {{"what", one.what}, {"found_bytes_per_second", one.found}};
    if (file != nullptr) rate["file_bytes_per_second"] = one.stated;
    rates.push_back(std::move(rate));
  }
  return rates;
}

}  // namespace

std::string InferenceText(const ProbeOutcome& outcome, const Fabric* file) {
  const InferredFabric& inferred = outcome.inferred;
  std::string text = fmt::format("{} round trips and {} sets of transfers took {:.1f} s\n",
                                 outcome.measurements.round_trips.size(),
                                 outcome.measurements.concurrent.size(), outcome.seconds);
  text += fmt::format("inferred: {}\n",
                      inferred.ring ? "a ring of hosts" : RacksText(RacksOf(inferred.fabric)));
  if (file != nullptr) text += WhatTheFileSays(*file, inferred.fabric);
  text += fmt::format("confidence {:.2f}: {}\n", inferred.confidence, inferred.reason);
  for (const RackBoundary& boundary : inferred.boundaries) {
    text += fmt::format("  {} {:.2f}: {}\n", RacksText({boundary.hosts}), boundary.confidence,
                        boundary.reason);
  }
  return text + RateTable(inferred, file);
}

std::string InferenceJson(const ProbeOutcome& outcome, const Fabric* file) {
  const InferredFabric& inferred = outcome.inferred;
  OrderedJson report = {{"seconds", outcome.seconds},
                        {"round_trips", outcome.measurements.round_trips.size()},
                        {"transfer_sets", outcome.measurements.concurrent.size()},
                        {"ring", inferred.ring},
                        {"racks", RacksOf(inferred.fabric)}};
  if (file != nullptr) {
    report["file_racks"] = RacksOf(*file);
    report["same_as_file"] = SameShape(*file, inferred.fabric);
  }
  report["confidence"] = inferred.confidence;
  report["reason"] = inferred.reason;
  report["boundaries"] = DescribeBoundaries(inferred);
  report["rates"] = DescribeRates(inferred, file);
  return JsonText(report, 2) + "\n";
}

Status WriteInferredFabric(const std::string& path, const InferredFabric& inferred,
                           const LaboratorySettings& laboratory) {
  return WriteFabricFile(path, {.fabric = inferred.fabric, .laboratory = laboratory},
                         fmt::format("Inferred from measurements; confidence {:.2f}.\n"
                                     "Rates are payload by TCP. Switches are invented.",
                                     inferred.confidence));
}

Status WriteTextFile(const std::string& path, const std::string& text) {
  std::ofstream stream(path);
  stream << text << std::flush;
  return stream ? Status::Ok() : ErrnoError(errno, fmt::format("cannot write {}", path));
}

}  // namespace harmonaize
