#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "src/base/status.h"
#include "src/client/events/event_subscription.h"

namespace harmonaize::shim {

/// An offer to a job, as the daemon tells of it.
struct OfferView {
  std::string id;
  std::string kind;
  std::string state;
  uint64_t revision = 0;
  int ranks = 0;
  bool can_be_refused = true;
  std::string json;  ///< All of it, in one line.
};

/// The offers of one job: first those that have not ended, then each one that is made or changes.
/// Thread: one at a time.
class OfferWatch {
 public:
  /// Errors: those of EventSubscription::Open; kInvalidUsage if the daemon refuses.
  static Result<std::unique_ptr<OfferWatch>> Open(const std::string& job);

  /// Returns the next offer that is new or has changed, and waits for it for `timeout_ms`; -1: for
  /// ever; 0: not at all. Returns nullopt if there is none.
  Result<std::optional<OfferView>> Next(int timeout_ms);

 private:
  explicit OfferWatch(std::unique_ptr<EventSubscription> changes) : changes_(std::move(changes)) {}
  bool IsNew(const OfferView& offer);

  const std::unique_ptr<EventSubscription> changes_;
  std::deque<OfferView> waiting_;
  std::map<std::string, uint64_t> told_;  ///< Revisions, by id.
};

}  // namespace harmonaize::shim
