#include "daemon/formation/pending_formations.h"

#include <gtest/gtest.h>

#include <memory>

namespace harmonaize::daemon {
namespace {

class PendingFormationsTest : public ::testing::Test {
 protected:
  static FormationKey Split(uint64_t parent, uint64_t round) {
    return {.kind = FormationKey::Kind::kSplit, .parent = parent, .round = round};
  }
  void Add(const FormationKey& key) {
    PendingFormation pending;
    pending.formation = std::make_unique<Formation>(key, "ncclCommSplit", "name", &tenant_, 3, 0);
    pending_.Add(key, std::move(pending));
  }
  /// Rank `place`, which another daemon speaks for.
  void Come(const FormationKey& key, size_t place, transport::PeerId peer, uint64_t ticket) {
    pending_.NoteTicket(peer, ticket, key);
    EXPECT_TRUE(pending_.Find(key)->formation->Take(place, {.peer = peer, .ticket = ticket}).ok());
  }

  PendingFormations pending_;

 private:
  Tenant tenant_{TenantIdentity{}, nullptr};
};

TEST_F(PendingFormationsTest, AreFoundByTheirParent) {
  for (const FormationKey& key : {Split(1, 0), Split(1, 1), Split(2, 0)}) Add(key);
  EXPECT_EQ(pending_.OfParent(1).size(), 2u);
  pending_.Take(Split(1, 0));
  EXPECT_EQ(pending_.OfParent(1), (std::vector<FormationKey>{Split(1, 1)}));
  EXPECT_EQ(pending_.OfParent(3).size(), 0u);
}

TEST_F(PendingFormationsTest, ATicketGoesWithWhatForms) {
  Add(Split(1, 0));
  Come(Split(1, 0), 0, 7, 100);
  Come(Split(1, 0), 1, 8, 100);
  EXPECT_EQ(pending_.FindByTicket(7, 100), pending_.Find(Split(1, 0)));
  EXPECT_EQ(pending_.FindByTicket(7, 101), nullptr);
  // A rank that gives up is forgotten before its formation fails.
  pending_.Find(Split(1, 0))->formation->Forget(0);
  pending_.Take(Split(1, 0));
  Add(Split(1, 0));
  EXPECT_EQ(pending_.FindByTicket(7, 100), nullptr);
  EXPECT_EQ(pending_.FindByTicket(8, 100), nullptr);
}

}  // namespace
}  // namespace harmonaize::daemon
