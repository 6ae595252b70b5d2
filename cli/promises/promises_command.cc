#include "cli/promises/promises_command.h"

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/command_line.h"
#include "cli/daemon_http.h"
#include "cli/json_view.h"
#include "cli/offers/offer_table.h"
#include "cli/promises/promise_table.h"
#include "src/base/json_text.h"

namespace harmonaize {
namespace {

constexpr char kDescription[] =
    "Show what notice was promised before maintenance, reclaims and restarts, what was agreed by "
    "offers, and whether it was kept.";

constexpr char kFooter[] =
    R"(A promise of notice is a floor: what was announced for a later time must not begin before it. A tenant
sees the promises that its own jobs were given; operators see all of this host, with the jobs that
were told and their answers (--json). The record outlives the daemon. Times are UTC.

Outcomes: 'kept'; 'broken' began before the time that was promised, or is announced for an earlier one
now; 'called off'; 'no notice was promised' began without a time having
been said before; 'open' is still to come, or nobody has said that it began; 'not known' ended without
anybody saying that it began. A job counts once, however often it was told of changes; it has
acknowledged if it has what it was told last.

Below are the offers ('harmonaize offers') that a job has agreed to, or could not refuse: 'open' is to
be done until it is due; 'kept'; or 'broken' by the tenant, whose ranks have not come or left, or by
the provider, who has taken the places back. --json has them as "offers".

Exit status: 0; 1 when no daemon answered, or it refused; 2 for wrong options.

Examples:
  harmonaize promises
  harmonaize promises --json | jq '.promises[] | select(.kept == false)'
  harmonaize promises --json | jq '.offers[] | select(.state == "broken")')";

struct PromisesOptions {
  std::string socket;
  bool json = false;
};

Result<std::string> Show(const PromisesOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindHttp(options.socket));
  HZ_ASSIGN_OR_RETURN(Json document, GetDocument(daemon, "/v1/promises"));
  HZ_ASSIGN_OR_RETURN(const Json offers, GetDocument(daemon, "/v1/offers"));
  document["offers"] = AgreedOffers(ListAt(offers, "offers"));
  const std::string text = JsonText(document);
  return options.json ? IndentJson(text) : PromiseTable(text);
}

}  // namespace

void AddPromisesCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* promises = app.add_subcommand("promises", kDescription);
  auto options = std::make_shared<PromisesOptions>();
  promises->footer(kFooter);
  promises->add_flag("--json", options->json, "Print what the daemon says as JSON");
  AddSocketOption(promises, &options->socket);
  promises->callback(
      [options, &command_line] { command_line.exit_status = Print(Show(*options)); });
}

}  // namespace harmonaize
