#include "daemon/ras/ras_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "src/base/clean_text.h"

namespace harmonaize::daemon {
namespace {

using Kind = RasCommand::Kind;

/// Longest part of a line that an error repeats, in bytes.
constexpr size_t kMostShownBytes = 64;

char Lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

bool IsWord(std::string_view text, std::string_view lower_case) {
  return std::equal(text.begin(), text.end(), lower_case.begin(), lower_case.end(),
                    [](char one, char other) { return Lower(one) == other; });
}

/// Takes the word off the beginning of the text, if it stands there.
bool TakeWord(std::string_view* text, std::string_view lower_case) {
  if (!IsWord(text->substr(0, lower_case.size()), lower_case)) return false;
  text->remove_prefix(lower_case.size());
  return true;
}

RasCommand Wrong(std::string_view what, std::string_view shown) {
  return {.error = fmt::format("ERROR: {} {}", what, CleanText(shown, kMostShownBytes))};
}

RasCommand ReadTimeout(std::string_view text) {
  int seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool is_whole = end == text.data() + text.size();
  if (error == std::errc::result_out_of_range && is_whole && text.front() != '-') {
    seconds = kMostRasTimeoutSeconds;
  } else if (error != std::errc() || !is_whole || seconds < 0) {
    return Wrong("Invalid timeout value", text);
  }
  return {.kind = Kind::kTimeout, .timeout_seconds = std::min(seconds, kMostRasTimeoutSeconds)};
}

RasCommand ReadFormat(std::string_view text) {
  if (IsWord(text, "json")) return {.kind = Kind::kFormat, .json = true};
  if (IsWord(text, "text")) return {.kind = Kind::kFormat};
  return Wrong("Invalid format", text);
}

RasCommand ReadMonitor(std::string_view text) {
  RasCommand command{.kind = Kind::kMonitor};
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    if (word.empty()) continue;
    if (IsWord(word, "lifecycle")) {
      command.groups |= kRasLifecycle;
    } else if (IsWord(word, "trace")) {
      command.groups |= kRasTrace;
    } else if (IsWord(word, "all")) {
      command.groups |= kRasAllEvents;
    } else {
      return Wrong("Invalid event group", word);
    }
  }
  if (command.groups == 0) command.groups = kRasLifecycle;
  return command;
}

}  // namespace

RasCommand ParseRasCommand(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.ends_with(" HTTP/1.1") || line.ends_with(" HTTP/1.0")) return {.kind = Kind::kForeign};
  std::string_view rest = line;
  if (TakeWord(&rest, "client protocol ")) return {.kind = Kind::kGreeting};
  if (TakeWord(&rest, "timeout ")) return ReadTimeout(rest);
  if (TakeWord(&rest, "set format ")) return ReadFormat(rest);
  if (IsWord(line, "status")) return {.kind = Kind::kStatus};
  if (IsWord(line, "verbose status")) return {.kind = Kind::kStatus, .verbose = true};
  if (TakeWord(&rest, "monitor") && (rest.empty() || rest.front() == ' ')) return ReadMonitor(rest);
  return Wrong("Unknown command", line);
}

}  // namespace harmonaize::daemon
