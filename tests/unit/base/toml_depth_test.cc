#include "src/base/toml_depth.h"

#include <gtest/gtest.h>

#include <string>

namespace harmonaize {
namespace {

TEST(TomlDepth, CountsTablesListsAndDottedKeys) {
  EXPECT_EQ(TomlDepth(""), 1);
  EXPECT_EQ(TomlDepth("a = 1\nb = 2\n"), 1);
  EXPECT_EQ(TomlDepth("a.b.c = 1\nd.e = 1\n"), 3);
  EXPECT_EQ(TomlDepth("a = [[[1]]]\n"), 4);
  EXPECT_EQ(TomlDepth("a = {b = {c = 1}}\n"), 3);
  EXPECT_GE(TomlDepth("[a.b]\nc.d = [1]\n"), 5);
}

TEST(TomlDepth, LooksPastStringsAndComments) {
  EXPECT_EQ(TomlDepth("a = \"[[[[....\" # [[[[....\n"), 1);
  EXPECT_EQ(TomlDepth("a = '[[[['\n"), 1);
  EXPECT_EQ(TomlDepth("a = \"\"\"\n[[[[\n....\"\"\"\n"), 1);
  EXPECT_EQ(TomlDepth("a = '''\n[[[[\n....'''\n"), 1);
  EXPECT_EQ(TomlDepth("a = \"\\\"[[[[\"\n"), 1);
  EXPECT_EQ(TomlDepth("a = \"\" # \"\nb = [[1]]\n"), 3);
}

TEST(TomlDepth, StringsHideNoLevels) {
  // A closing bracket in a string closes nothing.
  EXPECT_EQ(TomlDepth("a = [\"]\", [\"]\", [\"]\", 1]]]\n"), 4);
  // Three quotes may follow one or two that belong to the string.
  EXPECT_EQ(TomlDepth("a = [\"\"\"x\"\"\"\"\", [[1]]]\n"), 4);
  EXPECT_EQ(TomlDepth("a = [\n{b.c.d = [\n{e.f = 1}]}]\n"), 8);
}

}  // namespace
}  // namespace harmonaize
