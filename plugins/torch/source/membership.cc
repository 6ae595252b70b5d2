#include "plugins/torch/source/membership.h"

#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "plugins/torch/source/errors.h"

namespace harmonaize_torch {
namespace {

using Clock = std::chrono::steady_clock;

/// Begins the keys of the ranks that have come.
constexpr const char* kCame = "harmonaize/came/";

/// The id of a communicator as a value of the store.
std::vector<uint8_t> BytesOf(const ncclUniqueId& id) {
  return {id.internal, id.internal + NCCL_UNIQUE_ID_BYTES};
}

/// Returns a source that publishes a new id, or finds the one that another rank has published.
Communicator::IdSource IdInStore(c10::intrusive_ptr<c10d::Store> store, const std::string& key,
                                 bool maker) {
  return [store = std::move(store), key, maker]() -> std::optional<ncclUniqueId> {
    ncclUniqueId id{};
    if (maker) {
      Check("Making a communicator's id", Library::Get().ncclGetUniqueId(&id));
      store->set(key, BytesOf(id));
      return id;
    }
    if (!store->check({key})) return std::nullopt;
    const std::vector<uint8_t> bytes = store->get(key);
    TORCH_CHECK(bytes.size() == NCCL_UNIQUE_ID_BYTES, "the store has ", bytes.size(),
                " bytes where a communicator's id should be: ranks use different backends");
    std::memcpy(id.internal, bytes.data(), bytes.size());
    return id;
  };
}

/// Waits until the group's communicator has formed.
void AwaitFormed(Communicator& communicator, const GroupPlace& place) {
  const Clock::time_point begun = Clock::now();
  while (!communicator.Formed()) {
    if (Clock::now() - begun >= place.timeout) {
      const std::vector<int> missing = RanksWithoutKey(place, kCame);
      communicator.Abort("the group was given up");
      ThrowError("The group " + place.name + " did not come together within " +
                 std::to_string(place.timeout.count()) + " ms: " +
                 (missing.empty() ? "the daemons did not connect its ranks"
                                  : ListOfRanks(missing) + " did not come"));
    }
    std::this_thread::sleep_for(kStoreLook);
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
  auto main =
      std::make_shared<Communicator>(place.name, place.rank, place.size,
                                     IdInStore(place.store, "harmonaize/main", place.rank == 0));
  return Form(std::move(place), std::move(main));
}

std::shared_ptr<Membership> Membership::Form(GroupPlace place, std::shared_ptr<Communicator> main) {
  place.store->set(kCame + std::to_string(place.rank), std::vector<uint8_t>{1});
  AwaitFormed(*main, place);
  return std::make_shared<Membership>(std::move(place), std::move(main));
}

Membership::Membership(GroupPlace place, std::shared_ptr<Communicator> main)
    : place_(std::move(place)), main_(std::move(main)) {}

std::shared_ptr<Communicator> Membership::Further(const std::string& key, int rank, int size,
                                                  bool maker) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Communicator>& communicator = further_[key];
  if (communicator == nullptr) {
    communicator = std::make_shared<Communicator>(
        place_.name + "/" + key, rank, size, IdInStore(place_.store, "harmonaize/" + key, maker));
  }
  return communicator;
}

void Membership::Abort(const std::string& reason) {
  main_->Abort(reason);
  const std::lock_guard lock(mutex_);
  for (const auto& [key, communicator] : further_) communicator->Abort(reason);
}

void Membership::LetGoOfFurther() {
  const std::lock_guard lock(mutex_);
  further_.clear();
}

}  // namespace harmonaize_torch
