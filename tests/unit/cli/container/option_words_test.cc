#include "cli/container/option_words.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace harmonaize {
namespace {

constexpr std::string_view kFlags[] = {"--rm", "--tty"};
constexpr OptionGrammar kGrammar = {kFlags, "it"};

struct WordsCase {
  std::vector<std::string> words;
  std::string options;  ///< "name[=value@word.offset]" each.
  size_t end;
};

std::string Text(const OptionWords& read) {
  std::string text;
  for (const GivenOption& option : read.options) {
    if (!text.empty()) text += " ";
    text += option.name;
    if (option.values.empty()) continue;
    text += fmt::format("={}@{}.{}", option.values.front(), option.word, option.offset);
  }
  return text;
}

TEST(OptionWords, AreReadAsProgramsReadThem) {
  const WordsCase cases[] = {
      {{}, "", 0},
      {{"image"}, "", 0},
      {{"--rm", "image", "--env", "A=1"}, "--rm", 1},
      {{"--env", "A=1", "image"}, "--env=A=1@1.0", 2},
      {{"--env=A=1", "image"}, "--env=A=1@0.6", 1},
      {{"--env=", "image"}, "--env=@0.6", 1},
      {{"--rm=false", "image"}, "--rm=false@0.5", 1},
      {{"-e", "A=1", "image"}, "-e=A=1@1.0", 2},
      {{"-eA=1", "image"}, "-e=A=1@0.2", 1},
      {{"-e=A=1", "image"}, "-e=A=1@0.3", 1},
      {{"-it", "image", "-x"}, "-i -t", 1},
      {{"-ite", "A=1", "image"}, "-i -t -e=A=1@1.0", 2},
      {{"-iteA", "image"}, "-i -t -e=A@0.4", 1},
      {{"--env", "--rm", "image"}, "--env=--rm@1.0", 2},
      {{"--rm", "--", "--env"}, "--rm", 1},
      {{"-", "x"}, "", 0},
      {{"--env"}, "", 1},
      {{"-e"}, "", 1},
  };
  for (const WordsCase& one : cases) {
    const OptionWords read = ReadOptionWords(one.words, 0, kGrammar);
    EXPECT_EQ(Text(read), one.options) << fmt::format("{}", fmt::join(one.words, " "));
    EXPECT_EQ(read.end, one.end) << fmt::format("{}", fmt::join(one.words, " "));
  }
}

TEST(OptionWords, TheLastValueCounts) {
  constexpr std::string_view kSought[] = {"--env", "-e"};
  constexpr std::string_view kAbsent[] = {"--other"};
  const OptionWords read = ReadOptionWords({"-e", "1", "--env=2", "--rm", "-e3"}, 0, kGrammar);
  EXPECT_EQ(LastValue(read.options, kSought), "3");
  EXPECT_EQ(LastValue(read.options, kAbsent), "");
  EXPECT_TRUE(HasOption(read.options, kSought));
  EXPECT_FALSE(HasOption(read.options, kAbsent));
}

}  // namespace
}  // namespace harmonaize
