#include "cli/token/token_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/daemon_http.h"
#include "cli/json_view.h"
#include "cli/maintenance/time_words.h"
#include "cli/token/token_table.h"
#include "src/base/json_text.h"

namespace harmonaize {
namespace {

constexpr char kTokenDescription[] =
    "Make, list and revoke the tokens with which programs on other hosts use the daemon's HTTP "
    "interface.";

constexpr char kTokenFooter[] =
    R"(A caller at the daemon's Unix sockets needs no token: the kernel tells who it is. Over TCP (the
table [http] of the daemon's configuration) a caller shows one: 'Authorization: Bearer hz_...'.
Tokens belong to this host's daemon alone. Only operators may handle them.

Exit status: 0; 1 when no daemon answered, this user is no operator, or the daemon refused; 2 for
wrong options.

Examples:
  harmonaize token create --scope metrics --days 365 --note prometheus > token
  harmonaize token list
  harmonaize token revoke 3f9a01c28be4d705)";

constexpr char kCreateDescription[] = "Make a token, and print its secret.";

constexpr char kCreateFooter[] =
    R"(The secret is printed alone on standard output, this once: the daemon keeps no copy of it. What else
there is to know of the token goes to standard error.

Scopes:
  tenant              read and change what is the tenant's of --tenant
  operator            read and change everything
  operator-read-only  read everything
  metrics             read /metrics

Exit status: 0; 1 when no daemon answered, this user is no operator, or the daemon refused; 2 for
wrong options.

Examples:
  harmonaize token create --scope tenant --tenant alice --days 12h --note laptop
  harmonaize token create --scope metrics --days 365 --note prometheus > token)";

constexpr char kListDescription[] =
    "List the tokens that hold: their ids, what they may do, and until when. Nothing shows "
    "secrets.";

constexpr char kListFooter[] =
    R"(Exit status: 0; 1 when no daemon answered, or this user is no operator; 2 for wrong options.

Examples:
  harmonaize token list
  harmonaize token list --json | jq -r '.tokens[] | select(.scope == "metrics").id')";

constexpr char kRevokeDescription[] =
    "End a token at once: the connections and event streams of those who have shown it, too.";

constexpr char kRevokeFooter[] =
    R"(Exit status: 0; 1 when no daemon answered, this user is no operator, or there is no such token; 2
for wrong options.

Example:
  harmonaize token revoke 3f9a01c2d4e5)";

/// Longest time that a token may hold, in days, as the daemon has it.
constexpr double kMostDays = 366;
/// The daemon takes no shorter time, in days: a minute and a half.
constexpr double kLeastDays = 0.001;
constexpr double kSecondsOfDay = 86400;

struct CreateOptions {
  std::string socket;
  std::string scope;
  std::string tenant;
  std::string note;
  std::string days = "30";
  bool json = false;
};

struct ListOptions {
  std::string socket;
  bool json = false;
};

struct RevokeOptions {
  std::string socket;
  std::string id;
};

/// Returns the days that "30", "30d" or "12h" stand for. Errors: kInvalidArgument.
Result<double> DaysIn(const std::string& text) {
  // Without a unit days are meant.
  const bool is_number = text.find_first_not_of("0123456789.") == std::string::npos;
  const Result<double> seconds = SecondsInWord(is_number ? text + "d" : text);
  if (!seconds.ok() || *seconds / kSecondsOfDay < kLeastDays ||
      *seconds / kSecondsOfDay > kMostDays) {
    return InvalidArgument("'{}' is no time from 0.001 to 366 days, such as 30, 30d or 12h", text);
  }
  return *seconds / kSecondsOfDay;
}

