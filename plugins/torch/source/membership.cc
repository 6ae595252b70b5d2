#include "plugins/torch/source/membership.h"

#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "plugins/torch/source/errors.h"
#include "plugins/torch/source/introduction.h"
#include "plugins/torch/source/progress.h"

namespace harmonaize_torch {
namespace {

using Clock = std::chrono::steady_clock;

/// Begins the keys of the ranks that have come.
constexpr const char* kCame = "harmonaize/came/";
/// What each rank of a group adds to the sleep between two looks at the store. So all ranks
/// together look 20 times in a millisecond at most: one thread of the store answers them, and rank
/// 0 too.
constexpr std::chrono::microseconds kStoreLookOfRank{50};

/// The id of a communicator as a value of the store.
std::vector<uint8_t> BytesOf(const ncclUniqueId& id) {
  return {id.internal, id.internal + NCCL_UNIQUE_ID_BYTES};
}

/// Publishes a new id for the communicator, or takes the one that another rank has published.
/// Returns whether the communicator has its id.
bool ExchangeId(c10d::Store& store, const std::string& key, bool maker,
                Communicator& communicator) {
  ncclUniqueId id{};
  if (maker) {
    Check("Making a communicator's id", Library::Get().ncclGetUniqueId(&id));
    store.set(key, BytesOf(id));
  } else {
    if (!store.check({key})) return false;
    const std::vector<uint8_t> bytes = store.get(key);
    TORCH_CHECK(bytes.size() == NCCL_UNIQUE_ID_BYTES, "the store has ", bytes.size(),
                " bytes where a communicator's id should be: ranks use different backends");
    std::memcpy(id.internal, bytes.data(), bytes.size());
  }
  communicator.SetId(id);
  return true;
}

/// Sleeps before the store is looked at again, the longer the more ranks do: it is one process that
/// answers all.
void SleepBeforeLook(int size) {
  std::this_thread::sleep_for(kStoreLook + size * kStoreLookOfRank);
}

[[noreturn]] void ThrowNotFormed(const GroupPlace& place, const std::vector<int>& missing) {
  ThrowError("The group " + place.name + " did not come together within " +
             std::to_string(place.timeout.count()) + " ms: " +
             (missing.empty() ? "the daemons did not connect its ranks"
                              : ListOfRanks(missing) + " did not come"));
}

/// Says that this rank has come, and waits until the group's communicator has formed, or until
/// `deadline`. Calls `meanwhile` at each look.
void AwaitFormed(Communicator& communicator, const GroupPlace& place, Clock::time_point deadline,
                 const std::function<void()>& meanwhile) {
  place.store->set(kCame + std::to_string(place.rank), std::vector<uint8_t>{1});
  while (!communicator.Formed()) {
    meanwhile();
    if (Clock::now() >= deadline) {
      const std::vector<int> missing = RanksWithoutKey(place, kCame);
      communicator.Abort("the group was given up");
      ThrowNotFormed(place, missing);
    }
    SleepBeforeLook(place.size);
  }
}

}  // namespace

std::string ListOfRanks(const std::vector<int>& ranks) {
  std::string list = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    list += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return list;
}

std::vector<int> RanksWithoutKey(const GroupPlace& place, const std::string& prefix) {
  std::vector<int> missing;
  for (int rank = 0; rank < place.size; ++rank) {
    if (!place.store->check({prefix + std::to_string(rank)})) missing.push_back(rank);
  }
  return missing;
}

std::shared_ptr<Membership> Membership::Form(GroupPlace place) {
  const Clock::time_point deadline = Clock::now() + place.timeout;
  Introduction introduction(place);
  while (!introduction.Advance()) {
    if (Clock::now() >= deadline) ThrowNotFormed(place, introduction.Missing());
    SleepBeforeLook(place.size);
  }
  place = introduction.place();
  auto main = std::make_shared<Communicator>(place.name, place.rank, place.size, nullptr);
  main->SetId(introduction.id());
  AwaitFormed(*main, place, deadline, [&introduction] { introduction.Advance(); });
  return std::make_shared<Membership>(std::move(place), std::move(main));
}

std::shared_ptr<Membership> Membership::Form(GroupPlace place, std::shared_ptr<Communicator> main) {
  AwaitFormed(*main, place, Clock::now() + place.timeout, [] {});
  return std::make_shared<Membership>(std::move(place), std::move(main));
}

Membership::Membership(GroupPlace place, std::shared_ptr<Communicator> main)
    : place_(std::move(place)), main_(std::move(main)) {}

c10d::Store& Membership::store_for_errands() {
  if (errands_store_ == nullptr) errands_store_ = ConnectedAnew(*place_.store);
  return *errands_store_;
}

std::shared_ptr<Communicator> Membership::Further(const std::string& key, int rank, int size,
                                                  bool maker) {
  const std::lock_guard lock(mutex_);
  if (!aborted_.empty()) ThrowError(aborted_);
  std::shared_ptr<Communicator>& communicator = further_[key];
  if (communicator != nullptr) return communicator;
  communicator = std::make_shared<Communicator>(place_.name + "/" + key, rank, size, main_);
  const bool added =
      Progress::Get().errands().Add([self = weak_from_this(), weak = std::weak_ptr(communicator),
                                     key = "harmonaize/" + key, maker] {
        const auto members = self.lock();
        const auto forming = weak.lock();
        if (members == nullptr || forming == nullptr || !forming->failure().empty()) return true;
        try {
          if (!ExchangeId(members->store_for_errands(), key, maker, *forming)) return false;
        } catch (const std::exception& error) {
          forming->Fail("The group's store cannot be asked: " + SentenceOf(error));
          return true;
        }
        forming->GoOn();
        return true;
      });
  if (!added) communicator->Fail("the process is about to end, and makes no new communicators");
  return communicator;
}

void Membership::Abort(const std::string& reason) {
  std::map<std::string, std::shared_ptr<Communicator>> further;
  {
    const std::lock_guard lock(mutex_);
    if (aborted_.empty()) aborted_ = reason;
    further = further_;
  }
  // Without the lock: operations that end may have something called that communicates.
  main_->Abort(reason);
  for (const auto& [key, communicator] : further) communicator->Abort(reason);
}

void Membership::FailFurther(const std::string& reason) {
  std::map<std::string, std::shared_ptr<Communicator>> further;
  {
    const std::lock_guard lock(mutex_);
    further = further_;
  }
  for (const auto& [key, communicator] : further) communicator->Fail(reason);
}

void Membership::LetGoOfFurther() {
  std::map<std::string, std::shared_ptr<Communicator>> further;
  const std::lock_guard lock(mutex_);
  std::swap(further, further_);
}

}  // namespace harmonaize_torch
