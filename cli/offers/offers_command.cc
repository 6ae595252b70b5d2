#include "cli/offers/offers_command.h"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/command_line.h"
#include "cli/daemon_http.h"
#include "cli/jobs/job_search.h"
#include "cli/json_view.h"
#include "cli/maintenance/time_words.h"
#include "cli/offers/offer_table.h"
#include "src/base/json_text.h"
#include "src/base/measure.h"

namespace harmonaize {
namespace {

constexpr char kOffersDescription[] =
    "List what the provider offers to jobs while they run: places for more ranks, and ranks that "
    "are to leave.";

constexpr char kOffersFooter[] =
    R"(You see the offers to your jobs; operators see all of this host. Kinds: 'grow' has places for more
ranks, 'reclaim' asks ranks to leave, 'move' to go to another host, 'slow_down' to send less for a
while. 'harmonaize offer' answers them. Times are UTC.

Exit status: 0; 1 when no daemon answered, or it refused; 2 for wrong options.

Examples:
  harmonaize offers
  harmonaize offers --job llama --all
  harmonaize offers --json | jq '.offers[] | select(.state == "offered") | .id')";

constexpr char kOfferDescription[] =
    "Answer an offer to one of your jobs; make offers, and answer jobs, as an operator.";

constexpr char kOfferFooter[] =
    R"(An offer is for the ranks that a job has on this host, and is made there. It may be answered at any
host of the job, once: the first answer that counts is the job's. What nobody has agreed on until its
deadline expires; what was agreed is 'fulfilled' by what the ranks do, or 'broken'. OFFER is an id as
'harmonaize offers' shows it, or the beginning of one.

Exit status: 0; 1 when no daemon answered, or it refused; 2 for wrong options.

Examples:
  harmonaize offer accept offer-3f9a01c28be4d705
  harmonaize offer counter offer-3f9a01c28be4d705 --later 20min
  harmonaize offer make llama reclaim --which 3 --within 10min        (operators)
  harmonaize offer make llama grow --ranks 2 --within 5min            (operators))";

constexpr char kEndOfOfferStatus[] =
    "Exit status: 0; 1 when no daemon answered, or it refused; 2 for wrong options.\n\n";

struct OffersOptions {
  std::string socket;
  std::string job;
  bool all = false;
  bool json = false;
};

/// The options of the subcommands of `offer`. Each subcommand sets some of them.
struct OfferOptions {
  std::string socket;
  std::string id;
  std::string job;
  std::string kind;
  int ranks = 0;
  std::vector<int> which;
  std::string within;    ///< Time for an answer.
  std::string deadline;  ///< The same as a moment.
  std::string later;     ///< Time until what is due.
  std::string due;       ///< The same as a moment.
  std::string rate;
  std::string price;
  int least_ranks = 0;
  std::string latest;
  std::string least_price;
  int rounds = -1;
  bool must = false;
  bool enforce = false;
  std::string urgency;
  std::string purpose;
  std::string reason;
  std::string not_again;
  bool insist = false;
  bool json = false;
};

/// Returns the whole id where a word is the beginning of one, as tables show it; else the word: the
/// daemon knows jobs by name, also those that have ended.
std::string WholeJobId(const DaemonHttp& daemon, const std::string& word) {
  const Result<std::string> id = AskForJobId(daemon, word);
  return id.ok() && id->starts_with(word) ? *id : word;
}

Result<std::string> List(const OffersOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindHttp(options.socket));
  std::string target = "/v1/offers";
  std::string separator = "?";
  if (!options.all) {
    target += separator + "state=open";
    separator = "&";
  }
  if (!options.job.empty()) {
    target += separator + "job=" + EncodeForUrl(WholeJobId(daemon, options.job));
  }
  HZ_ASSIGN_OR_RETURN(const std::string answer, CallDaemon(daemon, {.target = target}));
  return options.json ? IndentJson(answer) : OfferTable(answer);
}

// ---------------------------------------------------------------------------------------------
// Bodies

/// Adds a time that one option gives as a duration and another one as a moment.
Status AddTime(const std::string& duration, const std::string& moment, const char* seconds_field,
               const char* moment_field, Json* body) {
  if (!duration.empty()) {
    HZ_ASSIGN_OR_RETURN(const double seconds, SecondsInWord(duration));
    (*body)[seconds_field] = seconds;
  }
  if (!moment.empty()) {
    HZ_ASSIGN_OR_RETURN(const std::string at, MomentInWord(moment));
    (*body)[moment_field] = at;
  }
  return Status::Ok();
}

