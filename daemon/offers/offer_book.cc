#include "daemon/offers/offer_book.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/offers/offer_record.h"
#include "src/base/clean_text.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// Time, in seconds, for which a copy is kept beyond what its offer is about, or beyond its end, so
/// that people can still look at it.
constexpr double kCopyStaysSeconds = 600;
/// Shortest text that is taken for the beginning of an id, in bytes: some digits behind "offer-".
constexpr size_t kLeastIdBytes = 8;
/// Longest part of an id that an error repeats, in bytes.
constexpr size_t kMostShownIdBytes = 64;

}  // namespace

void OfferBook::Restore() {
  for (const Record& record : keeper_.found()) {
    if (record.kind != kOfferRecord) continue;
    std::optional<Offer> offer = OfferIn(record);
    if (!offer.has_value() || entries_.size() >= kMostOpen + kMostEnded) {
      Log(LogLevel::kWarning, kLogInit, "a kept offer is not understood, and is removed");
      keeper_.Remove(record.kind, record.key);
      continue;
    }
    entries_.emplace(offer->id, Entry{.offer = *offer, .is_own = true});
  }
}

Result<OfferBook::Entry*> OfferBook::AddOwn(const Offer& offer) {
  const auto open = std::count_if(entries_.begin(), entries_.end(), [](const auto& one) {
    return one.second.is_own && !one.second.offer.has_ended();
  });
  if (static_cast<size_t>(open) >= kMostOpen) {
    return InvalidUsage(
        "{} offers are open on this host, which is as many as may be; `harmonaize offer withdraw` "
        "ends one",
        open);
  }
  MakeRoomForEnded();
  Entry& entry = entries_[offer.id];
  entry.is_own = true;
  Change(entry, offer);
  return &entry;
}

void OfferBook::Change(Entry& entry, const Offer& offer) {
  entry.offer = offer;
  keeper_.Put(RecordOf(offer));
}

void OfferBook::MakeRoomForEnded() {
  size_t ended = 0;
  auto oldest = entries_.end();
  for (auto one = entries_.begin(); one != entries_.end(); ++one) {
    if (!one->second.is_own || !one->second.offer.has_ended()) continue;
    ++ended;
    if (oldest == entries_.end() ||
        one->second.offer.ended_seconds < oldest->second.offer.ended_seconds) {
      oldest = one;
    }
  }
  if (ended < kMostEnded) return;
  keeper_.Remove(kOfferRecord, oldest->first);
  entries_.erase(oldest);
}

OfferBook::Entry* OfferBook::TakeCopy(const Offer& offer) {
  const auto found = entries_.find(offer.id);
  if (found == entries_.end()) {
    if (!MakeRoomForCopyOf(offer.tenant)) return nullptr;
    return &entries_.emplace(offer.id, Entry{.offer = offer}).first->second;
  }
  Entry& entry = found->second;
  const bool is_same = entry.offer.job == offer.job && entry.offer.tenant.name == offer.tenant.name;
  if (entry.is_own || !is_same || offer.revision <= entry.offer.revision) return nullptr;
  entry.offer = offer;
  return &entry;
}

bool OfferBook::MakeRoomForCopyOf(const TenantIdentity& tenant) {
  size_t copies = 0;
  size_t theirs = 0;
  auto oldest = entries_.end();
  for (auto one = entries_.begin(); one != entries_.end(); ++one) {
    if (one->second.is_own) continue;
    ++copies;
    if (one->second.offer.tenant.name != tenant.name) continue;
    ++theirs;
    if (oldest == entries_.end() ||
        one->second.offer.made_seconds < oldest->second.offer.made_seconds) {
      oldest = one;
    }
  }
  if (theirs >= kMostCopiesOfTenant || (copies >= kMostCopies && theirs > 0)) {
    entries_.erase(oldest);
    return true;
  }
  return copies < kMostCopies;
}

OfferBook::Entry* OfferBook::Find(std::string_view id) {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

Result<OfferBook::Entry*> OfferBook::FindNamed(const std::string* tenant, std::string_view which) {
  std::vector<Entry*> meant;
  for (auto& [id, entry] : entries_) {
    if (tenant != nullptr && entry.offer.tenant.name != *tenant) continue;
    if (id == which) return &entry;
    if (which.size() >= kLeastIdBytes && id.starts_with(which)) meant.push_back(&entry);
  }
  const std::string shown = CleanText(which, kMostShownIdBytes);
  if (meant.empty()) {
    return Unavailable("there is no offer '{}' here; `harmonaize offers` lists them", shown);
  }
  if (meant.size() > 1) {
    return InvalidUsage("'{}' may be any of {} offers: give more of the id", shown, meant.size());
  }
  return meant.front();
}

std::vector<const Offer*> OfferBook::All(const std::function<bool(const Offer&)>& keep) const {
  std::vector<const Offer*> offers;
  for (const auto& [id, entry] : entries_) {
    if (keep(entry.offer)) offers.push_back(&entry.offer);
  }
  std::sort(offers.begin(), offers.end(),
            [](const Offer* a, const Offer* b) { return a->made_seconds > b->made_seconds; });
  return offers;
}

void OfferBook::VisitOwn(const std::function<void(const Offer&)>& visit) const {
  for (const auto& [id, entry] : entries_) {
    if (entry.is_own) visit(entry.offer);
  }
}

void OfferBook::ForEachLive(const std::function<void(Entry&)>& visit) {
  for (auto& [id, entry] : entries_) {
    if (!entry.offer.has_ended()) visit(entry);
  }
}

bool OfferBook::has_live() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const auto& one) { return !one.second.offer.has_ended(); });
}

void OfferBook::ForgetOldCopies(double now_seconds) {
  std::erase_if(entries_, [&](const auto& one) {
    const Offer& offer = one.second.offer;
    const double last = offer.has_ended()
                            ? offer.ended_seconds
                            : std::max(offer.deadline_seconds, offer.terms.due_seconds);
    return !one.second.is_own && last + kCopyStaysSeconds < now_seconds;
  });
}

}  // namespace harmonaize::daemon
