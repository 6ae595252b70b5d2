#include "daemon/sources/gcp_events.h"

#include <string>
#include <utility>

#include "src/base/clean_text.h"

namespace harmonaize::daemon {
namespace {

/// As much of an unknown value as is quoted, in bytes: twice the longest known one.
constexpr size_t kMostQuotedValueBytes = 64;

/// Removes one line end, which the server may send after the value.
std::string_view OneLine(std::string_view value) {
  if (value.ends_with('\n')) value.remove_suffix(1);
  return value;
}

void AddNotice(std::string id, CloudNotice notice, PublishedNotices* published) {
  notice.source = "gcp";
  notice.id = std::move(id);
  published->Add({std::move(notice), true});
}

Status UnknownValue(std::string_view name, std::string_view value) {
  return RemoteError("{} has the unknown value '{}'", name,
                     CleanText(value, kMostQuotedValueBytes));
}

}  // namespace

Result<PublishedNotices> ReadGcpMaintenance(std::string_view value) {
  value = OneLine(value);
  PublishedNotices published;
  published.missing = CloudNotice::State::kCompleted;
  CloudNotice notice;
  if (value == "NONE") return published;
  if (value == "MIGRATE_ON_HOST_MAINTENANCE") {
    notice.survives = true;
    notice.text = "the machine is moved to another host while it runs";
  } else if (value == "TERMINATE_ON_HOST_MAINTENANCE") {
    notice.text = "the machine is stopped for maintenance of its host, and started again";
  } else {
    return UnknownValue("maintenance-event", value);
  }
  AddNotice("maintenance-event", std::move(notice), &published);
  return published;
}

Result<PublishedNotices> ReadGcpPreempted(std::string_view value) {
  value = OneLine(value);
  PublishedNotices published;
  if (value == "FALSE") return published;
  if (value != "TRUE") return UnknownValue("preempted", value);
  CloudNotice notice;
  notice.kind = CloudNotice::Kind::kReclaim;
  notice.state = CloudNotice::State::kStarted;
  notice.text = "the machine is preempted";
  AddNotice("preempted", std::move(notice), &published);
  return published;
}

}  // namespace harmonaize::daemon
