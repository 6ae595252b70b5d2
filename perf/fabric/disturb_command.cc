#include "perf/fabric/disturb_command.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "perf/fabric/complain.h"
#include "perf/fabric/laboratory.h"
#include "perf/fabric/name_option.h"
#include "perf/fabric/namespaces.h"
#include "perf/fabric/roles.h"
#include "perf/fabric/traffic.h"
#include "src/topology/fabric/link_rate.h"

namespace harmonaize::fabric {
namespace {

struct DisturbOptions {
  std::string name;
  std::string link;
  std::string rate;
  std::string rate_back;
  bool silent = false;
  std::string from;
  std::string to;
  int path = -1;
  std::vector<int> flows;
  std::string host;
  std::string role;
  int signal = SIGKILL;
};

Status ChangeRate(const DisturbOptions& options, Laboratory& laboratory) {
  HZ_ASSIGN_OR_RETURN(const int link, laboratory.LinkNamed(options.link));
  const Link& changed = laboratory.fabric().links[static_cast<size_t>(link)];
  std::array<double, 2> rates = changed.bytes_per_second;
  if (options.rate != "nominal") {
    const Result<double> forth = ParseLinkRate(options.rate);
    if (!forth.ok()) return forth.status();
    HZ_ASSIGN_OR_RETURN(const double back,
                        options.rate_back.empty() ? forth : ParseLinkRate(options.rate_back));
    rates = {*forth, back};
  }
  HZ_RETURN_IF_ERROR(laboratory.SetRate(link, rates[0], rates[1]));
  std::printf("link %s: %s, and %s back\n", changed.name.c_str(), FormatLinkRate(rates[0]).c_str(),
              FormatLinkRate(rates[1]).c_str());
  return Status::Ok();
}

Status ChangeState(const DisturbOptions& options, Laboratory& laboratory, bool down) {
  HZ_ASSIGN_OR_RETURN(const int link, laboratory.LinkNamed(options.link));
  HZ_RETURN_IF_ERROR(laboratory.SetDown(link, down, !options.silent));
  std::printf("link %s is %s\n", laboratory.fabric().links[static_cast<size_t>(link)].name.c_str(),
              down ? "down" : "up");
  return Status::Ok();
}

Status BeginFlow(const DisturbOptions& options, Laboratory& laboratory) {
  HZ_ASSIGN_OR_RETURN(const Endpoint from, laboratory.EndpointNamed(options.from));
  HZ_ASSIGN_OR_RETURN(const Endpoint to, laboratory.EndpointNamed(options.to));
  HZ_ASSIGN_OR_RETURN(const double rate, ParseLinkRate(options.rate));
  const Way way{from, to, options.path};
  HZ_RETURN_IF_ERROR(CheckWay(laboratory.fabric(), way));
  HZ_ASSIGN_OR_RETURN(Connection connection, Connect(laboratory, way, kConnectPatience));
  const std::string& host = laboratory.fabric().nodes[static_cast<size_t>(from.host)].name;
  HZ_ASSIGN_OR_RETURN(const pid_t pid, StartFlow(NamespaceName(laboratory.name(), host),
                                                 std::move(connection), rate));
  std::vector<Flow>& flows = laboratory.state().flows;
  const int id = flows.empty() ? 1 : flows.back().id + 1;
  flows.push_back({id, pid, options.from, options.to, rate});
  const Status saved = laboratory.SaveState();
  if (!saved.ok()) {
    ::kill(pid, SIGKILL);
    return saved;
  }
  std::printf("background flow %d: %s to %s at %s\n", id, options.from.c_str(), options.to.c_str(),
              FormatLinkRate(rate).c_str());
  return Status::Ok();
}

Status EndFlows(const DisturbOptions& options, Laboratory& laboratory) {
  std::vector<Flow>& flows = laboratory.state().flows;
  const auto chosen = [&](const Flow& flow) {
    return options.flows.empty() ||
           std::find(options.flows.begin(), options.flows.end(), flow.id) != options.flows.end();
  };
  for (const int id : options.flows) {
    if (std::none_of(flows.begin(), flows.end(), [&](const Flow& one) { return one.id == id; })) {
      return InvalidArgument("there is no background flow {}; 'fabric status' lists them", id);
    }
  }
  // A number may belong to another process by now, which is not in the laboratory.
  const std::vector<NamespaceProcess> inside = ProcessesIn(NamespacesOf(laboratory.name()));
  for (const Flow& flow : flows) {
    const bool ours = std::any_of(inside.begin(), inside.end(),
                                  [&](const NamespaceProcess& one) { return one.pid == flow.pid; });
    if (ours && chosen(flow)) ::kill(flow.pid, SIGKILL);
  }
  const size_t ended = std::erase_if(flows, chosen);
  std::printf("%zu background flows ended\n", ended);
  return laboratory.SaveState();
}

Status KillRole(const DisturbOptions& options, Laboratory& laboratory) {
  HZ_RETURN_IF_ERROR(laboratory.NamespaceOf(options.host).status());
  size_t killed = 0;
  std::string others;
  for (const RoleProcess& process : RoleProcesses(laboratory)) {
    if (process.host != options.host) continue;
    const std::string kind = process.role.substr(0, process.role.find(':'));
    if (process.role != options.role && kind != options.role) {
      others += (others.empty() ? "" : ", ") + process.role;
      continue;
    }
    if (::kill(process.pid, options.signal) != 0) {
      return ErrnoError(errno, fmt::format("cannot signal process {}", process.pid));
    }
    std::printf("sent signal %d to %s of %s (pid %d)\n", options.signal, process.role.c_str(),
                process.host.c_str(), process.pid);
    ++killed;
  }
  if (killed > 0) return Status::Ok();
  return Unavailable("no '{}' runs at host {}; there are: {}", options.role, options.host,
                     others.empty() ? "none" : others);
}

using Action = std::function<Status(const DisturbOptions&, Laboratory&)>;

}  // namespace

void AddDisturbCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* disturb = app.add_subcommand("disturb", "Change rates, cut links, add traffic, kill");
  disturb->require_subcommand(1);
  disturb->footer(
      "Links are named as 'fabric status' lists them, or by their ends: leaf0,spine1.\n"
      "Rates: 500Mbit, 2.5Gbit.\n\n"
      "Examples:\n"
      "  fabric disturb rate leaf0-spine0 100Mbit\n"
      "  fabric disturb rate leaf0-spine0 nominal\n"
      "  fabric disturb link-down leaf0-spine1\n"
      "  fabric disturb flow host0 host2 --rate 200Mbit --path 0\n"
      "  fabric disturb flow-end\n"
      "  fabric disturb kill host1 rank:3");
  auto options = std::make_shared<DisturbOptions>();
  const auto add = [&](const char* name, const char* help, Action action) {
    CLI::App* command = disturb->add_subcommand(name, help);
    AddNameOption(command, &options->name);
    command->callback([options, action = std::move(action), &command_line] {
      Result<Laboratory> laboratory = Laboratory::Open(options->name);
      command_line.exit_status =
          Finish(laboratory.ok() ? action(*options, *laboratory) : laboratory.status());
    });
    return command;
  };

