#include "perf/fabric/probe_command.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/text_table.h"
#include "perf/fabric/complain.h"
#include "perf/fabric/fabric_comparison.h"
#include "perf/fabric/laboratory.h"
#include "perf/fabric/probe_traffic.h"
#include "src/topology/fabric_file.h"
#include "src/topology/inference.h"
#include "src/topology/link_rate.h"

namespace harmonaize::fabric {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string name;
  std::string output;
  std::string measurements;
  ProbeEffort effort;
  bool json = false;
  bool verbose = false;
};

struct Probing {
  Measurements measurements;
  double seconds = 0;
};

Result<Probing> Probe(const Laboratory& laboratory, const Options& options) {
  Probing probing{.measurements = NothingMeasured(laboratory)};
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const NextMeasurements next = NextProbes(probing.measurements);
    if (next.empty()) break;
    if (options.verbose) std::fprintf(stderr, "fabric: %s\n", next.why.c_str());
    HZ_RETURN_IF_ERROR(CarryOut(laboratory, next, options.effort, &probing.measurements));
  }
  probing.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return probing;
}

/// One rate that was found, and what the file says to it.
struct Compared {
  std::string what;
  double found = 0;
  double stated = 0;
  double off() const { return found / stated - 1; }
};

/// What each host sends and gets, and what racks do; payload against nominal rates. Where the NICs
/// of those who took part could not fill a rack's links, what they could is what is compared.
std::vector<Compared> CompareRates(const Fabric& file, const InferredFabric& inferred) {
  std::vector<Compared> all;
  std::vector<std::string> everyone;
  for (const int host : file.Hosts()) {
    everyone.push_back(file.nodes[static_cast<size_t>(host)].name);
  }
  for (const std::string& host : everyone) {
    const CutRate found = CutAround(inferred.fabric, {host});
    const CutRate stated = CutAround(file, {host});
    all.push_back({host + " sends", found.out, stated.out});
    all.push_back({host + " receives", found.in, stated.in});
  }
  for (const RackBoundary& boundary : inferred.boundaries) {
    // Of the rails of a fabric, each has its own boundary; the file is asked for their sum.
    if (boundary.plane != 0) continue;
    CutRate found;
    for (const RackBoundary& other : inferred.boundaries) {
      if (other.hosts != boundary.hosts) continue;
      found.out += other.bytes_per_second_out;
      found.in += other.bytes_per_second_in;
    }
    CutRate within;
    CutRate others;
    for (const std::string& host : everyone) {
      const bool inside =
          std::find(boundary.hosts.begin(), boundary.hosts.end(), host) != boundary.hosts.end();
      const CutRate rate = CutAround(file, {host});
      (inside ? within : others).out += rate.out;
      (inside ? within : others).in += rate.in;
    }
    const CutRate stated = CutAround(file, boundary.hosts);
    const std::string rack = RacksText({boundary.hosts});
    all.push_back({rack + " out", found.out, std::min({stated.out, within.out, others.in})});
    all.push_back({rack + " in", found.in, std::min({stated.in, within.in, others.out})});
  }
  return all;
}

bool SameShape(const Fabric& a, const Fabric& b) {
  return RacksOf(a) == RacksOf(b) && HostPairs(a) == HostPairs(b);
}

void PrintText(const Fabric& file, const InferredFabric& inferred, const Probing& probing) {
  const bool same = SameShape(file, inferred.fabric);
  std::string text = fmt::format("{} round trips and {} sets of transfers took {:.1f} s\n",
                                 probing.measurements.round_trips.size(),
                                 probing.measurements.concurrent.size(), probing.seconds);
  if (inferred.ring) {
    text += "inferred: a ring of hosts\n";
  } else {
    text += fmt::format("inferred: {}\n", RacksText(RacksOf(inferred.fabric)));
  }
  text +=
      same ? "the file says the same\n"
           : fmt::format("the file says: {}\n", HostPairs(file).empty() ? RacksText(RacksOf(file))
                                                                        : "links between hosts");
  text += fmt::format("confidence {:.2f}: {}\n", inferred.confidence, inferred.reason);
  for (const RackBoundary& boundary : inferred.boundaries) {
    text += fmt::format("  {} {:.2f}: {}\n", RacksText({boundary.hosts}), boundary.confidence,
                        boundary.reason);
  }
  TextTable table({"rate", "found", "file", "off"}, 1);
  for (const Compared& one : CompareRates(file, inferred)) {
    table.Add({one.what, FormatLinkRate(one.found), FormatLinkRate(one.stated),
               fmt::format("{:+.1f}%", 100 * one.off())});
  }
  table.Print(&text);
  std::fputs(text.c_str(), stdout);
}

