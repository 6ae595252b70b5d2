#pragma once

#include <map>
#include <string>
#include <vector>

#include "daemon/sources/notice_ledger.h"
#include "daemon/sources/published_notices.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {

/// Follows what a source publishes from one document to the next, as the poller does, and holds the
/// news to what daemon/sources/cloud_notice.h promises.
class NoticeChecks {
 public:
  void Take(const daemon::PublishedNotices& published) {
    RequireClean(published.doubt, "a doubt can be logged");
    Require(published.notices.size() <= daemon::kMostNoticesOfASource, "few enough notices");
    now_seconds_ += 60;
    const std::vector<daemon::CloudNotice> news = ledger_.Update(published, now_seconds_);
    for (const daemon::CloudNotice& notice : news) Check(notice);
    Require(ledger_.size() == open_.size(), "the ledger holds what is not over");
    Require(ledger_.size() <= daemon::kMostNoticesOfASource, "and no more than its limit");
    Require(ledger_.Update(published, now_seconds_).empty(), "the same document twice is no news");
  }

 private:
  using State = daemon::CloudNotice::State;

  void Check(const daemon::CloudNotice& notice) {
    Require(!notice.source.empty() && !notice.id.empty(), "a notice has a source and an id");
    RequireClean(notice.id, "an id is clean");
    RequireClean(notice.text, "a text is clean");
    Require(notice.text.size() <= daemon::kMostNoticeTextBytes, "and short");
    Require(notice.not_before_seconds.value_or(0) >= 0, "a time is after 1970");
    Require(notice.duration_seconds.value_or(0) >= 0, "a duration is not negative");
    const auto open = open_.find(notice.id);
    if (notice.state == State::kCompleted || notice.state == State::kWithdrawn) {
      Require(open != open_.end(), "what ends has begun");
      open_.erase(open);
      return;
    }
    if (open != open_.end()) {
      Require(notice != open->second, "no news is repeated");
      Require(open->second.state != State::kStarted || notice.state == State::kStarted,
              "what has started does not go back");
    }
    open_[notice.id] = notice;
  }

  daemon::NoticeLedger ledger_;
  std::map<std::string, daemon::CloudNotice> open_;  // by id
  int64_t now_seconds_ = 1'700'000'000;
};

/// Cuts an input into the documents of successive polls, at lines that hold "---" alone.
inline std::vector<std::string> DocumentsOf(std::string_view text) {
  constexpr std::string_view kCut = "\n---\n";
  std::vector<std::string> documents;
  for (size_t end = 0; (end = text.find(kCut)) != std::string_view::npos;) {
    documents.emplace_back(text.substr(0, end));
    text.remove_prefix(end + kCut.size());
  }
  documents.emplace_back(text);
  return documents;
}

}  // namespace harmonaize::fuzz
