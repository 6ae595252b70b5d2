#include "cli/run/shell_line.h"

#include <gtest/gtest.h>

namespace harmonaize {
namespace {

TEST(ShellLine, SaysWhatDiffersInTheEnvironment) {
  Environment base;
  base.Set("PATH", "/bin");
  base.Set("GONE", "1");
  base.Set("OLD", "1");
  RankProgram program{.arguments = {"docker", "run", "image"}, .environment = base};
  EXPECT_EQ(ShellLine(program, base), "docker run image");
  program.environment.Unset("GONE");
  program.environment.Set("OLD", "2");
  program.environment.Set("RANK", "0");
  EXPECT_EQ(ShellLine(program, base), "env -u GONE OLD=2 RANK=0 docker run image");
}

TEST(ShellLine, QuotesWhatAShellWouldTakeApart) {
  const auto line = [](const std::string& word) {
    return ShellLine({.arguments = {word, "x"}, .environment = {}}, {});
  };
  EXPECT_EQ(line("type=bind,src=/a_b-c.d:e@f%+"), "type=bind,src=/a_b-c.d:e@f%+ x");
  EXPECT_EQ(line(""), "'' x");
  EXPECT_EQ(line("a b"), "'a b' x");
  EXPECT_EQ(line("$(reboot)"), "'$(reboot)' x");
  EXPECT_EQ(line("~"), "'~' x");
  EXPECT_EQ(line("it's"), "'it'\\''s' x");
  EXPECT_EQ(line("a\nb"), "'a\nb' x");
}

}  // namespace
}  // namespace harmonaize
