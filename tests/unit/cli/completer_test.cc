#include "cli/completion/completer.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/completion/shell_words.h"

namespace harmonaize {
namespace {

using Words = std::vector<std::string>;

/// An application with one of everything.
std::unique_ptr<CLI::App> TestApp() {
  auto app = std::make_unique<CLI::App>("", "tool");
  CLI::App* const show = app->add_subcommand("show", "Show things\nin two lines");
  static std::string text;
  static std::vector<std::string> texts;
  static bool flag;
  show->add_option("JOB", text)->type_name("");
  show->add_option("-c,--colour", text, "Which")->check(CLI::IsMember({"red", "blue"}));
  show->add_option("--types", text)->type_name("TYPES");
  show->add_option("-o,--output", text)->type_name("FILE");
  show->add_option("--env", texts)->allow_extra_args(false);
  show->add_flag("--json", flag);
  app->add_subcommand("read", "")->add_option("FILE", text);
  app->add_subcommand("hidden", "")->group("");
  CLI::App* const run = app->add_subcommand("run", "Run");
  run->prefix_command();
  run->add_option("-n,--ranks", text);
  run->add_flag("--prefix", flag);
  app->add_subcommand("token", "")->add_subcommand("create", "");
  return app;
}

std::vector<Continuation> NamesOfTest(std::string_view kind) {
  if (kind == "JOB") return {{"llama"}, {"3f9a01c2"}};
  if (kind == "TYPES") return {{"rank.late"}, {"rank.*"}, {"plan.changed"}};
  return {};
}

Completion Completed(const Words& words) {
  const auto app = TestApp();
  return Complete(*app, words, words.size() - 1, NamesOfTest);
}

Words WordsFor(const Words& words) {
  const Completion completion = Completed(words);
  EXPECT_EQ(completion.kind, Completion::Kind::kWords);
  Words found;
  for (const Continuation& one : completion.candidates) found.push_back(one.word);
  return found;
}

TEST(Completer, KnowsSubcommandsButNotHiddenOnes) {
  EXPECT_EQ(WordsFor({"tool", ""}), (Words{"show", "read", "run", "token"}));
  EXPECT_EQ(WordsFor({"tool", "sh"}), (Words{"show"}));
  EXPECT_EQ(WordsFor({"tool", "hid"}), Words{});
  EXPECT_EQ(WordsFor({"tool", "token", ""}), (Words{"create"}));
  EXPECT_EQ(Completed({"tool", "sh"}).candidates.front().meaning, "Show things");
}

TEST(Completer, KnowsOptionsThatCanStillBeUsed) {
  EXPECT_EQ(WordsFor({"tool", "show", "-"}),
            (Words{"--help", "--colour", "--types", "--output", "--env", "--json"}));
  EXPECT_EQ(WordsFor({"tool", "show", "--json", "-c", "red", "--env", "A=1", "--"}),
            (Words{"--help", "--types", "--output", "--env"}));
}

TEST(Completer, KnowsChoicesInEveryFormOfAnOption) {
  EXPECT_EQ(WordsFor({"tool", "show", "--colour", ""}), (Words{"red", "blue"}));
  EXPECT_EQ(WordsFor({"tool", "show", "-c", "b"}), (Words{"blue"}));
  EXPECT_EQ(WordsFor({"tool", "show", "--colour=r"}), (Words{"--colour=red"}));
  EXPECT_EQ(WordsFor({"tool", "show", "--colour", "x"}), Words{});
  EXPECT_EQ(WordsFor({"tool", "show", "--json=x"}), Words{}) << "it takes no value";
  EXPECT_EQ(WordsFor({"tool", "show", "--unknown=x"}), Words{});
}

TEST(Completer, AsksForNamesOfPositionalsAndOptions) {
  EXPECT_EQ(WordsFor({"tool", "show", ""}), (Words{"llama", "3f9a01c2"}));
  EXPECT_EQ(WordsFor({"tool", "show", "--json", "l"}), (Words{"llama"}));
  // After `-cred` comes no value, and after a positional no other.
  EXPECT_EQ(WordsFor({"tool", "show", "-cred", "l"}), (Words{"llama"}));
  EXPECT_EQ(WordsFor({"tool", "show", "llama", "l"}), Words{});
  EXPECT_EQ(WordsFor({"tool", "show", "--", "l"}), (Words{"llama"}));
  EXPECT_EQ(WordsFor({"tool", "show", "--", "--j"}), Words{});
}

TEST(Completer, GoesOnBehindTheLastCommaOfAList) {
  EXPECT_EQ(WordsFor({"tool", "show", "--types", "plan.changed,rank."}),
            (Words{"plan.changed,rank.late", "plan.changed,rank.*"}));
}

TEST(Completer, OffersOptionsWhereNothingElseCanCome) {
  EXPECT_EQ(WordsFor({"tool", "show", "llama", ""}).front(), "--help");
}

TEST(Completer, LeavesFilesToTheShell) {
  EXPECT_EQ(Completed({"tool", "show", "-o", "x"}).kind, Completion::Kind::kFiles);
  EXPECT_EQ(Completed({"tool", "show", "--output=x"}).kind, Completion::Kind::kFiles);
  EXPECT_EQ(Completed({"tool", "read", "x"}).kind, Completion::Kind::kFiles);
}

TEST(Completer, LeavesTheCommandLineOfAProgramToTheShell) {
  const auto begins_at = [](const Words& words) {
    const Completion completion = Completed(words);
    EXPECT_EQ(completion.kind, Completion::Kind::kProgram);
    return completion.program_at;
  };
  EXPECT_EQ(begins_at({"tool", "run", ""}), 2u);
  EXPECT_EQ(begins_at({"tool", "run", "-n", "2", "pyth"}), 4u);
  EXPECT_EQ(begins_at({"tool", "run", "--prefix", "python3", "--help"}), 3u);
  EXPECT_EQ(begins_at({"tool", "run", "--", ""}), 3u);
  EXPECT_EQ(begins_at({"tool", "run", "--", "-odd", "x"}), 3u);
  EXPECT_EQ(WordsFor({"tool", "run", "--pre"}), (Words{"--prefix"}));
  EXPECT_EQ(WordsFor({"tool", "run", "-n", ""}), Words{});
}

TEST(Completer, StandsUnknownAndOddWords) {
  EXPECT_EQ(WordsFor({"tool", "--nonsense", "-", "", "x", "sh"}), (Words{"show"}));
  const auto app = TestApp();
  EXPECT_EQ(Complete(*app, Words{"tool"}, 1, NamesOfTest).candidates.size(), 4u);
}

TEST(ShellWords, JoinWhatBashHasSplit) {
  const ShellWords option = JoinPieces({"tool", "show", "--colour", "=", "re"}, 4);
  EXPECT_EQ(option.words, (Words{"tool", "show", "--colour=re"}));
  EXPECT_EQ(option.cursor, 2u);
  EXPECT_EQ(option.kept, std::string("--colour=").size());
  // Behind the sign bash adds what is found.
  EXPECT_EQ(JoinPieces({"tool", "--colour", "="}, 2).kept, std::string("--colour=").size());
  const ShellWords address = JoinPieces({"tool", "probe", "10.0.0.1", ":", "74", "x"}, 4);
  EXPECT_EQ(address.words, (Words{"tool", "probe", "10.0.0.1:74"}));
  EXPECT_EQ(address.kept, std::string("10.0.0.1:").size());
}

TEST(ShellWords, RememberWhereTheyStood) {
  const ShellWords line = JoinPieces({"tool", "--env", "=", "A", "run", ""}, 5);
  EXPECT_EQ(line.words, (Words{"tool", "--env=A", "run", ""}));
  EXPECT_EQ(line.places, (std::vector<size_t>{0, 1, 4, 5}));
  EXPECT_EQ(line.cursor, 3u);
  EXPECT_EQ(line.kept, 0u);
}

TEST(ShellWords, MayHaveTheCursorBehindThem) {
  const ShellWords line = JoinPieces({"tool", "show"}, 2);
  EXPECT_EQ(line.cursor, 2u);
  EXPECT_EQ(line.places.back(), 2u);
}

TEST(ShellWords, ArePlainWhenNoShellExpandsThem) {
  for (const char* plain : {"llama", "3f9a01c2", "10.0.0.1:7400", "user@host/x", "a_b-c+d"}) {
    EXPECT_TRUE(IsPlainWord(plain)) << plain;
  }
  for (const char* odd :
       {"", "$(reboot)", "`id`", "a b", "-n", "--socket=/tmp/x", "a;b", "a*", "~x", "a'b", "a\"b",
        "a\\b", "a\nb", "{a,b}", "a&", "a|b", "a>b", "\xc3\xa4"}) {
    EXPECT_FALSE(IsPlainWord(odd)) << odd;
  }
}

}  // namespace
}  // namespace harmonaize
