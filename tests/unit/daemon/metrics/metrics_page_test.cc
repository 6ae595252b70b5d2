#include "daemon/metrics/metrics_page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "src/events/event_type.h"

namespace harmonaize::daemon {
namespace {

/// A page, taken apart: its lines of each kind.
struct ReadPage {
  std::map<std::string, std::string> types;  ///< By family.
  std::set<std::string> helped;              ///< Families with a text of help.
  std::vector<std::string> series;           ///< Names with labels.
};

ReadPage Read(const std::string& page) {
  ReadPage read;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, kind, name, rest;
    words >> first >> kind >> name;
    if (first == "#") {
      std::getline(words >> std::ws, rest);
      const bool is_new = kind != "TYPE" || read.types.emplace(name, rest).second;
      EXPECT_TRUE(is_new) << line;
      if (kind == "HELP" && !rest.empty()) read.helped.insert(name);
    } else {
      read.series.push_back(line.substr(0, line.rfind(' ')));
    }
  }
  return read;
}

std::string FamilyOf(const std::string& series) {
  return series.substr(0, series.find('{'));
}

/// Facts in which every family has a sample.
EngineFacts FullFacts() {
  EngineFacts facts;
  facts.executor.workers.resize(2);
  facts.tenants.resize(1);
  facts.in_cluster = true;
  facts.elastic.sizing.enabled = true;
  facts.rails["eth0"] = {.connections = 1};
  facts.fabric_links.push_back({.name = "l0", .from = "a", .to = "b", .stated = 1e9});
  return facts;
}

CountedElsewhere FullCounts() {
  CountedElsewhere counted;
  counted.events_published.resize(EventTypes().size());
  counted.http_answers.resize(600);
  counted.log_lines.resize(5);
  return counted;
}

NamedTenant Named(const std::string& label) {
  NamedTenant tenant;
  tenant.label = label;
  return tenant;
}

TEST(MetricsPage, EveryFamilyHasHelpAndATypeAndAName) {
  const ReadPage page = Read(MetricsPage(FullFacts(), {Named("alice")}, FullCounts()));
  EXPECT_GT(page.series.size(), 100u);
  std::set<std::string> sampled;
  for (const std::string& series : page.series) {
    const std::string family = FamilyOf(series);
    sampled.insert(family);
    EXPECT_TRUE(page.helped.contains(family)) << series;
    ASSERT_TRUE(page.types.contains(family)) << series;
    EXPECT_EQ(family.rfind("harmonaize_", 0), 0u) << series;
    const bool ends_in_total = family.ends_with("_total");
    EXPECT_EQ(page.types.at(family), ends_in_total ? "counter" : "gauge") << series;
  }
  for (const auto& [family, type] : page.types) EXPECT_TRUE(sampled.contains(family)) << family;
}

TEST(MetricsPage, NoSeriesIsThereTwice) {
  const ReadPage page = Read(MetricsPage(FullFacts(), {Named("a"), Named("b")}, FullCounts()));
  const std::set<std::string> different(page.series.begin(), page.series.end());
  EXPECT_EQ(different.size(), page.series.size());
}

TEST(MetricsPage, AHostileNameStaysInItsLabel) {
  const std::string hostile = "a\"} 1\nharmonaize_uptime_seconds 9\\\xff{";
  const std::string page = MetricsPage(FullFacts(), {Named(hostile)}, FullCounts());
  EXPECT_NE(page.find(R"({tenant="a\"} 1)"
                      "\uFFFD"
                      R"(harmonaize_uptime_seconds 9\\)"
                      "\uFFFD{\"}"),
            std::string::npos)
      << page;
  EXPECT_EQ(page.find("\nharmonaize_uptime_seconds 9"), std::string::npos);
  EXPECT_EQ(page.find('\xff'), std::string::npos);
}

TEST(MetricsPage, NumbersAreWhole) {
  EngineFacts facts = FullFacts();
  NamedTenant tenant = Named("alice");
  tenant.facts.usage.bytes = 123456789012345;
  const std::string page = MetricsPage(facts, {tenant}, FullCounts());
  EXPECT_NE(page.find("harmonaize_tenant_bytes_total{tenant=\"alice\"} 123456789012345\n"),
            std::string::npos);
}

TEST(MetricsPage, OffersAreCountedByKindAndOutcome) {
  EngineFacts facts = FullFacts();
  facts.elastic.offers.open[static_cast<size_t>(OfferKind::kReclaim)][2] = 3;
  facts.elastic.offers.ended[static_cast<size_t>(OfferKind::kGrow)][5] = 7;
  const std::string page = MetricsPage(facts, {}, FullCounts());
  for (const char* const line :
       {"harmonaize_offers{kind=\"reclaim\",state=\"accepted\"} 3\n",
        "harmonaize_offers_ended_total{kind=\"grow\",outcome=\"broken_by_tenant\"} 7\n"}) {
    EXPECT_NE(page.find(line), std::string::npos) << line << page;
  }
}

TEST(MetricsPage, AHostThatStandsAloneHasNoSamplesOfANetwork) {
  EngineFacts facts = FullFacts();
  facts.in_cluster = false;
  facts.rails.clear();
  facts.fabric_links.clear();
  const ReadPage page = Read(MetricsPage(facts, {}, FullCounts()));
  for (const std::string& series : page.series) {
    EXPECT_EQ(series.find("_transport_"), std::string::npos) << series;
    EXPECT_EQ(series.find("_rail_"), std::string::npos) << series;
    EXPECT_EQ(series.find("_link_"), std::string::npos) << series;
  }
  // Their names are there, so that rules and dashboards can be checked.
  EXPECT_TRUE(page.types.contains("harmonaize_link_stated_bytes_per_second"));
  EXPECT_TRUE(page.types.contains("harmonaize_rail_sent_bytes_total"));
  EXPECT_TRUE(page.types.contains("harmonaize_linked_daemons"));
}

TEST(MetricsPage, NoLabelNamesWhatATenantCanMakeMore) {
  const ReadPage page = Read(MetricsPage(FullFacts(), {Named("alice")}, FullCounts()));
  const std::set<std::string> bounded = {
      "code",  "from",   "kind",  "level",  "link", "outcome", "rail",    "resource",
      "scope", "source", "state", "tenant", "to",   "type",    "version", "worker"};
  for (const std::string& series : page.series) {
    for (size_t at = series.find("=\""); at != std::string::npos; at = series.find("=\"", at + 1)) {
      const size_t begin = series.find_last_of("{,", at) + 1;
      EXPECT_TRUE(bounded.contains(series.substr(begin, at - begin))) << series;
    }
  }
}

}  // namespace
}  // namespace harmonaize::daemon
