#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/promises/promise.h"
#include "daemon/promises/record_keeper.h"
#include "src/events/event.h"

namespace harmonaize::daemon {

struct Job;

/// What was promised for this host, which jobs were told of it and what they have answered, and
/// what was kept. It also knows the events with a deadline that other daemons have told jobs of
/// this host, so that these can answer. Thread: engine.
class PromiseBook {
 public:
  /// Requires: `keeper` outlives the book.
  explicit PromiseBook(RecordKeeper* keeper) : keeper_(*keeper) {}

  /// Takes in what the keeper has found. Records that nobody has made are removed.
  void Restore();

  /// Notes what a notice promises, or what has become of it. Returns the promise's number; 0 for a
  /// notice that nobody is asked to answer.
  uint64_t Note(const CloudNotice& notice);
  /// Notes that no job is left that what begins now could harm.
  void NoteNobodyLeft(const std::string& source, const std::string& id);
  /// Hears of each event that a job is told. An event with a deadline is remembered, and one that
  /// answers another is an answer.
  void OnTold(const Job& job, const Event& event, bool began_here);
  /// Notes that this event of a job tells of the promise, and takes the place of those that told
  /// the job of it before.
  void Assign(const Job& job, uint64_t unique, uint64_t promise, const std::vector<int32_t>& ranks);

  /// Returns the event with a deadline of this tenant's and id, or nullptr. A tenant is who has its
  /// name, since the numbers of containers are others after a restart.
  const ToldNotice* Find(const TenantIdentity& tenant, std::string_view event_id) const;
  /// Returns the last of the events that took each other's place after this one; the event itself
  /// where none did.
  const ToldNotice& NewestOf(const ToldNotice& told) const;
  /// Notes an answer: `asked_until_seconds` of 0 acknowledges, and any other asks for more time.
  void Answer(const ToldNotice& told, double asked_until_seconds, double now_seconds);
  /// Sets who hears of each answer.
  void SetListener(std::function<void(const ToldNotice&)> listener) {
    listener_ = std::move(listener);
  }

  const std::deque<Promise>& promises() const { return promises_; }
  /// The oldest first.
  const std::list<ToldNotice>& told() const { return told_; }
  /// Returns the promise of this number, or nullptr.
  const Promise* FindPromise(uint64_t number) const;
  /// Returns what jobs were told last of a promise, without what was replaced.
  std::vector<const ToldNotice*> ToldOf(uint64_t promise) const;

  /// Most promises that are kept: a host has a few in a month.
  static constexpr size_t kMostPromises = 256;
  /// Most events that are remembered, of all tenants and of one. Beyond that the oldest goes.
  static constexpr size_t kMostTold = 4096;
  static constexpr size_t kMostToldOfTenant = 256;

 private:
  ToldNotice* FindTold(std::string_view job, uint64_t unique);
  Promise* PromiseOf(const std::string& source, const std::string& id);
  void Keep(const ToldNotice& told);
  void Forget(std::list<ToldNotice>::iterator told);
  void MakeRoomFor(const TenantIdentity& tenant);
  void ForgetOldestPromise();
  void TakeAnswer(const Job& job, const Event& event);

  RecordKeeper& keeper_;
  std::deque<Promise> promises_;  // the oldest first
  std::list<ToldNotice> told_;    // the oldest first
  uint64_t last_number_ = 0;
  std::function<void(const ToldNotice&)> listener_;
};

}  // namespace harmonaize::daemon