Result<std::string> Create(const CreateOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindOperatorsHttp(options.socket));
  HZ_ASSIGN_OR_RETURN(const double days, DaysIn(options.days));
  Json order = {{"scope", options.scope}, {"days", days}};
  if (!options.tenant.empty()) order["tenant"] = options.tenant;
  if (!options.note.empty()) order["note"] = options.note;
  const std::string body = JsonText(order);
  HZ_ASSIGN_OR_RETURN(const std::string answer,
                      CallDaemon(daemon, {.method = "POST", .target = "/v1/tokens", .body = body}));
  HZ_ASSIGN_OR_RETURN(const Json made, ParseDocument(answer));
  if (!At(made, "token").is_string()) {
    return RemoteError(
        "the daemon's answer has no token in it; `harmonaize token list` shows "
        "whether there is one");
  }
  if (options.json) return IndentJson(answer);
  Complain(fmt::format("token {} holds until {}; its secret is not shown again", TextAt(made, "id"),
                       MomentAt(made, "expires")));
  return TextAt(made, "token") + "\n";
}

Result<std::string> List(const ListOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindOperatorsHttp(options.socket));
  HZ_ASSIGN_OR_RETURN(const std::string answer, CallDaemon(daemon, {.target = "/v1/tokens"}));
  return options.json ? IndentJson(answer) : TokenTable(answer);
}

Result<std::string> Revoke(const RevokeOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindOperatorsHttp(options.socket));
  HZ_RETURN_IF_ERROR(
      CallDaemon(daemon, {.method = "DELETE", .target = "/v1/tokens/" + EncodeForUrl(options.id)})
          .status());
  return "token " + options.id + " is revoked\n";
}

int RunCreate(const CreateOptions& options) {
  const bool of_tenant = options.scope == "tenant";
  if (of_tenant == options.tenant.empty()) {
    Complain(of_tenant ? "a token of scope tenant needs --tenant: the tenant that it stands for"
                       : "only a token of scope tenant has a --tenant");
    return kUsageStatus;
  }
  return Print(Create(options));
}

void AddCreate(CLI::App& token, CommandLine& command_line) {
  CLI::App* create = token.add_subcommand("create", kCreateDescription);
  auto options = std::make_shared<CreateOptions>();
  create->footer(kCreateFooter);
  create->add_option("--scope", options->scope, "What the token lets its owner do")
      ->required()
      ->check(CLI::IsMember({"tenant", "operator", "operator-read-only", "metrics"}))
      ->type_name("SCOPE");
  create
      ->add_option("--tenant", options->tenant,
                   "Whose token it is: a user's name or number, or the\n"
                   "name of a tenant's socket")
      ->type_name("TENANT");
  create
      ->add_option("--days", options->days,
                   "How long it holds, in days, or a time such as 30d or\n"
                   "12h; 366 days at most (default: 30)")
      ->check(CLI::Validator(
          [](const std::string& text) { return DaysIn(text).status().message(); }, ""))
      ->type_name("DAYS");
  create->add_option("--note", options->note, "What it is for; 'token list' shows it")
      ->type_name("TEXT");
  create->add_flag("--json", options->json, "Print the daemon's answer, with the secret, as JSON");
  AddSocketOption(create, &options->socket);
  create->callback([options, &command_line] { command_line.exit_status = RunCreate(*options); });
}

void AddList(CLI::App& token, CommandLine& command_line) {
  CLI::App* list = token.add_subcommand("list", kListDescription);
  auto options = std::make_shared<ListOptions>();
  list->footer(kListFooter);
  list->add_flag("--json", options->json, "Print what the daemon says as JSON");
  AddSocketOption(list, &options->socket);
  list->callback([options, &command_line] { command_line.exit_status = Print(List(*options)); });
}

void AddRevoke(CLI::App& token, CommandLine& command_line) {
  CLI::App* revoke = token.add_subcommand("revoke", kRevokeDescription);
  auto options = std::make_shared<RevokeOptions>();
  revoke->footer(kRevokeFooter);
  revoke->add_option("TOKEN", options->id, "The token's id, as 'token list' shows it")
      ->required()
      ->type_name("");
  AddSocketOption(revoke, &options->socket);
  revoke->callback(
      [options, &command_line] { command_line.exit_status = Print(Revoke(*options)); });
}

}  // namespace

void AddTokenCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* token = app.add_subcommand("token", kTokenDescription);
  token->footer(kTokenFooter);
  token->require_subcommand(1);
  AddCreate(*token, command_line);
  AddList(*token, command_line);
  AddRevoke(*token, command_line);
}

}  // namespace harmonaize