void PrintJson(const Fabric& file, const InferredFabric& inferred, const Probing& probing) {
  Json boundaries = Json::array();
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
  Json rates = Json::array();
  for (const Compared& one : CompareRates(file, inferred)) {
    rates.push_back({{"what", one.what},
                     {"found_bytes_per_second", one.found},
                     {"file_bytes_per_second", one.stated}});
  }
  const Json report = {{"seconds", probing.seconds},
                       {"round_trips", probing.measurements.round_trips.size()},
                       {"transfer_sets", probing.measurements.concurrent.size()},
                       {"ring", inferred.ring},
                       {"racks", RacksOf(inferred.fabric)},
                       {"file_racks", RacksOf(file)},
                       {"same_as_file", SameShape(file, inferred.fabric)},
                       {"confidence", inferred.confidence},
                       {"reason", inferred.reason},
                       {"boundaries", std::move(boundaries)},
                       {"rates", std::move(rates)}};
  std::printf("%s\n", report.dump(2).c_str());
}

Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream stream(path);
  stream << text << std::flush;
  return stream ? Status::Ok() : ErrnoError(errno, fmt::format("cannot write {}", path));
}

Status RunProbe(const Options& options) {
  Result<Laboratory> laboratory = Laboratory::Open(options.name);
  if (!laboratory.ok()) return laboratory.status();
  laboratory->Unlock();
  const Result<Probing> probing = Probe(*laboratory, options);
  if (!probing.ok()) return probing.status();
  if (!options.measurements.empty()) {
    HZ_RETURN_IF_ERROR(WriteText(options.measurements, FormatMeasurements(probing->measurements)));
  }
  const Result<InferredFabric> inferred =
      InferFabric(probing->measurements, laboratory->fabric().name);
  if (!inferred.ok()) return inferred.status();
  if (options.json) {
    PrintJson(laboratory->fabric(), *inferred, *probing);
  } else {
    PrintText(laboratory->fabric(), *inferred, *probing);
  }
  if (options.output.empty()) return Status::Ok();
  const FabricFile file{.fabric = inferred->fabric, .laboratory = laboratory->file().laboratory};
  return WriteFabricFile(options.output, file,
                         fmt::format("Inferred from measurements; confidence {:.2f}.\n"
                                     "Rates are payload by TCP. Switches are invented.",
                                     inferred->confidence));
}

}  // namespace

void AddProbeCommand(CLI::App& app, CommandLine& command_line) {
  auto options = std::make_shared<Options>();
  CLI::App* probe = app.add_subcommand(
      "probe", "Infer the fabric from what its hosts measure, and compare it with its file");
  probe->add_option("--name", options->name, "The laboratory, when several are up");
  probe->add_option("-o,--output", options->output, "Write the inferred fabric to this file");
  probe->add_option("--measurements", options->measurements,
                    "Write what was measured to this file, as JSON");
  probe
      ->add_option("--seconds", options->effort.seconds,
                   "How long each set of transfers runs (default: 0.16)")
      ->check(CLI::Range(0.05, 10.0));
  probe->add_flag("--json", options->json, "As JSON; rates in bytes a second");
  probe->add_flag("-v,--verbose", options->verbose, "Say what is being measured");
  probe->footer(
      "Hosts measure by plain TCP between their NICs' own addresses and know nothing of the file. "
      "'found' is payload, 'file' the nominal rate, or what the NICs of those who took part could "
      "fill of it. docs/probing.md tells how it infers and what it cannot see.");
  probe->callback(
      [options, &command_line] { command_line.exit_status = Finish(RunProbe(*options)); });
}

}  // namespace harmonaize::fabric
