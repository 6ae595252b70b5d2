#include "cli/plan/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/human_units.h"
#include "cli/text_table.h"
#include "src/base/json_text.h"

namespace harmonaize {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// Most hosts that a list in a table names one by one.
constexpr size_t kListedHosts = 8;

std::string Percent(double part, double whole) {
  if (whole <= 0 || part <= 0) return "-";
  return fmt::format("{:.0f}%", 100 * part / whole);
}

const PlanSpec& SpecOf(const Planner& planner, const RankedPlan& plan) {
  return planner.candidates()[plan.candidate].spec;
}

/// Returns "leaf0-spine1, leaf0 to spine1".
std::string EdgeName(const FabricModel& model, int edge) {
  if (edge < 0) return "-";
  const Fabric& fabric = model.fabric();
  const Edge ends = fabric.EdgeAt(edge);
  return fmt::format("{} to {}", fabric.nodes[static_cast<size_t>(ends.from)].name,
                     fabric.nodes[static_cast<size_t>(ends.to)].name);
}

std::vector<std::string> NamesOf(const FabricModel& model, const std::vector<int>& hosts) {
  std::vector<std::string> names;
  for (const int host : hosts) names.push_back(model.HostName(host));
  return names;
}

void PrintHead(const PlanReport& report, std::string* text) {
  const Problem& problem = report.planner->problem();
  const int hosts = HostPlacement(problem.host_of_rank).hosts();
  *text += fmt::format("{} of {} ranks on {} of the {} hosts of {}; policy {}\n",
                       CollectiveName(problem.collective), problem.host_of_rank.size(), hosts,
                       report.model->hosts(), report.model->fabric().name,
                       PlanPolicyName(report.options.policy));
}

void PrintChoices(const PlanReport& report, std::string* text) {
  TextTable table({"bytes", "plan", "predicted", "bound", "of bound", "busiest link"}, 2);
  for (const PlannedSize& size : report.sizes) {
    const RankedPlan& best = size.plans[0];
    table.Add({HumanBytes(size.bytes), DescribePlan(*report.planner, best),
               HumanTime(best.prediction.seconds), HumanTime(size.bound_seconds),
               Percent(size.bound_seconds, best.prediction.seconds),
               EdgeName(*report.model, best.prediction.busiest_edge)});
  }
  table.Print(text);
}

void PrintCandidates(const PlanReport& report, std::string* text) {
  for (const PlannedSize& size : report.sizes) {
    if (size.plans.size() < 2) continue;
    *text += "\n";
    TextTable table({HumanBytes(size.bytes), "predicted", "of bound", "latency", "fill", "network",
                     "memory", "handling"},
                    1);
    const size_t shown = std::min(report.most_plans, size.plans.size());
    for (size_t i = 0; i < shown; ++i) {
      const RankedPlan& plan = size.plans[i];
      const Prediction& why = plan.prediction;
      table.Add({DescribePlan(*report.planner, plan), HumanTime(why.seconds),
                 Percent(size.bound_seconds, why.seconds), HumanTime(why.latency),
                 HumanTime(why.fill), HumanTime(why.network), HumanTime(why.memory),
                 HumanTime(why.handling)});
    }
    if (shown < size.plans.size()) {
      table.AddNote(fmt::format("... and {} more (--all)", size.plans.size() - shown));
    }
    table.Print(text);
  }
}

void PrintOrder(const PlanReport& report, std::string* text) {
  std::vector<size_t> shown;
  for (const PlannedSize& size : report.sizes) {
    const size_t candidate = size.plans[0].candidate;
    const PlanSpec& spec = report.planner->candidates()[candidate].spec;
    const std::vector<int>& order = spec.order.hosts;
    if (order.empty() || order.size() > kListedHosts) continue;
    const bool known = std::any_of(shown.begin(), shown.end(), [&](size_t one) {
      return report.planner->candidates()[one].spec.order.name == spec.order.name;
    });
    if (known) continue;
    shown.push_back(candidate);
    *text += fmt::format("order '{}': {}\n", spec.order.name,
                         fmt::join(NamesOf(*report.model, order), " "));
  }
}

OrderedJson PlanToJson(const PlanReport& report, const RankedPlan& plan) {
  const PlanSpec& spec = SpecOf(*report.planner, plan);
  OrderedJson groups = OrderedJson::array();
  for (const std::vector<int>& group : spec.groups) groups.push_back(NamesOf(*report.model, group));
  const Prediction& why = plan.prediction;
  return {{"algorithm", spec.algorithm->name},
          {"order", spec.order.name},
          {"hosts", NamesOf(*report.model, spec.order.hosts)},
          {"groups", std::move(groups)},
          {"pieces", plan.pieces},
          {"slice_bytes", plan.slice.bytes},
          {"slices_at_once", plan.slice.at_once},
          {"wire", WireFormatName(plan.wire)},
          {"paths", PathUseName(spec.paths)},
          {"seconds", why.seconds},
          {"latency_seconds", why.latency},
          {"network_seconds", why.network},
          {"fill_seconds", why.fill},
          {"memory_seconds", why.memory},
          {"handling_seconds", why.handling},
          {"busiest_link", EdgeName(*report.model, why.busiest_edge)}};
}

}  // namespace

