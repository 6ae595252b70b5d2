#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/cli/launched.h"

namespace harmonaize {
namespace {

/// Runs a command line that is wrong, and returns what is said of it.
std::string SaidOf(std::vector<std::string> words) {
  Launched command(std::move(words));
  EXPECT_EQ(command.Wait(), 2);
  EXPECT_EQ(command.output(), "");
  return command.error();
}

TEST(UsageProblem, NamesAnUnknownCommandAndTheNearest) {
  EXPECT_EQ(SaidOf({"job"}),
            "harmonaize: there is no command 'job', did you mean 'jobs'?\n"
            "'harmonaize --help' says what there is\n");
  EXPECT_EQ(SaidOf({"token", "crate", "--scope", "metrics"}),
            "harmonaize: there is no command 'crate', did you mean 'create'?\n"
            "'harmonaize token --help' says what there is\n");
  EXPECT_EQ(SaidOf({"qqqqqqqq"}),
            "harmonaize: there is no command 'qqqqqqqq'\n"
            "'harmonaize --help' says what there is\n");
}

TEST(UsageProblem, SaysWhichCommandsThereAreWhereNoneIsGiven) {
  EXPECT_EQ(SaidOf({"token"}),
            "harmonaize: harmonaize token wants a command: create, list, revoke\n"
            "'harmonaize token --help' says what there is\n");
  EXPECT_EQ(SaidOf({}).find("harmonaize: harmonaize wants a command: run, status, "), 0u);
  EXPECT_EQ(SaidOf({}).find("complete,"), std::string::npos) << "that is for shells";
}

TEST(UsageProblem, NamesAnUnknownOptionAndTheNearest) {
  EXPECT_EQ(SaidOf({"status", "--jsn"}),
            "harmonaize: harmonaize status has no option '--jsn', did you mean '--json'?\n"
            "'harmonaize status --help' says what there is\n");
  EXPECT_EQ(SaidOf({"events", "--sockte=/run/x"})
                .find("harmonaize: harmonaize events has no option '--sockte=/run/x', did you mean "
                      "'--socket'?\n"),
            0u);
}

TEST(UsageProblem, NamesAnUnknownOptionBeforeAProgram) {
  EXPECT_EQ(SaidOf({"run", "--nme", "llama", "true"}),
            "harmonaize: harmonaize run has no option '--nme', did you mean '--name'?; see "
            "'harmonaize run --help'\n");
}

TEST(UsageProblem, NamesAWordThatIsOneTooMany) {
  EXPECT_EQ(SaidOf({"status", "now"}),
            "harmonaize: the word 'now' is one too many\n"
            "'harmonaize status --help' says what there is\n");
}

TEST(UsageProblem, PassesOnWhatAnOptionSays) {
  const std::string said = SaidOf({"events", "--limit", "none"});
  EXPECT_NE(said.find("--limit"), std::string::npos) << said;
  EXPECT_NE(said.find("'harmonaize events --help' says what there is"), std::string::npos) << said;
}

TEST(UsageProblem, LetsNoWordSteerTheTerminal) {
  EXPECT_EQ(SaidOf({"status", "\033[2J"}).find('\033'), std::string::npos);
  EXPECT_EQ(SaidOf({"\033[2J"}).find('\033'), std::string::npos);
}

TEST(SocketOption, TellsTheControlSocketFromTheOneForHttp) {
  EXPECT_NE(SaidOf({"status", "--socket", "/run/harmonaize/http.sock"})
                .find("commands take its control socket, /run/harmonaize/harmonaized.sock,"),
            std::string::npos);
  EXPECT_NE(SaidOf({"jobs", "--socket", "operator-http.sock"})
                .find("its control socket, harmonaized.sock,"),
            std::string::npos);
  EXPECT_NE(SaidOf({"jobs", "--socket", "/tmp/mine.operator.http"})
                .find("its control socket, /tmp/mine,"),
            std::string::npos);
  Launched fine({"status", "--socket", "/tmp/http/harmonaized.sock"});
  EXPECT_EQ(fine.Wait(), 1) << "nobody listens there";
}

}  // namespace
}  // namespace harmonaize
