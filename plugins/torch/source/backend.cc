#include "plugins/torch/source/backend.h"

#include <unistd.h>

#include <algorithm>
#include <iomanip>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "plugins/torch/source/errors.h"
#include "plugins/torch/source/registered_memory.h"

namespace harmonaize_torch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Returns a name that no other process has.
std::string NewHandle() {
  std::random_device random;
  std::ostringstream text;
  text << "harmonaize-" << std::hex << std::setfill('0');
  for (int word = 0; word < 4; ++word) text << std::setw(8) << random();
  return text.str();
}

}  // namespace

c10::intrusive_ptr<Backend> Backend::Create(GroupPlace place) {
  std::shared_ptr<Membership> membership = Membership::Form(place);
  return c10::make_intrusive<Backend>(std::move(place), std::move(membership));
}

c10::intrusive_ptr<Backend> Backend::CreateUnformed(GroupPlace place) {
  return c10::make_intrusive<Backend>(std::move(place), nullptr);
}

Backend::Backend(GroupPlace place, std::shared_ptr<Membership> membership)
    : BackendBase(place.rank, place.size),
      place_(std::move(place)),
      handle_(NewHandle()),
      process_(getpid()),
      timeout_(place_.timeout),
      membership_(std::move(membership)) {
  init();
}

Backend::~Backend() = default;

std::shared_ptr<Membership> Backend::MembersIfAny() const {
  const std::lock_guard lock(membership_mutex_);
  return membership_;
}

std::shared_ptr<Membership> Backend::Members() const {
  std::shared_ptr<Membership> members = MembersIfAny();
  if (members == nullptr) {
    ThrowError("The group " + place_.name + " has no ranks: it has to be formed by reconfigure");
  }
  return members;
}

bool Backend::isInitialized() {
  return MembersIfAny() != nullptr;
}

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
  return Begin(std::move(plan), communicator, [](const std::function<void()>& keep) { keep(); });
}

c10::intrusive_ptr<Operation> Backend::Begin(
    OperationPlan plan, const std::shared_ptr<Communicator>& communicator,
    const std::function<void(const std::function<void()>& keep)>& in_order) {
  auto operation = c10::make_intrusive<Operation>(rank_, std::move(plan), communicator);
  in_order([&operation] { operation->BeKept(); });
  operation->Go();
  coalescing_.Note(operation);
  return operation;
}

WorkPointer Backend::Collective(OperationPlan plan, const char* call, const Tensors& like,
                                milliseconds timeout) {
  plan.description = Describe(call, like);
  plan.timeout = TimeoutOr(timeout);
  ++sequence_;
  return Begin(std::move(plan), Members()->main());
}

// Collectives that are made of sends have a communicator of their own: on the group's, their
// messages would be taken for those of send and recv.
WorkPointer Backend::Exchange(OperationPlan plan, const char* call, const Tensors& like,
                              milliseconds timeout) {
  plan.description = Describe(call, like);
  plan.timeout = TimeoutOr(timeout);
  ++sequence_;
  return Begin(std::move(plan), Members()->Further("exchange", rank_, size_, rank_ == 0));
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  CheckProcess();
  // Here 0 is a time like others: whoever is not there yet is missing.
  const milliseconds timeout =
      options.timeout == c10d::kUnsetTimeout ? timeout_.load() : options.timeout;
  const std::shared_ptr<Membership> members = Members();
  c10d::Store& store = members->store();
  const std::string round =
      "harmonaize/barrier/" + std::to_string(members->monitored_barriers++) + "/";
  const Clock::time_point deadline = Clock::now() + timeout;
  store.set(round + std::to_string(rank_), std::vector<uint8_t>{1});
  const std::string done = round + "done";
  if (rank_ != 0) {
    while (!store.check({done})) {
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
  std::vector<int> missing = RanksWithoutKey(members->place(), round);
  while (!missing.empty() && Clock::now() < deadline) {
    std::this_thread::sleep_for(kStoreLook);
    missing.erase(
        std::remove_if(missing.begin(), missing.end(),
                       [&](int rank) { return store.check({round + std::to_string(rank)}); }),
        missing.end());
  }
  if (missing.empty()) {
    store.set(done, std::vector<uint8_t>{1});
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
  const std::shared_ptr<Membership> members = MembersIfAny();
  if (members != nullptr) members->Abort("group " + place_.name + " was aborted by this rank");
}

void Backend::shutdown() {
  const std::shared_ptr<Membership> members = MembersIfAny();
  if (members != nullptr) members->LetGoOfFurther();
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
  const std::shared_ptr<Membership> members = Members();
  if (abort) members->FailFurther("group " + place_.name + " was shrunk");
  std::shared_ptr<Communicator> main = members->main()->Shrink(gone, abort);
  // Attempts that failed do not count: ranks may have made different numbers of them.
  const std::string round = "harmonaize/shrink" + std::to_string(members->shrinks) + "/";
  GroupPlace place = members->place();
  place.store = c10::make_intrusive<c10d::PrefixStore>(round, place.store);
  place.rank = main->rank();
  place.size = main->size();
  place.name += "/shrunk";
  if (options) place.timeout = options->timeout;
  std::shared_ptr<Membership> shrunk = Membership::Form(place, std::move(main));
  ++members->shrinks;
  return c10::make_intrusive<Backend>(std::move(place), std::move(shrunk));
}

std::vector<int> Backend::LostRanks() const {
  CheckProcess();
  return Members()->main()->LostRanks();
}

std::shared_ptr<c10::Allocator> Backend::getMemAllocator() {
  return Registered();
}

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {
  return RegisteredTensor(size, options);
}

}  // namespace harmonaize_torch