std::string DescribePlan(const Planner& planner, const RankedPlan& plan) {
  const Candidate& candidate = planner.candidates()[plan.candidate];
  const PlanSpec& spec = candidate.spec;
  std::string text(spec.algorithm->name);
  if (!spec.order.hosts.empty()) text += ", " + spec.order.name;
  if (!spec.groups.empty()) text += ", groups " + spec.groups_name;
  if (plan.pieces > 1) text += fmt::format(", {} pieces", plan.pieces);
  if (spec.algorithm->name == "one-host") return text;
  text += ", slices of " + HumanBytes(plan.slice.bytes) + ", ";
  text += candidate.lanes.empty() ? PathUseName(spec.paths) : "chosen";
  text += " paths";
  if (plan.wire != WireFormat::kSame) text += fmt::format(", {}", WireFormatName(plan.wire));
  return text;
}

std::string PlanTable(const PlanReport& report) {
  std::string text;
  PrintHead(report, &text);
  PrintChoices(report, &text);
  PrintOrder(report, &text);
  PrintCandidates(report, &text);
  const std::vector<NotConsidered>& left_out = report.planner->not_considered();
  if (!left_out.empty()) text += "\nnot considered:\n";
  for (const NotConsidered& one : left_out) text += fmt::format("  {}: {}\n", one.what, one.why);
  return text;
}

std::string PlanJson(const PlanReport& report) {
  const Problem& problem = report.planner->problem();
  OrderedJson sizes = OrderedJson::array();
  for (const PlannedSize& size : report.sizes) {
    OrderedJson plans = OrderedJson::array();
    for (const RankedPlan& plan : size.plans) plans.push_back(PlanToJson(report, plan));
    sizes.push_back({{"bytes", size.bytes},
                     {"bound_seconds", size.bound_seconds},
                     {"plans", std::move(plans)}});
  }
  OrderedJson left_out = OrderedJson::array();
  for (const NotConsidered& one : report.planner->not_considered()) {
    left_out.push_back({{"what", one.what}, {"why", one.why}});
  }
  const OrderedJson document = {
      {"fabric", report.model->fabric().name},
      {"collective", CollectiveName(problem.collective)},
      {"ranks", problem.host_of_rank.size()},
      {"hosts", HostPlacement(problem.host_of_rank).hosts()},
      {"policy", PlanPolicyName(report.options.policy)},
      {"bound_seconds_per_byte", report.planner->bound_seconds_per_byte()},
      {"sizes", std::move(sizes)},
      {"not_considered", std::move(left_out)}};
  return JsonText(document, 2) + "\n";
}

}  // namespace harmonaize
