#include "cli/manual/manual_page.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/unit/cli/launched.h"

namespace harmonaize {
namespace {

namespace fs = std::filesystem;

constexpr char kHelp[] = R"(Show things. And more.
Usage: tool show [OPTIONS] [THING]

Positionals:
  THING TEXT                  What to show

Options:
  -n,--number N:UINT          How many
                              (default: all)
  --very-long-option-name TEXT REQUIRED
                              What it says

First paragraph,
in two lines.

Kinds:
  one   \n is no line
  .two  'quoted'

Exit status: 0; 1 when there
is none.

Last paragraph.

Examples:
  tool show --number 3
  tool show ~/x
)";

TEST(ManualPage, HasASectionForEachPartOfTheHelp) {
  const Result<std::string> page = ManualPage(
      {.name = "tool-show", .version = "tool 1.0", .see_also = {"tool(1)", "other(8)"}}, kHelp);
  ASSERT_TRUE(page.ok()) << page.status().message();
  EXPECT_EQ(*page, R"(.TH "TOOL\-SHOW" "1" "" "tool 1.0" "Harmonaize"
.nh
.ad l
.SH NAME
tool\-show \- Show things
.SH SYNOPSIS
\fBtool show [OPTIONS] [THING]\fR
.SH DESCRIPTION
Show things. And more.
.PP
First paragraph,
in two lines.
.PP
Kinds:
.PP
.nf
.RS 4
one   \en is no line
\&.two  \(aqquoted\(aq
.RE
.fi
.PP
Last paragraph.
.SH ARGUMENTS
.TP
\fBTHING\fR TEXT
What to show
.SH OPTIONS
.TP
\fB\-n,\-\-number\fR N:UINT
How many
.br
(default: all)
.TP
\fB\-\-very\-long\-option\-name\fR TEXT REQUIRED
What it says
.SH EXIT STATUS
0; 1 when there
is none.
.SH EXAMPLES
.nf
.RS 4
tool show \-\-number 3
tool show \(ti/x
.RE
.fi
.SH SEE ALSO
tool(1), other(8)
)");
}

TEST(ManualPage, IsNoneForAnEmptyHelp) {
  EXPECT_EQ(ManualPage({.name = "tool"}, "").status().code(), Code::kInvalidArgument);
}

/// What a program prints, on both of its outputs.
std::string OutputOf(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "re");
  std::string text;
  char buffer[4096];
  for (size_t got; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    text.append(buffer, got);
  }
  pclose(pipe);
  return text;
}

class Manual : public testing::Test {
 protected:
  void SetUp() override {
    Result<TemporaryFolder> folder = TemporaryFolder::Make();
    ASSERT_TRUE(folder.ok()) << folder.status().message();
    folder_ = std::move(*folder);
    Launched manual({"manual", folder_.path()});
    ASSERT_EQ(manual.Wait(), 0) << manual.error();
  }
  TemporaryFolder folder_;
};

TEST_F(Manual, HasAPageForEachCommandThatHelpLists) {
  std::set<std::string> pages;
  for (const auto& file : fs::directory_iterator(folder_.path())) {
    pages.insert(file.path().filename().string());
  }
  std::istringstream help(OutputOf(std::string(HARMONAIZE_PROGRAM) + " --help"));
  bool commands = false;
  size_t listed = 0;
  for (std::string line; std::getline(help, line) && line != "Examples:";) {
    if (commands && line.starts_with("  ")) {
      const std::string name = line.substr(2, line.find(' ', 2) - 2);
      EXPECT_TRUE(pages.contains("harmonaize-" + name + ".1")) << name;
      ++listed;
    }
    commands = commands || line == "Subcommands:";
  }
  EXPECT_GE(listed, 10u);
  std::ifstream first(folder_.path() + "/harmonaize.1");
  const std::string text(std::istreambuf_iterator<char>(first), {});
  EXPECT_NE(text.find("\\fBharmonaize [OPTIONS] SUBCOMMAND\\fR"), std::string::npos) << text;
  EXPECT_NE(text.find("\nharmonaize \\- run programs whose"), std::string::npos) << text;
  EXPECT_NE(text.find(".SH COMMANDS\n.TP\n\\fBrun\\fR\n"), std::string::npos) << text;
  EXPECT_TRUE(pages.contains("harmonaize.1"));
  EXPECT_TRUE(pages.contains("harmonaize-token-create.1"));
  EXPECT_FALSE(pages.contains("harmonaize-complete.1")) << "it is hidden";
}

TEST_F(Manual, IsReadByGroffWithoutAWarning) {
  if (OutputOf("command -v groff").empty()) GTEST_SKIP() << "groff is not installed";
  for (const auto& file : fs::directory_iterator(folder_.path())) {
    EXPECT_EQ(OutputOf("groff -man -Tutf8 -ww -z " + file.path().string()), "") << file.path();
  }
  const std::string shown =
      OutputOf("groff -man -Tutf8 -P-c -P-b -P-o -P-u " + folder_.path() + "/harmonaize-run.1");
  EXPECT_NE(shown.find("--error-wait SECONDS"), std::string::npos) << shown;
  EXPECT_NE(shown.find("EXIT STATUS"), std::string::npos) << shown;
}

TEST_F(Manual, HasTheDaemonsPageFromItsHelp) {
  std::ofstream(folder_.path() + "/help") << "The daemon: serves.\nUsage: harmonaized [OPTIONS]\n";
  Launched manual({"manual", folder_.path(), "--daemon-help", folder_.path() + "/help"});
  ASSERT_EQ(manual.Wait(), 0) << manual.error();
  std::ifstream page(folder_.path() + "/harmonaized.8");
  const std::string text(std::istreambuf_iterator<char>(page), {});
  EXPECT_NE(text.find(".TH \"HARMONAIZED\" \"8\""), std::string::npos);
  EXPECT_NE(text.find("\\fBharmonaized [OPTIONS]\\fR"), std::string::npos);
  Launched broken({"manual", folder_.path(), "--daemon-help", folder_.path() + "/none"});
  EXPECT_EQ(broken.Wait(), 1);
  EXPECT_NE(broken.error().find(folder_.path() + "/none"), std::string::npos) << broken.error();
}

}  // namespace
}  // namespace harmonaize