Status AddTerms(const OfferOptions& options, Json* body) {
  if (options.ranks > 0) (*body)["ranks"] = options.ranks;
  if (!options.which.empty()) (*body)["which"] = options.which;
  if (!options.price.empty()) (*body)["price"] = strtod(options.price.c_str(), nullptr);
  if (!options.rate.empty()) {
    HZ_ASSIGN_OR_RETURN(const double rate, ParseMeasure(Measure::kRate, options.rate));
    (*body)["bytes_per_second"] = rate;
  }
  return AddTime(options.later, options.due, "due_within_seconds", "due", body);
}

Status AddDeadline(const OfferOptions& options, Json* body) {
  return AddTime(options.within, options.deadline, "within_seconds", "deadline", body);
}

void AddReason(const OfferOptions& options, Json* body) {
  if (!options.reason.empty()) (*body)["reason"] = options.reason;
}

Result<Json> OrderOf(const OfferOptions& options, const std::string& job) {
  Json body = {{"job", job}, {"kind", options.kind}};
  HZ_RETURN_IF_ERROR(AddTerms(options, &body));
  HZ_RETURN_IF_ERROR(AddDeadline(options, &body));
  if (options.least_ranks > 0) body["least_ranks"] = options.least_ranks;
  HZ_RETURN_IF_ERROR(AddTime(options.latest, "", "latest_due_within_seconds", "", &body));
  if (!options.least_price.empty()) {
    body["least_price"] = strtod(options.least_price.c_str(), nullptr);
  }
  if (options.rounds >= 0) body["rounds"] = options.rounds;
  if (options.must) body["can_be_refused"] = false;
  if (options.enforce) body["enforced"] = true;
  if (!options.urgency.empty()) body["urgency"] = options.urgency;
  if (!options.purpose.empty()) body["purpose"] = options.purpose;
  if (options.insist) body["insist"] = true;
  return body;
}

Result<Json> NothingBut(const OfferOptions& options) {
  Json body = Json::object();
  AddReason(options, &body);
  return body;
}

Result<Json> RefusalOf(const OfferOptions& options) {
  Json body = Json::object();
  AddReason(options, &body);
  HZ_RETURN_IF_ERROR(AddTime(options.not_again, "", "not_again_for_seconds", "", &body));
  return body;
}

Result<Json> CounterOf(const OfferOptions& options) {
  Json body = Json::object();
  HZ_RETURN_IF_ERROR(AddTerms(options, &body));
  AddReason(options, &body);
  return body;
}

Result<Json> ProposalOf(const OfferOptions& options) {
  HZ_ASSIGN_OR_RETURN(Json body, CounterOf(options));
  HZ_RETURN_IF_ERROR(AddDeadline(options, &body));
  return body;
}

// ---------------------------------------------------------------------------------------------
// Commands

using BodyOf = Result<Json> (*)(const OfferOptions&);

/// A subcommand of `offer` about an offer that there is.
struct Verb {
  const char* name;
  const char* description;
  bool is_operators;
  BodyOf body;
  const char* example;
};

constexpr Verb kVerbs[] = {
    {"accept", "Accept an offer.", false, &NothingBut, "accept offer-3f9a01c28be4d705"},
    {"decline", "Decline an offer, and say for how long not to ask again.", false, &RefusalOf,
     "decline offer-3f9a01c28be4d705 --not-again 2h"},
    {"counter", "Ask for something else than is offered: other ranks, fewer, later.", false,
     &CounterOf, "counter offer-3f9a01c28be4d705 --ranks 1 --later 20min"},
    {"take", "Take a job's counter-proposal (operators).", true, &NothingBut,
     "take offer-3f9a01c28be4d705"},
    {"keep", "Refuse a job's counter-proposal: the offer stands as it was (operators).", true,
     &NothingBut, "keep offer-3f9a01c28be4d705 --reason 'the host is needed'"},
    {"propose", "Offer other terms (operators). What is not named stays.", true, &ProposalOf,
     "propose offer-3f9a01c28be4d705 --ranks 2 --within 5min"},
    {"withdraw",
     "Take an offer back (operators). Places that a job has accepted are a promise "
     "that is broken by it.",
     true, &NothingBut, "withdraw offer-3f9a01c28be4d705"}};

