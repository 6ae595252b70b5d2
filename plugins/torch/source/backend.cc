#include "plugins/torch/source/backend.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "plugins/torch/source/errors.h"
#include "plugins/torch/source/registered_memory.h"

namespace harmonaize_torch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How long a thread that waits for other ranks' keys in the store sleeps between looks: a look is a
// message to another process.
constexpr milliseconds kStoreLook{2};

/// The id of the communicator `key` as a value of the store.
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

std::string ListOfRanks(const std::vector<int>& ranks) {
  std::string list = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    list += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return list;
}

/// Returns those of the group's ranks that have not set their key "<prefix><rank>".
std::vector<int> RanksWithoutKey(const GroupPlace& place, const std::string& prefix) {
  std::vector<int> missing;
  for (int rank = 0; rank < place.size; ++rank) {
    if (!place.store->check({prefix + std::to_string(rank)})) missing.push_back(rank);
  }
  return missing;
}

/// Waits until the group's communicator has formed. `came` begins the keys of the ranks that have
/// come.
void AwaitFormed(Communicator& communicator, const GroupPlace& place, const std::string& came) {
  const Clock::time_point begun = Clock::now();
  while (!communicator.Formed()) {
    if (Clock::now() - begun >= place.timeout) {
      const std::vector<int> missing = RanksWithoutKey(place, came);
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

c10::intrusive_ptr<Backend> Backend::Create(GroupPlace place) {
  const std::string came = "harmonaize/came/";
  auto main =
      std::make_shared<Communicator>(place.name, place.rank, place.size,
                                     IdInStore(place.store, "harmonaize/main", place.rank == 0));
  place.store->set(came + std::to_string(place.rank), std::vector<uint8_t>{1});
  AwaitFormed(*main, place, came);
  return c10::make_intrusive<Backend>(std::move(place), std::move(main));
}

Backend::Backend(GroupPlace place, std::shared_ptr<Communicator> main)
    : BackendBase(place.rank, place.size),
      place_(std::move(place)),
      main_(std::move(main)),
      process_(getpid()),
      timeout_(place_.timeout) {
  init();
}

Backend::~Backend() = default;

void Backend::CheckProcess() const {
  TORCH_CHECK(getpid() == process_, "this process was forked from the one that made the group ",
              place_.name, "; a child that communicates makes groups of its own");
}

void Backend::CheckCarried(const char* call, const Tensors& tensors) const {
  CheckProcess();
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.device().is_cpu(), call,
                ": Harmonaize carries CPU tensors, and this one is on ", tensor.device());
    TORCH_CHECK(tensor.layout() == at::kStrided, call, ": only supports dense tensors");
  }
}

void Backend::CheckRoot(const char* call, int64_t root) const {
  TORCH_CHECK_VALUE(root >= 0 && root < size_, call, ": invalid root rank: ", root);
}

std::string Backend::Describe(const char* call, const Tensors& like) const {
  std::string text = std::string(call) + " in group " + place_.name + " at rank " +
                     std::to_string(rank_) + " of " + std::to_string(size_);
  if (!like.empty()) {
    int64_t elements = 0;
    for (const at::Tensor& tensor : like) elements += tensor.numel();
    text += " (" + std::to_string(elements) + " " + c10::toString(like.front().scalar_type()) + ")";
  }
  return text;
}

milliseconds Backend::TimeoutOr(milliseconds given) const {
  return given == c10d::kUnsetTimeout || given == kNoTimeout ? timeout_.load() : given;
}

c10::intrusive_ptr<Operation> Backend::Begin(OperationPlan plan,
                                             const std::shared_ptr<Communicator>& communicator) {
  auto operation = Operation::Start(rank_, std::move(plan), communicator);
  coalescing_.Note(operation);
  return operation;
}

WorkPointer Backend::Collective(OperationPlan plan, const char* call, const Tensors& like,
                                milliseconds timeout) {
  plan.description = Describe(call, like);
  plan.timeout = TimeoutOr(timeout);
  ++sequence_;
  return Begin(std::move(plan), main_);
}

std::shared_ptr<Communicator> Backend::Further(const std::string& key, int rank, int size,
                                               bool maker) {
  const std::lock_guard lock(further_mutex_);
  std::shared_ptr<Communicator>& communicator = further_[key];
  if (communicator == nullptr) {
    communicator = std::make_shared<Communicator>(
        place_.name + "/" + key, rank, size, IdInStore(place_.store, "harmonaize/" + key, maker));
  }
  return communicator;
}

// Collectives that are made of sends have a communicator of their own: on the group's, their
// messages would be taken for those of send and recv.
WorkPointer Backend::Exchange(OperationPlan plan, const char* call, const Tensors& like,
                              milliseconds timeout) {
  plan.description = Describe(call, like);
  plan.timeout = TimeoutOr(timeout);
  ++sequence_;
  return Begin(std::move(plan), Further("exchange", rank_, size_, rank_ == 0));
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  CheckProcess();
  // Here 0 is a time like others: whoever is not there yet is missing.
  const milliseconds timeout =
      options.timeout == c10d::kUnsetTimeout ? timeout_.load() : options.timeout;
  const std::string round = "harmonaize/barrier/" + std::to_string(monitored_barriers_++) + "/";
  const Clock::time_point deadline = Clock::now() + timeout;
  place_.store->set(round + std::to_string(rank_), std::vector<uint8_t>{1});
  const std::string done = round + "done";
  if (rank_ != 0) {
    while (!place_.store->check({done})) {
      if (Clock::now() >= deadline) {
        // In gloo's words, up to the colon: programs look for them.
        const std::string me = "Rank " + std::to_string(rank_);
        ThrowError("[" + me + "]: " + me +
                   " successfully reached monitoredBarrier, but received errors while waiting for "
                   "send/recv from rank 0: it, or a rank that it names, did not come within " +
                   std::to_string(timeout.count()) + " ms");
      }
      std::this_thread::sleep_for(kStoreLook);
    }
    return;
  }
  std::vector<int> missing = RanksWithoutKey(place_, round);
  while (!missing.empty() && Clock::now() < deadline) {
    std::this_thread::sleep_for(kStoreLook);
    missing.erase(std::remove_if(missing.begin(), missing.end(),
                                 [&](int rank) {
                                   return place_.store->check({round + std::to_string(rank)});
                                 }),
                  missing.end());
  }
  if (missing.empty()) {
    place_.store->set(done, std::vector<uint8_t>{1});
    return;
  }
  if (!wait_all_ranks) missing.resize(1);
  std::string text = ListOfRanks(missing);
  text[0] = 'R';
  ThrowError("[Rank 0]: " + text + " failed to pass monitoredBarrier in " +
             std::to_string(timeout.count()) + " ms; Rank 0 timed out in monitoredBarrier");
}

c10::intrusive_ptr<BackendOptions> Backend::getBackendOptions() {
  return c10::make_intrusive<BackendOptions>(getBackendName(), timeout_.load());
}

void Backend::abort() {
  const std::string reason = "group " + place_.name + " was aborted by this rank";
  main_->Abort(reason);
  const std::lock_guard lock(further_mutex_);
  for (const auto& [key, communicator] : further_) communicator->Abort(reason);
}

void Backend::shutdown() {
  const std::lock_guard lock(further_mutex_);
  further_.clear();
}

void Backend::setTimeout(milliseconds timeout) {
  timeout_ = timeout;
}

c10::intrusive_ptr<BackendBase> Backend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                               const std::vector<int>& ranks,
                                               const c10::intrusive_ptr<BackendOptions>& options) {
  CheckProcess();
  const auto found = std::find(ranks.begin(), ranks.end(), rank_);
  if (found == ranks.end()) return {};
  const milliseconds timeout = options ? options->timeout : timeout_.load();
  return Create({store, static_cast<int>(found - ranks.begin()), static_cast<int>(ranks.size()),
                 timeout, place_.name + "/split"});
}

c10::intrusive_ptr<BackendBase> Backend::shrink(const std::vector<int64_t>& excluded, int flags,
                                                const c10::intrusive_ptr<BackendOptions>& options) {
  CheckProcess();
  const std::vector<int> gone(excluded.begin(), excluded.end());
  const bool abort = (flags & NCCL_SHRINK_ABORT) != 0;
  std::shared_ptr<Communicator> main = main_->Shrink(gone, abort);
  const std::string round = "harmonaize/shrink" + std::to_string(shrinks_++) + "/";
  GroupPlace place = place_;
  place.store = c10::make_intrusive<c10d::PrefixStore>(round, place_.store);
  place.rank = main->rank();
  place.size = main->size();
  place.name += "/shrunk";
  if (options) place.timeout = options->timeout;
  const std::string came = "came/";
  place.store->set(came + std::to_string(place.rank), std::vector<uint8_t>{1});
  AwaitFormed(*main, place, came);
  return c10::make_intrusive<Backend>(std::move(place), std::move(main));
}

std::shared_ptr<c10::Allocator> Backend::getMemAllocator() {
  return Registered();
}

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {
  return RegisteredTensor(size, options);
}

}  // namespace harmonaize_torch
