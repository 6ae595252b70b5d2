#include "daemon/requirements/grant.h"

#include <gtest/gtest.h>

#include <string>

#include "src/base/toml_reader.h"

namespace harmonaize::daemon {
namespace {

Requirements Asked(const std::string& text) {
  const Result<Requirements> read = ParseRequirements(text, "job.toml");
  EXPECT_TRUE(read.ok()) << read.status().message();
  return read.ok() ? *read : Requirements{};
}

constexpr char kEverything[] = R"(
[collectives]
objective = "latency"
priority = 3
bandwidth_floor = "2 GB/s"
processors = 8
compression = {allow = ["bf16"], error_bound = 0.01}
[faults]
late_after = "1 ms"
[[collectives.override]]
communicator = "tp*"
priority = 2
bandwidth_floor = "1 GB/s"
)";

std::string KeysOf(const Grant& grant) {
  std::string keys;
  for (const Shortfall& one : grant.shortfalls) keys += one.key + "=" + one.granted + ";";
  return keys;
}

TEST(GrantOf, ByDefaultGivesNothingThatOthersWouldLack) {
  const Grant grant = GrantOf(Asked(kEverything), TenantPolicy{}, HostMeans{.workers = 4});
  EXPECT_EQ(KeysOf(grant),
            "collectives.priority=0;collectives.bandwidth_floor=;collectives.processors=4;"
            "collectives.objective=\"latency\" for plans;faults.late_after=\"100 ms\";"
            "collectives.override[0].priority=0;collectives.override[0].bandwidth_floor=;");
  EXPECT_FALSE(grant.keeps_looking);
  EXPECT_FALSE(grant.granted.values.contains("collectives.bandwidth_floor"));
  EXPECT_TRUE(grant.granted.values.contains("collectives.compression.allow"));
  for (const Shortfall& one : grant.shortfalls) EXPECT_FALSE(one.why.empty()) << one.key;
}

TEST(GrantOf, WhatThePolicyAllowsIsGrantedAsAsked) {
  const TenantPolicy generous{.most_priority = 3,
                              .most_bandwidth_floor = 2e9,
                              .spinning = true,
                              .least_late_after_seconds = 1e-3};
  const Requirements asked = Asked(kEverything);
  const Grant grant = GrantOf(asked, generous, HostMeans{.workers = 8});
  EXPECT_EQ(KeysOf(grant), "");
  EXPECT_EQ(grant.granted, asked);
  EXPECT_TRUE(grant.keeps_looking);
  EXPECT_FALSE(GrantOf(Asked("collectives.priority = 1"), generous, {}).keeps_looking);
}

TEST(GrantOf, CheckpointsAreAdvisedNoMoreOftenThanThePolicyAllows) {
  const Requirements asked =
      Asked("checkpoint.interval = '2 s'\ncheckpoint.most_lost_work = '1 min'");
  const Grant grant = GrantOf(asked, {}, {});
  EXPECT_EQ(KeysOf(grant), "checkpoint.interval=\"10 s\";");
  const TenantPolicy slow{.least_checkpoint_interval_seconds = 600};
  EXPECT_EQ(KeysOf(GrantOf(asked, slow, {})),
            "checkpoint.interval=\"10 min\";checkpoint.most_lost_work=\"10 min\";");
}

TEST(GrantOf, AFloorThatTheHostCannotKeepIsLessOrRefusedWithItsReason) {
  const TenantPolicy generous{.most_bandwidth_floor = 2e9};
  const Requirements asked = Asked("collectives.bandwidth_floor = '5 GB/s'");
  const Grant none = GrantOf(asked, generous, {.most_floor = InvalidUsage("there are no links")});
  ASSERT_EQ(none.shortfalls.size(), 1u);
  EXPECT_EQ(none.shortfalls[0].asked, "\"5 GB/s\"");
  EXPECT_EQ(none.shortfalls[0].granted, "");
  EXPECT_EQ(none.shortfalls[0].why, "there are no links");
  const Grant too_much = GrantOf(asked, generous, {.most_floor = 1.9e9});
  ASSERT_EQ(too_much.shortfalls.size(), 1u);
  EXPECT_EQ(too_much.shortfalls[0].granted, "\"1.9 GB/s\"");
  EXPECT_EQ(too_much.shortfalls[0].why,
            "no more than 1.9 GB/s can be promised on this host's slowest link");
  const Grant fits = GrantOf(asked, generous, {.most_floor = 2e9});
  ASSERT_EQ(fits.shortfalls.size(), 1u);
  EXPECT_EQ(fits.shortfalls[0].granted, "\"2 GB/s\"") << "no more than the policy allows";
}

TEST(GrantOf, NobodyIsToldOfShortfallsOfTheProvidersDefaults) {
  TenantPolicy policy{.most_priority = 1};
  policy.defaults = Asked("collectives.priority = 2");
  const GrantBasis basis{.policy = std::make_shared<const TenantPolicy>(policy), .host = {}};
  EXPECT_EQ(KeysOf(basis.For({})), "");
  EXPECT_EQ(RequirementsText(basis.For({}).granted), "[collectives]\npriority = 1\n");
  EXPECT_EQ(KeysOf(basis.For(Asked("collectives.priority = 3"))), "collectives.priority=1;");
}

TEST(GrantOf, ACapHoldsForJobsThatSayNothing) {
  const TenantPolicy capped{.most_bandwidth_cap = 1e9};
  EXPECT_EQ(RequirementsText(GrantOf({}, capped, {}).granted),
            "[collectives]\nbandwidth_cap = \"1 GB/s\"\n");
  const Grant less = GrantOf(Asked("collectives.bandwidth_cap = '500 MB/s'"), capped, {});
  EXPECT_EQ(KeysOf(less), "");
  const Grant more = GrantOf(Asked("collectives.bandwidth_cap = '2 GB/s'"), capped, {});
  EXPECT_EQ(KeysOf(more), "collectives.bandwidth_cap=\"1 GB/s\";");
  EXPECT_EQ(more.shortfalls[0].why,
            "the provider's policy caps what this tenant's jobs send together");
}

TEST(GrantOf, AnOverridesFloorIsNoMoreThanTheCapEither) {
  const TenantPolicy capped{.most_bandwidth_floor = 2e9, .most_bandwidth_cap = 1e9};
  const Grant grant =
      GrantOf(Asked("[[collectives.override]]\nbandwidth_floor = '2 GB/s'"), capped, {});
  EXPECT_EQ(KeysOf(grant), "collectives.override[0].bandwidth_floor=\"1 GB/s\";");
}

TEST(GrantOf, CompressionMayBeForbidden) {
  const TenantPolicy exact{.compression = false};
  const Grant grant =
      GrantOf(Asked("collectives.compression = {allow = 'bf16', error_bound = 0.1}"), exact, {});
  EXPECT_EQ(KeysOf(grant), "collectives.compression.allow=;");
}

/// Returns the first mistake of a policy; "": there is none.
std::string MistakeIn(const std::string& text) {
  Result<TomlReader> reader = TomlReader::FromString(text, "provider.toml");
  if (!reader.ok()) return reader.status().message();
  PolicyConfig policy;
  ReadPolicy(*reader, &policy);
  return reader->Finish().message();
}

TEST(Policy, MistakesOfTenantsTablesNameTheKey) {
  EXPECT_EQ(MistakeIn("[[policy.tenant]]\nmost_priority = 1"),
            "provider.toml:1:1: [[policy.tenant]] needs 'tenant', a user's name or number in "
            "quotes, as tenant = \"1001\"");
  EXPECT_EQ(MistakeIn("[[policy.tenant]]\ntenant = 1001"),
            "provider.toml:2:10: 'policy.tenant[0].tenant' must be a string, as \"1001\"");
  EXPECT_EQ(MistakeIn("[[policy.tenant]]\ntenant = 'a'\n[[policy.tenant]]\ntenant = 'a'"),
            "provider.toml:4:10: there is another [[policy.tenant]] of 'a'");
  EXPECT_EQ(MistakeIn("[policy]\ndefaults.objective = 'energy'"),
            "provider.toml:2:10: unknown key 'policy.defaults.objective', did you mean "
            "'policy.defaults.collectives.objective'?");
}

TEST(Policy, ATenantsTableLeavesTheRestAsForAll) {
  Result<TomlReader> reader = TomlReader::FromString(R"(
[policy]
most_priority = 1
most_bandwidth_floor = "1 GB/s"
defaults.collectives.objective = "energy"
[[policy.tenant]]
tenant = "alice"
most_priority = 3
defaults.faults.late_after = "3 s"
)",
                                                     "provider.toml");
  ASSERT_TRUE(reader.ok());
  PolicyConfig policy;
  ReadPolicy(*reader, &policy);
  ASSERT_TRUE(reader->Finish().ok());
  policy.tenants[0].number = 7;
  EXPECT_EQ(policy.For(7).most_priority, 3);
  EXPECT_EQ(policy.For(7).most_bandwidth_floor, 1e9);
  EXPECT_EQ(policy.For(7).defaults.values.size(), 2u);
  EXPECT_EQ(policy.For(8).most_priority, 1);
  EXPECT_EQ(policy.For(8).defaults.values.size(), 1u);
  // What is printed is read as the same.
  Result<TomlReader> again = TomlReader::FromString(PolicyTemplate(policy), "printed");
  ASSERT_TRUE(again.ok()) << PolicyTemplate(policy);
  PolicyConfig printed;
  ReadPolicy(*again, &printed);
  EXPECT_TRUE(again->Finish().ok()) << PolicyTemplate(policy);
  EXPECT_EQ(PolicyTemplate(printed), PolicyTemplate(policy));
}

}  // namespace
}  // namespace harmonaize::daemon