Result<std::string> Post(const DaemonHttp& daemon, bool as_json, const std::string& target,
                         const Json& body) {
  const std::string text = JsonText(body);
  HZ_ASSIGN_OR_RETURN(const std::string answer,
                      CallDaemon(daemon, {.method = "POST", .target = target, .body = text}));
  if (as_json) return IndentJson(answer);
  HZ_ASSIGN_OR_RETURN(const Json offer, ParseDocument(answer));
  return OfferLine(offer) + "\n";
}

Result<std::string> Make(const OfferOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindOperatorsHttp(options.socket));
  HZ_ASSIGN_OR_RETURN(const Json order, OrderOf(options, WholeJobId(daemon, options.job)));
  return Post(daemon, options.json, "/v1/offers", order);
}

/// Makes the call as an operator, or as the tenant whose job is asked.
Result<std::string> ChangeOffer(const OfferOptions& options, const Verb& verb) {
  HZ_ASSIGN_OR_RETURN(const Json body, verb.body(options));
  const Result<DaemonHttp> daemon =
      verb.is_operators ? FindOperatorsHttp(options.socket) : FindTenantsHttp(options.socket);
  HZ_RETURN_IF_ERROR(daemon.status());
  return Post(*daemon, options.json,
              fmt::format("/v1/offers/{}/{}", EncodeForUrl(options.id), verb.name), body);
}

std::string CheckRate(const std::string& text) {
  return ParseMeasure(Measure::kRate, text).status().message();
}

CLI::Option* AddTimeOption(CLI::App* command, const char* name, std::string* value,
                           const char* what) {
  return command->add_option(name, *value, what)
      ->check(CLI::Validator(CheckSecondsWord, ""))
      ->type_name("TIME");
}

CLI::Option* AddMomentOption(CLI::App* command, const char* name, std::string* value,
                             const char* what) {
  return command->add_option(name, *value, what)
      ->check(CLI::Validator(CheckMomentWord, ""))
      ->type_name("MOMENT");
}

void AddTermOptions(CLI::App* command, OfferOptions* options) {
  command->add_option("--ranks", options->ranks, "How many ranks come, leave or move")
      ->check(CLI::Range(1, 512))
      ->type_name("N");
  command->add_option("--which", options->which, "The ranks that leave or move, as 1,3")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber)
      ->type_name("RANKS");
  CLI::Option* const later = AddTimeOption(
      command, "--later", &options->later,
      "Due so long from now: places are kept, ranks have left, a\nrate holds until then");
  AddMomentOption(command, "--due", &options->due, "The same as a moment")->excludes(later);
  command->add_option("--rate", options->rate, "Of a slow_down, such as '100 MB/s'")
      ->check(CLI::Validator(CheckRate, ""))
      ->type_name("RATE");
  command->add_option("--price", options->price, "In credits, for a rank and an hour")
      ->check(CLI::NonNegativeNumber)
      ->type_name("PRICE");
}

void AddDeadlineOptions(CLI::App* command, OfferOptions* options) {
  CLI::Option* const within =
      AddTimeOption(command, "--within", &options->within, "To be answered so long from now");
  AddMomentOption(command, "--deadline", &options->deadline, "The same as a moment")
      ->excludes(within);
}

void AddReasonOption(CLI::App* command, OfferOptions* options) {
  command->add_option("--reason", options->reason, "Why, for the other party")->type_name("TEXT");
}

