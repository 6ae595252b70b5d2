#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <sstream>

#include "tests/unit/cli/launched.h"

namespace harmonaize {
namespace {

using Lines = std::vector<std::string>;

TEST(RunOutput, TellsRanksWhoTheyAre) {
  Launched run(RunScript({"-n", "3", "--env", "EXTRA=e", "--env=MORE=m"},
                         "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR "
                         "$EXTRA$MORE; test $MASTER_PORT -gt 0"));
  EXPECT_EQ(run.Wait(), 0) << run.error();
  EXPECT_EQ(
      SortedLines(run.output()),
      (Lines{"[0] 0/3 0/3 127.0.0.1 em", "[1] 1/3 1/3 127.0.0.1 em", "[2] 2/3 2/3 127.0.0.1 em"}));
}

TEST(RunOutput, AllRanksGetOnePort) {
  Launched run(RunScript({"-n", "4", "--no-prefix"}, "echo $MASTER_PORT"));
  EXPECT_EQ(run.Wait(), 0);
  const Lines lines = SortedLines(run.output());
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines.front(), lines.back());
}

TEST(RunOutput, KeepsTheStreamsApart) {
  Launched run(RunScript({"-n", "2"}, "echo out; echo err >&2"));
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(SortedLines(run.output()), (Lines{"[0] out", "[1] out"}));
  EXPECT_EQ(SortedLines(run.error()), (Lines{"[0] err", "[1] err"}));
}

TEST(RunOutput, OneRankHasThePlaceForItself) {
  Launched plain(RunScript({}, "printf 'no newline'"));
  EXPECT_EQ(plain.Wait(), 0);
  EXPECT_EQ(plain.output(), "no newline");
  Launched prefixed(RunScript({"--prefix"}, "printf 'no newline'"));
  EXPECT_EQ(prefixed.Wait(), 0);
  EXPECT_EQ(prefixed.output(), "[0] no newline\n");
}

TEST(RunOutput, AlignsRanksOfTwoDigits) {
  Launched run(RunScript({"-n", "11"}, "echo x"));
  EXPECT_EQ(run.Wait(), 0);
  const Lines lines = SortedLines(run.output());
  ASSERT_EQ(lines.size(), 11U);
  EXPECT_EQ(lines.front(), "[ 0] x");
  EXPECT_EQ(lines.back(), "[10] x");
}

TEST(RunOutput, NeverMixesLines) {
  // Each line comes in three writes, and both streams go to one pipe.
  Launched run(RunScript({"-n", "4"},
                         "exec 2>&1; for i in $(seq 200); do printf \"$RANK\"; printf a >&2; "
                         "printf \"$i\\n\"; done"));
  EXPECT_EQ(run.Wait(), 0);
  std::map<std::string, int> next;
  std::istringstream stream(run.output());
  for (std::string line; std::getline(stream, line);) {
    const std::string rank = line.substr(1, 1);
    EXPECT_EQ(line, "[" + rank + "] " + rank + "a" + std::to_string(++next[rank]));
  }
  for (const char* rank : {"0", "1", "2", "3"}) EXPECT_EQ(next[rank], 200);
}

TEST(RunOutput, LosesNothingToASlowReader) {
  // More than the pipes and the launcher's own queue hold; nobody reads for longer than --grace.
  Launched run(RunScript({"-n", "2", "--grace", "0.2"}, "seq 200000"));
  ::usleep(700'000);
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(SortedLines(run.output()).size(), 400'000U);
}

TEST(RunOutput, EndsWhenItsReaderIsGone) {
  Launched run(RunScript({"-n", "2"}, "while echo y; do sleep 0.01; done"));
  ASSERT_TRUE(run.ReadUntil("[0] y"));
  run.CloseOutput();
  EXPECT_EQ(run.Wait(), 141);
}

TEST(RunOutput, NoRankReadsATerminalOrWaits) {
  Launched run(RunScript({"-n", "2"}, "cat; echo end"));
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(SortedLines(run.output()), (Lines{"[0] end", "[1] end"}));
}

TEST(RunOutput, InputGoesToRankZero) {
  Launched run({"-c", "echo hello | " HARMONAIZE_PROGRAM
                      " run -n 2 --daemon=none --no-preload sh -c 'cat; echo end'"},
               "sh");
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(SortedLines(run.output()), (Lines{"[0] end", "[0] hello", "[1] end"}));
}

TEST(RunOutput, DashesOfTheProgramStay) {
  Launched run({"run", "--daemon=none", "--no-preload", "-n", "1", "echo", "-n", "4", "--", "x"});
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(run.output(), "4 -- x");
  Launched other({"run", "--daemon=none", "--no-preload", "--", "echo", "--", "-n"});
  EXPECT_EQ(other.Wait(), 0);
  EXPECT_EQ(other.output(), "-- -n\n");
}

}  // namespace
}  // namespace harmonaize
