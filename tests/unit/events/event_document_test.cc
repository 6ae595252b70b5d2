// docs/events.md is written for people, and says of each type what the table of fields says.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "src/base/words.h"
#include "src/events/event_fields.h"
#include "src/events/event_type.h"

namespace harmonaize {
namespace {

std::string KindInWords(const EventField& field) {
  std::string words(FieldKindText(field.kind));
  const char* before = " ";
  ForEachWord(field.choices, [&](std::string_view choice) {
    words += fmt::format("{}`{}`", before, choice);
    before = ", ";
  });
  return words;
}

/// Returns the part of the document that is about a type.
std::string SectionOf(const EventTypeInfo& info) {
  std::string section = fmt::format("### `{}`\n\n{} Severity: {}.\n\n", info.name, info.when,
                                    SeverityName(info.severity));
  section += "| field | value | meaning |\n|---|---|---|\n";
  for (const EventField& field : FieldsOf(info.type).fields) {
    section += fmt::format("| `{}`{} | {} | {} |\n", field.name,
                           field.required ? "" : " (optional)", KindInWords(field), field.meaning);
  }
  return section + fmt::format("\nNot said: {}\n", FieldsOf(info.type).not_said);
}

std::string Document() {
  std::ifstream file(EVENTS_DOCUMENT);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(EventsDocument, SaysOfEachTypeWhatTheTableSays) {
  const std::string document = Document();
  size_t place = 0;
  for (const EventTypeInfo& info : EventTypes()) {
    const std::string section = SectionOf(info);
    const size_t found = document.find(section, place);
    ASSERT_NE(found, std::string::npos)
        << "docs/events.md should say, in the order of the types:\n\n"
        << section;
    place = found + section.size();
  }
}

TEST(EventsDocument, HasNoTypesBesides) {
  const std::string document = Document();
  size_t sections = 0;
  for (size_t at = document.find("\n### `"); at != std::string::npos;
       at = document.find("\n### `", at + 1)) {
    ++sections;
  }
  EXPECT_EQ(sections, EventTypes().size());
}

}  // namespace
}  // namespace harmonaize