void AddMake(CLI::App& offer, CommandLine& command_line) {
  CLI::App* make = offer.add_subcommand("make", "Make an offer to a job (operators).");
  auto options = std::make_shared<OfferOptions>();
  make->footer(
      R"(The job needs ranks on this host. --within or --deadline says until when it may answer; ranks that
are to leave have left by then, and places are kept for ten minutes longer, unless --later or --due
says otherwise. A job that has said in [elastic] how it answers has answered when this returns.

)" + std::string(kEndOfOfferStatus) +
      "Examples:\n  harmonaize offer make llama reclaim --which 3 --within 10min\n"
      "  harmonaize offer make llama grow --ranks 4 --least-ranks 1 --within 5min\n"
      "  harmonaize offer make llama slow_down --rate '1 GB/s' --within 1min --later 1h\n"
      "  harmonaize offer make llama reclaim --must --enforce --within 2min");
  make->add_option("JOB", options->job, "The job: its name, or its id")->required()->type_name("");
  make->add_option("KIND", options->kind, "grow, reclaim, move or slow_down")
      ->required()
      ->check(CLI::IsMember({"grow", "reclaim", "move", "slow_down"}))
      ->type_name("");
  AddTermOptions(make, options.get());
  AddDeadlineOptions(make, options.get());
  make->add_option("--least-ranks", options->least_ranks,
                   "Take a counter-proposal of so many ranks or more at once")
      ->check(CLI::Range(1, 512))
      ->type_name("N");
  AddTimeOption(make, "--latest", &options->latest, "Likewise one that is due within this time");
  make->add_option("--least-price", options->least_price, "Likewise one of this price or more")
      ->check(CLI::NonNegativeNumber)
      ->type_name("PRICE");
  make->add_option("--rounds", options->rounds, "Most counter-proposals (default: 4)")
      ->check(CLI::Range(0, 16))
      ->type_name("N");
  make->add_flag("--must", options->must, "It cannot be refused");
  make->add_flag("--enforce", options->enforce,
                 "The daemon ends processes whose ranks have not left in time");
  make->add_option("--urgency", options->urgency, "low, normal or high (default: normal)")
      ->check(CLI::IsMember({"low", "normal", "high"}))
      ->type_name("WORD");
  make->add_option("--purpose", options->purpose, "What for; the job reads it")->type_name("TEXT");
  make->add_flag("--insist", options->insist,
                 "Also where the job does not want to be asked again yet");
  make->add_flag("--json", options->json, "Print the daemon's answer as JSON");
  AddSocketOption(make, &options->socket);
  make->callback([options, &command_line] {
    const bool says_when = !options->within.empty() || !options->deadline.empty() ||
                           !options->later.empty() || !options->due.empty();
    if (!says_when) {
      Complain("until when may the job answer? --within 10min, or --deadline MOMENT");
      command_line.exit_status = kUsageStatus;
      return;
    }
    command_line.exit_status = Print(Make(*options));
  });
}

void AddVerb(CLI::App& offer, CommandLine& command_line, const Verb& verb) {
  CLI::App* command = offer.add_subcommand(verb.name, verb.description);
  auto options = std::make_shared<OfferOptions>();
  command->footer(std::string(kEndOfOfferStatus) + "Example:\n  harmonaize offer " + verb.example);
  command->add_option("OFFER", options->id, "Its id, or the beginning of it")
      ->required()
      ->type_name("");
  if (verb.body == &CounterOf || verb.body == &ProposalOf) AddTermOptions(command, options.get());
  if (verb.body == &ProposalOf) AddDeadlineOptions(command, options.get());
  if (verb.body == &RefusalOf) {
    AddTimeOption(command, "--not-again", &options->not_again,
                  "Do not ask for the same again for so long");
  }
  AddReasonOption(command, options.get());
  command->add_flag("--json", options->json, "Print the daemon's answer as JSON");
  AddSocketOption(command, &options->socket);
  command->callback([options, &command_line, verb] {
    command_line.exit_status = Print(ChangeOffer(*options, verb));
  });
}

}  // namespace

void AddOffersCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* offers = app.add_subcommand("offers", kOffersDescription);
  auto options = std::make_shared<OffersOptions>();
  offers->footer(kOffersFooter);
  offers->add_option("--job", options->job, "Of this job alone: its name, or its id")
      ->type_name("JOB");
  offers->add_flag("--all", options->all, "Also those that have ended");
  offers->add_flag("--json", options->json, "Print what the daemon says as JSON");
  AddSocketOption(offers, &options->socket);
  offers->callback([options, &command_line] { command_line.exit_status = Print(List(*options)); });
}

void AddOfferCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* offer = app.add_subcommand("offer", kOfferDescription);
  offer->footer(kOfferFooter);
  offer->require_subcommand(1);
  for (const Verb& verb : kVerbs) AddVerb(*offer, command_line, verb);
  AddMake(*offer, command_line);
}

}  // namespace harmonaize
