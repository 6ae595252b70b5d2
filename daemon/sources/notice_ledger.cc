#include "daemon/sources/notice_ledger.h"

#include <fmt/format.h>

#include <set>
#include <utility>

namespace harmonaize::daemon {
namespace {

using State = CloudNotice::State;

/// Returns what a notice has become that the source publishes no more.
State EndOf(const CloudNotice& notice, bool approved, const PublishedNotices& published,
            const std::string& published_id, int64_t now_seconds) {
  const auto said = published.ended.find(published_id);
  if (said != published.ended.end()) return said->second;
  if (notice.state == State::kStarted || approved) return State::kCompleted;
  if (!notice.not_before_seconds.has_value()) return published.missing;
  return now_seconds >= *notice.not_before_seconds ? State::kCompleted : State::kWithdrawn;
}

/// Gives the new form of a notice what stays of the old one. Returns whether the rest is news.
bool IsNews(const CloudNotice& old, CloudNotice* renewed) {
  renewed->id = old.id;
  if (old.state == State::kStarted) renewed->state = State::kStarted;
  CloudNotice same_text = *renewed;
  same_text.text = old.text;
  return same_text != old;
}

}  // namespace

std::vector<CloudNotice> NoticeLedger::Update(const PublishedNotices& published,
                                              int64_t now_seconds) {
  // If memory runs out on the way, the ledger is as before, and the next Update has the news.
  NoticeLedger updated = *this;
  std::vector<CloudNotice> news;
  // What has ended makes room for what is new.
  updated.EndMissing(published, now_seconds, &news);
  updated.TakePublished(published, now_seconds, &news);
  *this = std::move(updated);
  return news;
}

void NoticeLedger::EndMissing(const PublishedNotices& published, int64_t now_seconds,
                              std::vector<CloudNotice>* news) {
  std::set<std::string> present;
  for (const PublishedNotice& one : published.notices) present.insert(one.notice.id);
  for (auto known = known_.begin(); known != known_.end();) {
    const std::string& id = known->first;
    const bool is_over =
        !present.contains(id) && (published.doubt.empty() || published.ended.contains(id));
    if (!is_over) {
      ++known;
      continue;
    }
    CloudNotice& notice = known->second.notice;
    notice.state = EndOf(notice, known->second.approved, published, id, now_seconds);
    news->push_back(std::move(notice));
    known = known_.erase(known);
  }
}

void NoticeLedger::TakePublished(const PublishedNotices& published, int64_t now_seconds,
                                 std::vector<CloudNotice>* news) {
  left_out_ = 0;
  for (const PublishedNotice& one : published.notices) {
    CloudNotice notice = one.notice;
    const auto known = known_.find(notice.id);
    if (known != known_.end()) {
      if (IsNews(known->second.notice, &notice)) news->push_back(notice);
      known->second.notice = std::move(notice);
      continue;
    }
    if (one.id_recurs) notice.id += fmt::format("/{}", now_seconds);
    if (known_.size() == kMostNoticesOfASource || Find(notice.id) != nullptr) {
      ++left_out_;
      continue;
    }
    news->push_back(notice);
    known_.emplace(one.notice.id, Known{std::move(notice)});
  }
}

const CloudNotice* NoticeLedger::Find(const std::string& id) const {
  for (const auto& [published_id, known] : known_) {
    if (known.notice.id == id) return &known.notice;
  }
  return nullptr;
}

void NoticeLedger::SetApproved(const std::string& id) {
  for (auto& [published_id, known] : known_) {
    if (known.notice.id == id) known.approved = true;
  }
}

}  // namespace harmonaize::daemon
