#include "daemon/sources/published_notices.h"

#include <algorithm>
#include <utility>

#include "src/base/clean_text.h"

namespace harmonaize::daemon {
namespace {

// Visible ASCII: whoever shows an id, or puts it into a URL or an event, need not think about it.
bool IsPlainId(const std::string& id) {
  return !id.empty() && id.size() <= kMostNoticeIdBytes &&
         std::all_of(id.begin(), id.end(), [](char one) { return one > ' ' && one < '\x7f'; });
}

}  // namespace

void PublishedNotices::Doubt(std::string_view what) {
  if (doubt.empty()) doubt = CleanText(what, kMostNoticeTextBytes);
}

void PublishedNotices::Add(PublishedNotice published) {
  if (notices.size() == kMostNoticesOfASource) return Doubt("it has too many notices");
  CloudNotice& notice = published.notice;
  if (!IsPlainId(notice.id)) return Doubt("a notice has an id that is no short word");
  const bool is_known = std::any_of(notices.begin(), notices.end(),
                                    [&](const auto& one) { return one.notice.id == notice.id; });
  if (is_known) return Doubt("two notices have the same id");
  notice.text = CleanText(notice.text, kMostNoticeTextBytes);
  notices.push_back(std::move(published));
}

}  // namespace harmonaize::daemon
