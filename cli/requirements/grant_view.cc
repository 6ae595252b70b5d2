#include "cli/requirements/grant_view.h"

#include <fmt/format.h>

#include <string>

#include "cli/daemon_document.h"
#include "cli/json_view.h"
#include "src/base/clean_text.h"

namespace harmonaize {
namespace {

/// Most bytes that are shown of one text: a daemon of a later version may say more.
constexpr size_t kMostShownBytes = 70'000;

/// Returns a text of the document with its lines, and nothing else that a terminal would obey.
std::string Lines(const std::string& text) {
  std::string clean;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    clean += CleanText(text.substr(begin, end - begin), kMostShownBytes) + "\n";
    begin = end + 1;
  }
  return clean;
}

std::string ShortfallLine(const Json& one) {
  const Json& granted = one.at("granted");
  return fmt::format(
      "  {}: asked {}, granted {}: {}\n",
      CleanText(one.at("key").get<std::string>(), kMostShownBytes),
      CleanText(one.at("asked").get<std::string>(), kMostShownBytes),
      granted.is_null() ? "nothing" : CleanText(granted.get<std::string>(), kMostShownBytes),
      CleanText(one.at("why").get<std::string>(), kMostShownBytes));
}

/// Returns what stands in the place of a grant that is empty.
std::string EmptyGrantText(GrantOccasion occasion, bool all_is_refused) {
  if (all_is_refused) return "nothing is granted that was asked for\n";
  switch (occasion) {
    case GrantOccasion::kStated:
      return "nothing is asked for this job: it runs as it would without requirements\n";
    case GrantOccasion::kForgotten:
      return "what was asked for this job is forgotten: it runs as it would without requirements\n";
    case GrantOccasion::kChecked: break;
  }
  return "nothing, since nothing is asked for\n";
}

}  // namespace

Result<std::string> GrantText(const std::string& answer, GrantOccasion occasion) {
  try {
    const Json document = Json::parse(answer);
    const std::string granted = document.at("text").get<std::string>();
    const Json& shortfalls = document.at("shortfalls");
    std::string text =
        granted.empty() ? EmptyGrantText(occasion, !shortfalls.empty()) : Lines(granted);
    if (!granted.empty() && occasion == GrantOccasion::kForgotten) {
      text = "what was asked for this job is forgotten; the provider's defaults hold:\n" + text;
    }
    if (!shortfalls.empty()) text += "\nnot as asked:\n";
    for (const Json& one : shortfalls) text += ShortfallLine(one);
    return text;
  } catch (const Json::exception&) {
    return RemoteError("the daemon's answer has another form than this program knows");
  }
}

}  // namespace harmonaize