  CLI::App* rate = add("rate", "Change the rate of a link, for good", ChangeRate);
  rate->add_option("LINK", options->link, "Which")->required();
  rate->add_option("RATE", options->rate, "From its first end, or \"nominal\"")->required();
  rate->add_option("BACK", options->rate_back, "The other way (default: the same)");

  CLI::App* down =
      add("link-down", "Cut a link", [](const DisturbOptions& given, Laboratory& laboratory) {
        return ChangeState(given, laboratory, true);
      });
  down->add_option("LINK", options->link, "Which")->required();
  down->add_flag("--silent", options->silent,
                 "Routers do not learn of it: what goes that way is lost");
  CLI::App* up =
      add("link-up", "Mend a link", [](const DisturbOptions& given, Laboratory& laboratory) {
        return ChangeState(given, laboratory, false);
      });
  up->add_option("LINK", options->link, "Which")->required();

  CLI::App* flow = add("flow", "Send from one host to another until 'flow-end'", BeginFlow);
  flow->add_option("FROM", options->from, "HOST or HOST:NIC")->required();
  flow->add_option("TO", options->to, "HOST or HOST:NIC")->required();
  flow->add_option("--rate", options->rate, "At most so much; TCP shares what is scarce")
      ->required();
  flow->add_option("--path", options->path, "By this explicit path (default: ECMP decides)");
  CLI::App* end = add("flow-end", "End background flows", EndFlows);
  end->add_option("ID", options->flows, "Which (default: all)");

  CLI::App* kill = add("kill", "Kill a daemon or ranks of 'fabric run'", KillRole);
  kill->add_option("HOST", options->host, "Where")->required();
  kill->add_option("ROLE", options->role, "daemon, rank (all of the host's) or rank:N")->required();
  kill->add_option("--signal", options->signal, "Another signal's number (default: 9)")
      ->check(CLI::Range(1, 64));
}

}  // namespace harmonaize::fabric
