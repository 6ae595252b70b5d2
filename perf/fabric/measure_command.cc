#include "perf/fabric/measure_command.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/text_table.h"
#include "perf/fabric/complain.h"
#include "perf/fabric/laboratory.h"
#include "perf/fabric/name_option.h"
#include "perf/fabric/traffic.h"
#include "src/base/json_text.h"
#include "src/topology/fabric/fabric_routing.h"
#include "src/topology/fabric/link_rate.h"

namespace harmonaize::fabric {
namespace {

using Json = nlohmann::json;

// Patience of a check: a connection's first packet that is lost is sent again after a second.
constexpr std::chrono::milliseconds kCheckPatience(1500);

struct MeasureOptions {
  std::string name;
  std::string a;
  std::string b;
  double seconds = 2;
  int64_t bytes = 0;
  int path = -1;
  bool one_way = false;
  bool json = false;
};

/// Returns the least nominal rate of any link on the way; over all equal ways, because ECMP may
/// choose any.
double NominalRate(const Laboratory& laboratory, const Way& way) {
  const Fabric& fabric = laboratory.fabric();
  const Disturbances now = laboratory.CurrentDisturbances();
  const FabricRouting routing(fabric, way.path < 0 ? now.down : std::vector<bool>());
  std::vector<Route> routes;
  if (way.path < 0) {
    routes = routing.EqualCostRoutes(way.from, way.to);
  } else {
    routes = {routing.ExplicitRoute(way.from, way.to, way.path)};
  }
  double least = 0;
  for (const Route& route : routes) {
    for (const int edge : route) {
      const auto changed = now.rates.find(edge);
      const double rate =
          changed != now.rates.end() ? changed->second : fabric.EdgeAt(edge).bytes_per_second;
      least = least == 0 ? rate : std::min(least, rate);
    }
  }
  return least;
}

struct Measured {
  std::string from;
  std::string to;
  double nominal = 0;
  Transfer transfer;
};

Result<Measured> MeasureOneWay(const Laboratory& laboratory, const Way& way,
                               const MeasureOptions& options) {
  HZ_RETURN_IF_ERROR(CheckWay(laboratory.fabric(), way));
  HZ_ASSIGN_OR_RETURN(Connection connection, Connect(laboratory, way, kConnectPatience));
  Amount amount{.bytes = {}, .seconds = options.seconds};
  if (options.bytes > 0) amount.bytes = options.bytes;
  HZ_ASSIGN_OR_RETURN(const Transfer transfer, Measure(connection, amount));
  return Measured{laboratory.fabric().EndpointName(way.from),
                  laboratory.fabric().EndpointName(way.to), NominalRate(laboratory, way), transfer};
}

void PrintMeasured(const std::vector<Measured>& all, bool json) {
  std::string text;
  if (json) {
    Json list = Json::array();
    for (const Measured& one : all) {
      list.push_back({{"from", one.from},
                      {"to", one.to},
                      {"nominal_bytes_per_second", one.nominal},
                      {"payload_bytes_per_second", one.transfer.bytes_per_second},
                      {"bytes", one.transfer.bytes}});
    }
    text = JsonText(list, 2) + "\n";
  } else {
    TextTable table({"from", "to", "nominal", "payload", "MB/s", "share"}, 2);
    for (const Measured& one : all) {
      table.Add({one.from, one.to, FormatLinkRate(one.nominal),
                 FormatLinkRate(one.transfer.bytes_per_second),
                 fmt::format("{:.2f}", one.transfer.bytes_per_second / 1e6),
                 fmt::format("{:.1f}%", 100 * one.transfer.bytes_per_second / one.nominal)});
    }
    table.Print(&text);
  }
  std::fputs(text.c_str(), stdout);
}

Status RunMeasure(const MeasureOptions& options) {
  HZ_ASSIGN_OR_RETURN(Laboratory laboratory, Laboratory::Open(options.name));
  laboratory.Unlock();
  HZ_ASSIGN_OR_RETURN(const Endpoint a, laboratory.EndpointNamed(options.a));
  HZ_ASSIGN_OR_RETURN(const Endpoint b, laboratory.EndpointNamed(options.b));
  std::vector<Way> ways = {{a, b, options.path}};
  if (!options.one_way) ways.push_back({b, a, options.path});
  std::vector<Measured> all;
  for (const Way& way : ways) {
    HZ_ASSIGN_OR_RETURN(Measured one, MeasureOneWay(laboratory, way, options));
    all.push_back(std::move(one));
  }
  PrintMeasured(all, options.json);
  return Status::Ok();
}

Status CheckAll(const MeasureOptions& options) {
  HZ_ASSIGN_OR_RETURN(Laboratory laboratory, Laboratory::Open(options.name));
  laboratory.Unlock();
  const Fabric& fabric = laboratory.fabric();
  const FabricRouting routing(fabric, laboratory.CurrentDisturbances().down);
  const FabricRouting whole(fabric);
  int connected = 0;
  std::vector<std::string> failures;
  for (const Endpoint& from : fabric.Endpoints()) {
    for (const Endpoint& to : fabric.Endpoints()) {
      // Rails that are not joined need not reach each other.
      if (whole.EqualCostRoutes(from, to, 1).empty()) continue;
      for (int path = -1; path < fabric.explicit_paths; ++path) {
        const Result<Connection> connection = Connect(laboratory, {from, to, path}, kCheckPatience);
        if (connection.ok()) {
          ++connected;
          continue;
        }
        failures.push_back(fmt::format(
            "{} to {}{}: {}", fabric.EndpointName(from), fabric.EndpointName(to),
            path < 0 ? "" : fmt::format(" by path {}", path), connection.status().message()));
      }
    }
  }
  std::printf("%d connections between NICs came about, %zu did not\n", connected, failures.size());
  for (const std::string& failure : failures) std::printf("%s\n", failure.c_str());
  return failures.empty() ? Status::Ok() : Unavailable("not everything is reachable");
}

}  // namespace

void AddMeasureCommands(CLI::App& app, CommandLine& command_line) {
  auto options = std::make_shared<MeasureOptions>();
  CLI::App* measure =
      app.add_subcommand("measure", "One plain TCP transfer each way: what a link really carries");
  measure->add_option("A", options->a, "HOST or HOST:NIC")->required();
  measure->add_option("B", options->b, "HOST or HOST:NIC")->required();
  AddNameOption(measure, &options->name);
  CLI::Option* seconds =
      measure->add_option("--seconds", options->seconds, "How long each way (default: 2)")
          ->check(CLI::Range(0.1, 3600.0));
  measure->add_option("--bytes", options->bytes, "How much each way, instead of how long")
      ->check(CLI::PositiveNumber)
      ->excludes(seconds);
  measure->add_option("--path", options->path, "By this explicit path (default: ECMP decides)");
  measure->add_flag("--one-way", options->one_way, "From A to B only");
  measure->add_flag("--json", options->json, "As JSON; rates in bytes a second");
  measure->footer(
      "'payload' is what arrived at the program, without headers, and after the first "
      "fifth of the time. A transfer of few --bytes fits into the links' bursts: its rate says "
      "nothing.");
  measure->callback(
      [options, &command_line] { command_line.exit_status = Finish(RunMeasure(*options)); });

  CLI::App* check =
      app.add_subcommand("check", "Connect each NIC to each other one, by every path");
  AddNameOption(check, &options->name);
  check->callback(
      [options, &command_line] { command_line.exit_status = Finish(CheckAll(*options)); });
}

}  // namespace harmonaize::fabric
