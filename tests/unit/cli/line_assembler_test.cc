#include "cli/run/line_assembler.h"

#include <gtest/gtest.h>

namespace harmonaize {
namespace {

TEST(LineAssembler, PrefixesEachLineHoweverItComes) {
  LineAssembler lines("[1] ", true);
  std::string output;
  lines.Append("on", &output);
  EXPECT_EQ(output, "");
  lines.Append("e\ntwo\n\nthr", &output);
  EXPECT_EQ(output, "[1] one\n[1] two\n[1] \n");
  lines.Append("ee", &output);
  lines.Finish(&output);
  EXPECT_EQ(output, "[1] one\n[1] two\n[1] \n[1] three\n");
  lines.Finish(&output);
  EXPECT_EQ(output, "[1] one\n[1] two\n[1] \n[1] three\n");
}

TEST(LineAssembler, PassesBytesOnForASingleWriter) {
  LineAssembler lines("", false);
  std::string output;
  lines.Append("10%\r", &output);
  EXPECT_EQ(output, "10%\r");
  lines.Finish(&output);
  EXPECT_EQ(output, "10%\r");
}

TEST(LineAssembler, BreaksALineThatNeverEnds) {
  LineAssembler lines("> ", true);
  std::string output;
  const std::string endless(3 * LineAssembler::kLongestLine + 5, 'x');
  for (size_t i = 0; i < endless.size(); i += 1000) lines.Append(endless.substr(i, 1000), &output);
  lines.Finish(&output);
  const std::string full = "> " + std::string(LineAssembler::kLongestLine, 'x') + "\n";
  EXPECT_EQ(output, full + full + full + "> xxxxx\n");
}

TEST(LineAssembler, KeepsAnyByte) {
  LineAssembler lines("", true);
  std::string output;
  const std::string bytes("\0\xff\r\x1b[1m\n", 8);
  lines.Append(bytes, &output);
  EXPECT_EQ(output, bytes);
}

}  // namespace
}  // namespace harmonaize
