#include "cli/top/top_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "cli/human_units.h"
#include "cli/json_view.h"
#include "cli/status/communicator_label.h"
#include "cli/status/controller_table.h"
#include "cli/text_table.h"
#include "cli/top/growth.h"

namespace harmonaize {
namespace {

/// Rows with their sort keys, the largest first.
class BusiestFirst {
 public:
  void Add(double weight, std::vector<std::string> row) {
    rows_.emplace_back(weight, std::move(row));
  }
  /// Puts at most so many of them into the table, and tells how many are left out.
  void Print(size_t most, TextTable* table, std::string* text) {
    if (rows_.empty()) return;
    std::stable_sort(rows_.begin(), rows_.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (size_t i = 0; i < std::min(rows_.size(), most); ++i) table->Add(rows_[i].second);
    *text += "\n";
    table->Print(text);
    if (rows_.size() > most) *text += fmt::format("and {} more\n", rows_.size() - most);
  }

 private:
  std::vector<std::pair<double, std::vector<std::string>>> rows_;
};

std::string PerSecond(double count, double seconds) {
  return count < 0 ? kMissing : fmt::format("{:.4g}", count / seconds);
}

std::string ShortTenantName(const Json& tenant) {
  const std::string name = TextAt(tenant, "name");
  return name == kMissing ? "uid " + TextAt(tenant, "uid") : name;
}

std::map<std::string, Json> ByKey(const Json& list, const char* key) {
  std::map<std::string, Json> found;
  for (const Json& one : list) found[TextAt(one, key)] = one;
  return found;
}

/// Returns all communicators of all tenants, by number.
std::map<std::string, Json> CommunicatorsOf(const Json& document) {
  std::map<std::string, Json> found;
  for (const Json& tenant : ListAt(document, "tenants")) {
    found.merge(ByKey(ListAt(tenant, "communicators"), "id"));
  }
  return found;
}

std::string HeadOf(const Json& before, const Json& after, double seconds) {
  const Json& daemon = At(after, "daemon");
  std::string text = fmt::format("harmonaized {}, up {}, {} workers", TextAt(daemon, "version"),
                                 DurationAt(daemon, "uptime_seconds"), TextAt(daemon, "workers"));
  const Json& workers = ListAt(daemon, "worker_counters");
  const Json& workers_before = ListAt(At(before, "daemon"), "worker_counters");
  double busy = 0;
  for (size_t i = 0; i < workers.size() && i < workers_before.size(); ++i) {
    busy += std::max(Growth(workers_before[i], workers[i], "busy_seconds"), 0.0);
  }
  if (!workers.empty()) {
    text += fmt::format(", {} busy", ShareOf(busy, seconds * static_cast<double>(workers.size())));
  }
  const Json& cluster = At(after, "cluster");
  if (cluster.is_object()) {
    text += fmt::format("; linked with {} daemons", TextAt(cluster, "linked_daemons"));
  }
  return text + "\n";
}

/// Returns how many operations of a communicator wait for ranks.
std::string WaitingCount(const Json& communicator) {
  const Json& not_listed = At(communicator, "waiting_not_listed");
  const size_t more = not_listed.is_number_unsigned() ? not_listed.get<size_t>() : 0;
  return std::to_string(ListAt(communicator, "waiting").size() + more);
}

/// Returns the plan of most operations.
std::string MainPlan(const Json& communicator) {
  const Json* main = nullptr;
  for (const Json& plan : ListAt(communicator, "plans")) {
    const auto operations = [](const Json& one) { return Growth({}, one, "operations"); };
    if (main == nullptr || operations(plan) > operations(*main)) main = &plan;
  }
  if (main == nullptr) return "";
  std::string text = fmt::format("{} {} {}", TextAt(*main, "collective"), BytesAt(*main, "bytes"),
                                 TextAt(*main, "algorithm"));
  const std::string order = TextAt(*main, "order");
  return order.empty() || order == kMissing ? text : text + ", " + order;
}

void PrintTenants(const Json& before, const Json& after, double seconds, size_t rows,
                  std::string* text) {
  TextTable table({"tenant", "sessions", "communicators", "operations/s", "bytes"}, 1);
  BusiestFirst tenants;
  std::map<std::string, Json> earlier = ByKey(ListAt(before, "tenants"), "uid");
  for (const Json& tenant : ListAt(after, "tenants")) {
    const Json& was = earlier[TextAt(tenant, "uid")];
    tenants.Add(Growth(was, tenant, "bytes"),
                {ShortTenantName(tenant), TextAt(tenant, "sessions"),
                 std::to_string(ListAt(tenant, "communicators").size()),
                 PerSecond(Growth(was, tenant, "operations"), seconds),
                 RateOf(was, tenant, "bytes", seconds)});
  }
  tenants.Print(rows, &table, text);
}

void PrintCommunicators(const Json& before, const Json& after, double seconds, size_t rows,
                        std::string* text) {
  TextTable table({"communicator", "job", "tenant", "most go by", "congestion", "ranks", "hosts",
                   "operations/s", "bytes", "inline/s", "inline", "waiting", "plans changed"},
                  5);
  BusiestFirst communicators;
  std::map<std::string, Json> earlier = CommunicatorsOf(before);
  for (const Json& tenant : ListAt(after, "tenants")) {
    for (const Json& one : ListAt(tenant, "communicators")) {
      const Json& was = earlier[TextAt(one, "id")];
      const std::string state = TextAt(one, "state");
      const std::string congestion = TextAt(one, "congestion");
      communicators.Add(
          Growth(was, one, "bytes") + Growth(was, one, "inline_bytes"),
          {CommunicatorIdOf(one), JobLabelOf(one), ShortTenantName(tenant),
           state == "ready" ? MainPlan(one) : state, congestion == kMissing ? "" : congestion,
           TextAt(one, "ranks"), At(one, "hosts").is_null() ? "1" : TextAt(one, "hosts"),
           PerSecond(Growth(was, one, "operations"), seconds), RateOf(was, one, "bytes", seconds),
           PerSecond(Growth(was, one, "inline_operations"), seconds),
           RateOf(was, one, "inline_bytes", seconds), WaitingCount(one),
           TextAt(one, "plan_changes")});
    }
  }
  communicators.Print(rows, &table, text);
}

void PrintRails(const Json& before, const Json& after, double seconds, size_t rows,
                std::string* text) {
  TextTable table({"peer", "rail", "sends", "receives", "busy"}, 2);
  BusiestFirst rails;
  std::map<std::string, Json> peers = ByKey(ListAt(At(before, "cluster"), "links"), "peer");
  for (const Json& link : ListAt(At(after, "cluster"), "links")) {
    std::map<std::string, Json> earlier =
        ByKey(ListAt(peers[TextAt(link, "peer")], "rails"), "name");
    for (const Json& rail : ListAt(link, "rails")) {
      const Json& was = earlier[TextAt(rail, "name")];
      const double moved = Growth(was, rail, "sent_bytes") + Growth(was, rail, "received_bytes");
      if (moved == 0) continue;
      rails.Add(moved, {TextAt(link, "peer"), TextAt(rail, "name"),
                        RateOf(was, rail, "sent_bytes", seconds),
                        RateOf(was, rail, "received_bytes", seconds),
                        ShareOf(Growth(was, rail, "busy_seconds"), seconds)});
    }
  }
  rails.Print(rows, &table, text);
}

void PrintSlowLinks(const Json& after, size_t rows, std::string* text) {
  TextTable table({"slow link", "stated", "plans count on"}, 1);
  BusiestFirst links;
  for (const Json& link : ListAt(At(after, "cluster"), "fabric_links")) {
    const double stated = Growth({}, link, "stated_bytes_per_second");
    const double planned = Growth({}, link, "planned_bytes_per_second");
    if (planned < 0 || planned >= stated) continue;
    links.Add(stated - planned, {TextAt(link, "from") + " to " + TextAt(link, "to"),
                                 HumanRate(stated), HumanRate(planned)});
  }
  links.Print(rows, &table, text);
}

}  // namespace

Result<std::string> TopView(std::string_view before, std::string_view after, double seconds,
                            size_t rows) {
  HZ_ASSIGN_OR_RETURN(const Json first, ParseDocument(before));
  HZ_ASSIGN_OR_RETURN(const Json second, ParseDocument(after));
  std::string text = HeadOf(first, second, seconds);
  PrintTenants(first, second, seconds, rows, &text);
  PrintCommunicators(first, second, seconds, rows, &text);
  PrintRails(first, second, seconds, rows, &text);
  PrintSlowLinks(second, rows, &text);
  PrintController(second, rows, &text);
  return text;
}

}  // namespace harmonaize
