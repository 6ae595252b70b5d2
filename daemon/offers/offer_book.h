#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/offers/offer.h"
#include "daemon/promises/record_keeper.h"
#include "src/base/status.h"
#include "src/requirements/terms.h"

namespace harmonaize::daemon {

/// The offers that this daemon has made, kept on the disk, and copies of those that other daemons
/// have made to jobs that are here. Thread: engine.
class OfferBook {
 public:
  /// Requires: `keeper` outlives the book.
  explicit OfferBook(RecordKeeper* keeper) : keeper_(*keeper) {}

  /// Takes in what earlier daemons have made. Records that nobody has made are removed.
  void Restore();

  struct Entry {
    Offer offer;
    bool is_own = false;  ///< This daemon has made it, and decides about it.
    /// Sessions of the ranks that are named, as they were when these were offered or agreed on.
    std::vector<uint32_t> sessions = {};
    /// What the job had said in advance, and its size, when that was last looked at for an answer.
    std::shared_ptr<const JobTerms> looked_at_terms = {};
    int32_t looked_at_size = 0;
    /// OfferAnswer::unique of the answer that was given in advance; 0: none was.
    uint64_t answer_in_advance = 0;
  };

  /// Adds an offer of this daemon's. Errors: kInvalidUsage if kMostOpen are open.
  Result<Entry*> AddOwn(const Offer& offer);
  /// Notes a change of an own offer, and keeps it.
  void Change(Entry& entry, const Offer& offer);
  /// Takes in the copy of another daemon's offer. Returns the entry, or nullptr if nothing of it is
  /// new, or there is no room.
  Entry* TakeCopy(const Offer& offer);

  /// Returns nullptr where there is none.
  Entry* Find(std::string_view id);
  /// Returns the offer with this id or, where one alone begins with it, that one. Of a tenant's, or
  /// of all for a tenant's name of nullptr. Errors: kUnavailable if there is none; kInvalidUsage if
  /// there are several.
  Result<Entry*> FindNamed(const std::string* tenant, std::string_view which);
  /// The newest first.
  std::vector<const Offer*> All(const std::function<bool(const Offer&)>& keep) const;
  /// Calls `visit` with each own offer, also those that have ended.
  void VisitOwn(const std::function<void(const Offer&)>& visit) const;
  /// Calls `visit` with each entry that has not ended. It may change the entry.
  void ForEachLive(const std::function<void(Entry&)>& visit);
  /// Returns whether an offer is here that has not ended.
  bool has_live() const;
  /// Forgets copies whose time passed a while ago, and of which nothing was heard.
  void ForgetOldCopies(double now_seconds);

  /// Most own offers that have not ended: people and programs look through them.
  static constexpr size_t kMostOpen = 64;
  /// Most own offers that have ended and are remembered. Beyond it the oldest goes.
  static constexpr size_t kMostEnded = 256;
  /// Most copies of one tenant's offers, and of all. Of a tenant that has as many the oldest goes.
  static constexpr size_t kMostCopiesOfTenant = 64;
  static constexpr size_t kMostCopies = 1024;

 private:
  void MakeRoomForEnded();
  bool MakeRoomForCopyOf(const TenantIdentity& tenant);

  RecordKeeper& keeper_;
  std::map<std::string, Entry, std::less<>> entries_;  // by id
};

}  // namespace harmonaize::daemon
