#include "cli/manual/manual_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

namespace harmonaize {
namespace {

using Lines = std::vector<std::string>;

constexpr std::string_view kUsage = "Usage:";
constexpr std::string_view kExitStatus = "Exit status:";
/// Longest indentation, in characters, at which a list's item begins. What it says of an item
/// stands far behind that.
constexpr size_t kMostItemIndentation = 4;

Lines SplitLines(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

size_t Indentation(const std::string& line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

std::string Trimmed(const std::string& line) {
  const size_t begin = Indentation(line);
  return line.substr(begin, line.find_last_not_of(' ') + 1 - begin);
}

std::string InCapitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// Returns text that man(1) shows as it is. Hyphens become the minus signs that a shell takes.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '\\': escaped += "\\e"; break;
      case '-': escaped += "\\-"; break;
      case '\'': escaped += "\\(aq"; break;
      case '`': escaped += "\\(ga"; break;
      case '^': escaped += "\\(ha"; break;
      case '~': escaped += "\\(ti"; break;
      case '"': escaped += "\\(dq"; break;
      default: escaped += c;
    }
  }
  // A line that begins so would be a request.
  if (escaped.starts_with('.')) escaped.insert(0, "\\&");
  return escaped;
}

/// The parts of a help's text.
struct Help {
  struct Item {
    std::string names;
    Lines meaning;
  };
  struct Group {
    std::string title;
    std::vector<Item> items;
  };
  Lines description;
  std::string usage;
  std::vector<Group> groups;
  Lines text;
};

bool IsGroupTitle(const std::string& line) {
  return line == "Positionals:" || line == "Options:" || line == "Subcommands:";
}

/// Takes a line of a list apart: "  --name TYPE         what it is".
void AddToItems(const std::string& line, std::vector<Help::Item>* items) {
  const std::string text = Trimmed(line);
  if (Indentation(line) > kMostItemIndentation) {
    if (!items->empty()) items->back().meaning.push_back(text);
    return;
  }
  const size_t gap = text.find("  ");
  Help::Item item{.names = text.substr(0, gap), .meaning = {}};
  if (gap != std::string::npos) item.meaning.push_back(Trimmed(text.substr(gap)));
  items->push_back(std::move(item));
}

Result<Help> ParseHelp(std::string_view text) {
  const Lines lines = SplitLines(text);
  Help help;
  auto line = lines.begin();
  for (; line != lines.end() && !line->starts_with(kUsage); ++line) {
    help.description.push_back(*line);
  }
  if (line == lines.end()) return InvalidArgument("a help without a line 'Usage:' makes no page");
  help.usage = Trimmed(line->substr(kUsage.size()));
  for (++line; line != lines.end(); ++line) {
    if (IsGroupTitle(*line)) {
      help.groups.push_back({line->substr(0, line->size() - 1), {}});
    } else if (line->starts_with(' ') && !help.groups.empty()) {
      AddToItems(*line, &help.groups.back().items);
    } else if (!line->empty()) {
      break;
    }
  }
  help.text.assign(line, lines.end());
  return help;
}

/// Writes a page, from its top to its end.
class Page {
 public:
  void Section(std::string_view title) {
    Request(fmt::format(".SH {}", title));
    section_begins_ = true;
  }
  void Request(std::string_view request) {
    fmt::format_to(std::back_inserter(text_), "{}\n", request);
    section_begins_ = false;
  }
  void Text(std::string_view line) { Request(Escaped(line)); }

  /// Writes lines: paragraphs are filled, and indented lines stay as they are. A word before
  /// indented lines belongs to them.
  void Paragraphs(const Lines& lines) {
    bool literal = false;
    bool begun = false;
    for (const std::string& line : lines) {
      const bool indented = line.starts_with(' ');
      if (line.empty() && !literal) begun = false;
      if (indented != literal && !line.empty()) {
        if (indented) BeginParagraph();
        Request(indented ? ".nf\n.RS 4" : ".RE\n.fi");
        literal = indented;
        begun = indented;
      }
      if (line.empty()) continue;
      if (!begun) BeginParagraph();
      begun = true;
      Text(literal ? line.substr(std::min<size_t>(2, Indentation(line))) : line);
    }
    if (literal) Request(".RE\n.fi");
  }

