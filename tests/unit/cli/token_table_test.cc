#include "cli/token/token_table.h"

#include <gtest/gtest.h>

namespace harmonaize {
namespace {

TEST(TokenTable, ShowsEachTokenInARow) {
  const Result<std::string> table = TokenTable(R"({"tokens": [
    {"id": "3f9a01c2", "scope": "tenant", "tenant": "alice", "note": "laptop",
     "created": "2026-11-26T08:30:00.000000Z", "expires": "2026-12-26T08:30:00.000000Z"},
    {"id": "00ff", "scope": "metrics", "tenant": null, "note": "",
     "created": "2026-11-26T08:30:00.000000Z", "expires": "2027-11-26T08:30:00.000000Z"}]})");
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(*table,
            "id        scope    tenant  expires               created               note\n"
            "3f9a01c2  tenant   alice   2026-12-26T08:30:00Z  2026-11-26T08:30:00Z  laptop\n"
            "00ff      metrics  -       2027-11-26T08:30:00Z  2026-11-26T08:30:00Z\n");
}

TEST(TokenTable, SaysThatThereAreNone) {
  EXPECT_EQ(*TokenTable(R"({"tokens": []})"), "no tokens\n");
  EXPECT_FALSE(TokenTable("7").ok());
}

}  // namespace
}  // namespace harmonaize
