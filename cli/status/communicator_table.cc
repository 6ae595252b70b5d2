#include "cli/status/communicator_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <vector>

#include "cli/human_units.h"
#include "cli/json_view.h"
#include "cli/text_table.h"
#include "src/base/json_text.h"

namespace harmonaize {
namespace {

/// Returns the time under `key` as a fraction of `whole`, such as "97%".
std::string ShareAt(const Json& whole, const char* whole_key, const Json& part, const char* key) {
  const Json& all = At(whole, whole_key);
  const Json& some = At(part, key);
  if (!all.is_number() || !some.is_number() || all.get<double>() <= 0) return kMissing;
  return fmt::format("{:.0f}%", 100 * some.get<double>() / all.get<double>());
}

/// Returns whether a document comes from the daemon that chooses the communicator's plans. That one
/// alone has their history; operators are told besides.
bool IsOfHome(const Json& document) {
  const Json& home = At(document, "home");
  return home.is_boolean() ? home.get<bool>() : At(document, "history").is_array();
}

std::string Joined(const Json& list) {
  std::string text;
  for (const Json& one : list) {
    text += (text.empty() ? "" : " ") + (one.is_string() ? one.get<std::string>() : JsonText(one));
  }
  return text;
}

std::string PlanText(const Json& plan) {
  std::string text = TextAt(plan, "algorithm");
  const Json& order = ListAt(plan, "hosts");
  if (!order.empty() && order.size() <= 8) text += ", " + Joined(order);
  if (!order.empty() && order.size() > 8) text += ", " + TextAt(plan, "order");
  if (!ListAt(plan, "groups").empty()) text += ", by groups";
  const Json& pieces = At(plan, "pieces");
  if (pieces.is_number() && pieces.get<int>() > 1)
    text += fmt::format(", {} pieces", pieces.get<int>());
  // Operators alone are told the way through the fabric.
  return At(plan, "paths").is_string() ? text + ", " + TextAt(plan, "paths") + " paths" : text;
}

/// Prints what the job was granted of links, if anything.
void PrintSharing(const Json& sharing, std::string* text) {
  const auto number = [&sharing](const char* field) {
    const Json& value = At(sharing, field);
    return value.is_number() ? value.get<double>() : 0.0;
  };
  std::vector<std::string> parts;
  if (number("priority") > 0) parts.push_back("priority " + TextAt(sharing, "priority"));
  if (number("bandwidth_floor") > 0) {
    parts.push_back(fmt::format("a floor of {}, which is {}", HumanRate(number("bandwidth_floor")),
                                TextAt(sharing, "floor")));
  }
  if (number("bandwidth_cap") > 0) {
    parts.push_back("a cap of " + HumanRate(number("bandwidth_cap")));
  }
  if (parts.empty()) return;
  *text += fmt::format("On links it has {}.\n", fmt::join(parts, ", "));
  if (At(sharing, "why").is_string()) *text += TextAt(sharing, "why") + "\n";
}

void PrintHead(const Json& document, std::string* text) {
  const std::string name = TextAt(document, "name");
  *text += fmt::format("communicator {}{}: {} ranks",
                       TextAt(document, At(document, "id").is_string() ? "id" : "communicator"),
                       name.empty() || name == kMissing ? "" : " '" + name + "'",
                       TextAt(document, "ranks"));
  const Json& hosts = ListAt(document, "hosts");
  if (hosts.empty()) {
    *text +=
        " on this host, which carry small operations out themselves: 'harmonaize explain --ranks'\n"
        "tells which, and the daemon's workers the others, in one pass over the memory.\n";
    return;
  }
  *text += fmt::format(" on {} hosts\n", hosts.size());
  TextTable table({"host", "ranks", ""}, 3);
  for (const Json& host : hosts) {
    table.Add({TextAt(host, "host"), Joined(ListAt(host, "ranks")),
               At(host, "here") == true ? "this one" : ""});
  }
  table.Print(text);
  PrintSharing(At(document, "sharing"), text);
}

void PrintChoices(const Json& plans, std::string* text) {
  TextTable table({"collective", "about", "plan", "predicted", "of bound", "done", "mean size",
                   "measured", "of predicted", "of bound"},
                  3);
  for (const Json& plan : plans) {
    const Json& measured = At(plan, "measured");
    table.Add({TextAt(plan, "collective"), BytesAt(plan, "bytes"), PlanText(plan),
               TimeAt(plan, "predicted_seconds"),
               ShareAt(plan, "predicted_seconds", plan, "bound_seconds"),
               TextAt(measured, "operations"), BytesAt(measured, "bytes"),
               TimeAt(measured, "seconds"),
               ShareAt(measured, "predicted_seconds", measured, "seconds"),
               ShareAt(measured, "seconds", measured, "bound_seconds")});
  }
  *text += "\n";
  table.Print(text);
}

void PrintCandidates(const Json& plan, std::string* text) {
  const Json& candidates = ListAt(plan, "candidates");
  if (candidates.empty()) return;
  *text += "\n";
  TextTable table(
      {fmt::format("{} of about {}", TextAt(plan, "collective"), BytesAt(plan, "bytes")),
       "predicted"},
      1);
  for (const Json& candidate : candidates) {
    table.Add({PlanText(candidate), TimeAt(candidate, "predicted_seconds")});
  }
  const Json& considered = At(plan, "considered");
  if (considered.is_number_unsigned() && considered.get<size_t>() > candidates.size()) {
    table.AddNote(fmt::format("... and {} more", considered.get<size_t>() - candidates.size()));
  }
  table.Print(text);
}

std::string ClockAt(const Json& object, const char* key) {
  const Json& value = At(object, key);
  if (!value.is_number()) return kMissing;
  const auto seconds = static_cast<std::time_t>(value.get<double>());
  std::tm local{};
  char text[32];
  if (localtime_r(&seconds, &local) == nullptr) return kMissing;
  return {text, std::strftime(text, sizeof(text), "%F %T", &local)};
}

std::string OutcomeText(const Json& change) {
  std::string text = TextAt(change, "outcome");
  if (At(change, "from").is_number()) text += " from #" + TextAt(change, "from");
  if (At(change, "called_off").is_string()) text += ": " + TextAt(change, "called_off");
  return text;
}

}  // namespace

Result<std::string> PlanHistoryTable(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json json, ParseDocument(document));
  std::string text;
  PrintHead(json, &text);
  if (ListAt(json, "hosts").empty()) return text;
  if (!IsOfHome(json)) {
    return text + "The daemon of another host chooses its plans, and has their history.\n";
  }
  const Json& congestion = At(json, "congestion");
  const Json& slowdown = At(congestion, "slowdown");
  if (slowdown.is_number()) {
    text +=
        fmt::format("Congestion: {} ({:.2f} times as long as where links carry what is stated)\n",
                    TextAt(congestion, "level"), slowdown.get<double>());
  }
  const Json& history = ListAt(json, "history");
  if (history.empty()) return text + "Its plans have not changed.\n";
  for (const Json& change : history) {
    text +=
        fmt::format("\n{}  {}\n{}, {} after it was proposed\n", ClockAt(change, "unix_seconds"),
                    TextAt(change, "reason"), OutcomeText(change), TimeAt(change, "took_seconds"));
    TextTable table({"collective", "about", "", "plan", "predicted"}, 4);
    const Json& before = ListAt(change, "before");
    const Json& after = ListAt(change, "after");
    for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
      table.Add({TextAt(before[i], "collective"), BytesAt(before[i], "bytes"), "before",
                 PlanText(before[i]), TimeAt(before[i], "predicted_seconds")});
      table.Add({"", "", "after", PlanText(after[i]), TimeAt(after[i], "predicted_seconds")});
    }
    table.Print(&text);
  }
  return text;
}

Result<std::string> CommunicatorTable(std::string_view document) {
  HZ_ASSIGN_OR_RETURN(const Json json, ParseDocument(document));
  std::string text;
  PrintHead(json, &text);
  if (ListAt(json, "hosts").empty()) return text;
  const Json& plans = ListAt(json, "plans");
  if (plans.empty()) {
    return text + "It has carried out no collective between the hosts yet.\n";
  }
  PrintChoices(plans, &text);
  for (const Json& plan : plans) PrintCandidates(plan, &text);
  if (!IsOfHome(json)) {
    text +=
        "\nThe daemon of another host chose the plans; it can tell what they were chosen from.\n";
  }
  return text;
}

}  // namespace harmonaize