  /// Writes lines as they are.
  void Literal(const Lines& lines) {
    Request(".nf\n.RS 4");
    for (const std::string& line : lines) Text(Trimmed(line));
    Request(".RE\n.fi");
  }

  std::string Take() { return std::move(text_); }

 private:
  /// A section begins with a paragraph of itself.
  void BeginParagraph() {
    if (!section_begins_) Request(".PP");
  }

  bool section_begins_ = false;
  std::string text_;
};

/// The text of a help, by the sections that it makes.
struct TextSections {
  Lines description;
  Lines exit_status;
  Lines examples;
};

bool BeginsExamples(const std::string& line) {
  return line == "Examples:" || line == "Example:";
}

TextSections Divide(const Lines& lines) {
  TextSections sections;
  Lines* into = &sections.description;
  for (const std::string& line : lines) {
    if (BeginsExamples(line)) {
      into = &sections.examples;
      continue;
    }
    if (line.starts_with(kExitStatus)) {
      into = &sections.exit_status;
      std::string rest = Trimmed(line.substr(kExitStatus.size()));
      if (!rest.empty())
        rest[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(rest[0])));
      into->push_back(rest);
      continue;
    }
    // A paragraph that has no section of its own goes on with the description.
    if (line.empty() && into == &sections.exit_status) into = &sections.description;
    if (into == &sections.examples && !line.empty() && !line.starts_with(' ')) {
      into = &sections.description;
      into->emplace_back();
    }
    if (into != &sections.examples || !line.empty()) into->push_back(line);
  }
  return sections;
}

/// Returns the first sentence of a description, without its period, and without the program's name
/// before it.
std::string SummaryOf(const std::string& name, const Lines& description) {
  std::string summary;
  for (const std::string& line : description) {
    if (line.empty()) break;
    summary += (summary.empty() ? "" : " ") + line;
  }
  const size_t end = summary.find(". ");
  if (end != std::string::npos) summary.resize(end);
  while (summary.ends_with('.')) summary.pop_back();
  if (summary.starts_with(name + ": ")) summary.erase(0, name.size() + 2);
  return summary;
}

void WriteGroups(const std::vector<Help::Group>& groups, Page* page) {
  for (const Help::Group& group : groups) {
    std::string title = group.title == "Positionals" ? "Arguments" : group.title;
    if (title == "Subcommands") title = "Commands";
    page->Section(InCapitals(title));
    for (const Help::Item& item : group.items) {
      page->Request(".TP");
      const size_t type = std::min(item.names.find(' '), item.names.size());
      page->Request("\\fB" + Escaped(item.names.substr(0, type)) + "\\fR" +
                    Escaped(item.names.substr(type)));
      // A term without a text would take the next term for it.
      if (item.meaning.empty()) page->Request("\\&");
      for (size_t i = 0; i < item.meaning.size(); ++i) {
        if (i > 0) page->Request(".br");
        page->Text(item.meaning[i]);
      }
    }
  }
}

}  // namespace

Result<std::string> ManualPage(const ManualFrame& frame, std::string_view help) {
  HZ_ASSIGN_OR_RETURN(const Help parts, ParseHelp(help));
  const TextSections text = Divide(parts.text);
  Page page;
  page.Request(fmt::format(R"(.TH "{}" "{}" "" "{}" "Harmonaize")", Escaped(InCapitals(frame.name)),
                           frame.section, Escaped(frame.version)));
  page.Request(".nh\n.ad l");
  page.Section("NAME");
  page.Request(Escaped(frame.name) + " \\- " + Escaped(SummaryOf(frame.name, parts.description)));
  page.Section("SYNOPSIS");
  page.Request("\\fB" + Escaped(parts.usage) + "\\fR");
  page.Section("DESCRIPTION");
  page.Paragraphs(parts.description);
  page.Paragraphs(text.description);
  WriteGroups(parts.groups, &page);
  if (!text.exit_status.empty()) {
    page.Section("EXIT STATUS");
    page.Paragraphs(text.exit_status);
  }
  if (!text.examples.empty()) {
    page.Section("EXAMPLES");
    page.Literal(text.examples);
  }
  if (!frame.see_also.empty()) {
    page.Section("SEE ALSO");
    std::string list;
    for (const std::string& one : frame.see_also) list += (list.empty() ? "" : ", ") + one;
    page.Text(list);
  }
  return page.Take();
}

}  // namespace harmonaize
