#include "cli/agents/agents_command.h"

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/agents/agent_table.h"
#include "cli/command_line.h"
#include "cli/daemon_http.h"
#include "cli/jobs/job_search.h"
#include "cli/json_view.h"
#include "src/base/json_text.h"

namespace harmonaize {
namespace {

constexpr char kAgentsDescription[] =
    "List the agents of elastic jobs: launchers that start more ranks when they are offered "
    "places.";

constexpr char kAgentsFooter[] =
    R"(A job has an agent on each host where it was started by 'harmonaize run --elastic MIN:MAX --name NAME'.
The agent tells the daemon how many ranks it would start now ('free places'): so many can be offered
there, also before the job has ranks on that host. You see the agents of your jobs; operators see all,
and the addresses of the other hosts. Times are UTC.

Standing: 'attached' hears of the job; 'asking' has a ticket whose home has not answered yet; 'waiting'
has neither ranks of the job on its host nor a ticket that leads to some. A line below says why.
Ranks here, of: the job's ranks on this host, and on all hosts. Ticket: whether the agent has brought
one that leads to another host (--ticket FILE). Ties: hosts with ranks of the job that pass on to this
one what concerns the job; a host with ranks needs none.
Gone in: when the agent is forgotten, unless it is heard of before. Agents of this host renew
themselves every second, and other hosts tell of theirs every ten. Below an agent are the offers
that it acts on ('harmonaize offers').

JOB is the name of a job, its id, or the beginning of the id.

Exit status: 0; 1 when no daemon answered, or there is no such job; 2 for wrong options.

Examples:
  harmonaize agents
  harmonaize agents llama
  harmonaize agents --json | jq '[.agents[], .elsewhere[]] | map(.places) | add')";

struct AgentsOptions {
  std::string socket;
  std::string job;
  bool json = false;
};

Result<std::string> ListAgents(const AgentsOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindHttp(options.socket));
  HZ_ASSIGN_OR_RETURN(Json document, GetDocument(daemon, "/v1/agents"));
  if (!options.job.empty()) {
    HZ_ASSIGN_OR_RETURN(const std::string id, AskForJobId(daemon, options.job));
    document = AgentsOfJob(document, id);
  }
  if (!options.json) return AgentTable(document);
  return IndentJson(JsonText(document));
}

}  // namespace

void AddAgentsCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* agents = app.add_subcommand("agents", kAgentsDescription);
  auto options = std::make_shared<AgentsOptions>();
  agents->footer(kAgentsFooter);
  agents->add_option("JOB", options->job, "A job's name, its id, or the beginning of the id")
      ->type_name("");
  agents->add_flag("--json", options->json, "Print what the daemon says as JSON");
  AddSocketOption(agents, &options->socket);
  agents->callback(
      [options, &command_line] { command_line.exit_status = Print(ListAgents(*options)); });
}

}  // namespace harmonaize
