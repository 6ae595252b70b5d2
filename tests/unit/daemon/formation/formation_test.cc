#include "daemon/formation/formation.h"

#include <gtest/gtest.h>

#include "daemon/tenant/rank_list.h"

namespace harmonaize::daemon {
namespace {

Applicant From(transport::PeerId peer, uint64_t ticket) {
  return {.peer = peer, .ticket = ticket};
}

TEST(Formation, IsCompleteWhenAllPlacesAreTaken) {
  Tenant tenant({1000, 1000, 1000, "uid 1000"}, nullptr);
  Formation formation({}, "ncclCommInitRank", "name", &tenant, 3, 0);
  EXPECT_TRUE(formation.Take(1, From(1, 10)).ok());
  EXPECT_EQ(formation.Missing(), "ranks 0, 2");
  EXPECT_EQ(formation.Take(1, From(2, 11)).code(), Code::kInvalidUsage);
  formation.Excuse(0);
  EXPECT_EQ(formation.Missing(), "rank 2");
  EXPECT_FALSE(formation.complete());
  EXPECT_TRUE(formation.Take(2, From(1, 12)).ok());
  EXPECT_TRUE(formation.complete());
  const auto places =
      formation.PlacesWhere([](const Applicant& applicant) { return applicant.peer == 1; });
  EXPECT_EQ(places, (std::vector<size_t>{1, 2}));
  formation.Forget(1);
  EXPECT_TRUE(formation.taken(1));
  EXPECT_FALSE(formation.applicant(1).gets_communicator());
}

// A tenant may ask for a communicator of a million ranks.
TEST(Formation, OfManyMissingRanksSomeAreNamed) {
  Tenant tenant({1000, 1000, 1000, "uid 1000"}, nullptr);
  Formation formation({}, "ncclCommInitRank", "name", &tenant, 1 << 20, 0);
  EXPECT_TRUE(formation.Take(0, From(1, 10)).ok());
  const std::string missing = formation.Missing();
  EXPECT_LT(missing.size(), 300u);
  EXPECT_EQ(missing.rfind("ranks 1, 2, 3, ", 0), 0u);
  EXPECT_NE(missing.find("and 1048543 more"), std::string::npos) << missing;
}

TEST(Formation, ListsTheFirstRanksThatAreMissing) {
  Tenant tenant({1000, 1000, 1000, "uid 1000"}, nullptr);
  Formation formation({}, "ncclCommInitRank", "", &tenant, 8, 0);
  EXPECT_TRUE(formation.Take(0, From(1, 10)).ok());
  EXPECT_TRUE(formation.Take(4, From(1, 11)).ok());
  EXPECT_TRUE(formation.Take(5, From(1, 12)).ok());
  EXPECT_EQ(formation.missing(), 5u);
  EXPECT_EQ(formation.MissingRanks(8), (std::vector<int>{1, 2, 3, 6, 7}));
  EXPECT_EQ(formation.MissingRanks(4), (std::vector<int>{1, 2, 3, 6}));
  EXPECT_EQ(formation.MissingRanks(3), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(formation.MissingRanks(0), std::vector<int>());
  EXPECT_EQ(formation.label(), "forming");
}

TEST(RankList, NamesRanks) {
  EXPECT_EQ(RankList(std::vector<int>{3}), "rank 3");
  EXPECT_EQ(RankList(std::vector<int>{2, 3}), "ranks 2, 3");
  EXPECT_EQ(RankList(std::vector<int>{}), "ranks ");
}

}  // namespace
}  // namespace harmonaize::daemon
