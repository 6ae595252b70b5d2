// Messages between two ranks.
//
// The library matches messages of two ranks by their order alone, so each tag but 0 has a
// communicator of the two. It has no message from just anybody: for that, a rank that takes such
// messages says so in the store, ranks whose messages wait for long announce them there, and it
// receives what is announced.

#include <algorithm>
#include <utility>

#include "plugins/torch/source/backend.h"
#include "plugins/torch/source/errors.h"
#include "plugins/torch/source/progress.h"
#include "plugins/torch/source/staging.h"

namespace harmonaize_torch {
namespace {

const at::Tensor& OnlyTensor(const char* call, const Tensors& tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 1, call, ": requires a single tensor");
  return tensors[0];
}

/// The key under which a rank says that it takes messages from anybody.
std::string TakesAnyKey(int rank) {
  return "harmonaize/any/" + std::to_string(rank);
}

std::string AnnouncementKey(int source, int destination, int tag, uint64_t number) {
  return "harmonaize/message/" + std::to_string(source) + "-" + std::to_string(destination) + "/" +
         std::to_string(tag) + "/" + std::to_string(number);
}

OperationPlan PlanOfReceive(const ResultPlace& place, const Tensors& tensors) {
  OperationPlan plan;
  plan.type = c10d::OpType::RECV;
  plan.title = "harmonaize:recv";
  plan.inputs = tensors;
  plan.outputs = {tensors};
  plan.finish = [place] { place.Deliver(); };
  return plan;
}

size_t CountOf(const at::Tensor& tensor) {
  return static_cast<size_t>(tensor.numel()) * TypeToCarry(tensor.scalar_type()).count_factor;
}

}  // namespace

void Backend::CheckPeer(const char* call, int peer, int tag) const {
  TORCH_CHECK_VALUE(peer >= 0 && peer < size_, call, ": invalid rank ", peer, " in a group of ",
                    size_);
  TORCH_CHECK_VALUE(tag >= 0, "Tag must be nonnegative");
}

Backend::Route Backend::RouteTo(Membership& members, int peer, int tag) {
  if (tag == 0) return {members.main(), peer};
  if (peer == members.rank()) {
    const std::string key = "self" + std::to_string(peer) + "/tag" + std::to_string(tag);
    return {members.Further(key, 0, 1, true), 0};
  }
  const int lower = std::min(members.rank(), peer);
  const std::string key = "pair/" + std::to_string(lower) + "-" +
                          std::to_string(std::max(members.rank(), peer)) + "/tag" +
                          std::to_string(tag);
  const bool first = members.rank() == lower;
  return {members.Further(key, first ? 0 : 1, 2, first), first ? 1 : 0};
}

WorkPointer Backend::send(Tensors& tensors, int destination, int tag) {
  CheckPeer("send", destination, tag);
  CheckCarried("send", {OnlyTensor("send", tensors)});
  const at::Tensor packed = Packed(tensors[0]);
  const std::shared_ptr<Membership> members = Members();
  const Route route = RouteTo(*members, destination, tag);
  OperationPlan plan;
  plan.type = c10d::OpType::SEND;
  plan.title = "harmonaize:send";
  plan.inputs = tensors;
  plan.description = Describe("send", tensors) + " to rank " + std::to_string(destination);
  plan.timeout = timeout_.load();
  plan.post = [packed, peer = route.peer](ncclComm_t communicator, cudaStream_t stream) {
    return Library::Get().ncclSend(packed.data_ptr(), CountOf(packed),
                                   TypeToCarry(packed.scalar_type()).type, peer, communicator,
                                   stream);
  };
  uint64_t number = 0;
  const auto operation = Begin(std::move(plan), route.communicator, [&](const auto& keep) {
    number = members->sent.Take(destination, tag, keep);
  });
  if (!operation->isCompleted()) AnnounceWhileWaiting(members, operation, destination, tag, number);
  return operation;
}

// Most messages are taken at once, and then the store hears nothing of them.
void Backend::AnnounceWhileWaiting(const std::shared_ptr<Membership>& members,
                                   const c10::intrusive_ptr<Operation>& operation, int destination,
                                   int tag, uint64_t number) {
  // Bounds how often the store is asked whether the other rank takes messages from anybody.
  constexpr std::chrono::milliseconds kFirst{10};
  constexpr std::chrono::milliseconds kLongest{200};
  operation->WhileWaiting(
      kFirst, kLongest,
      [members, takes_any = TakesAnyKey(destination),
       announcement = AnnouncementKey(members->rank(), destination, tag, number)] {
        Progress::Get().errands().Add([members, takes_any, announcement] {
          c10d::Store& store = members->store_for_errands();
          if (store.check({takes_any})) store.set(announcement, std::vector<uint8_t>{1});
          return true;
        });
      });
}

WorkPointer Backend::recv(Tensors& tensors, int source, int tag) {
  CheckPeer("recv", source, tag);
  CheckCarried("recv", {OnlyTensor("recv", tensors)});
  const ResultPlace place(tensors[0], /*filled=*/false);
  OperationPlan plan = PlanOfReceive(place, tensors);
  plan.description = Describe("recv", tensors) + " from rank " + std::to_string(source);
  plan.timeout = timeout_.load();
  plan.source_rank = source;
  const std::shared_ptr<Membership> members = Members();
  const Route route = RouteTo(*members, source, tag);
  plan.post = PostReceive(place.memory(), route.peer);
  return Begin(std::move(plan), route.communicator,
               [&](const auto& keep) { members->received.Take(source, tag, keep); });
}

std::function<ncclResult_t(ncclComm_t, cudaStream_t)> Backend::PostReceive(const at::Tensor& memory,
                                                                           int peer) {
  return [memory, peer](ncclComm_t communicator, cudaStream_t stream) {
    return Library::Get().ncclRecv(memory.data_ptr(), CountOf(memory),
                                   TypeToCarry(memory.scalar_type()).type, peer, communicator,
                                   stream);
  };
}

WorkPointer Backend::recvAnysource(Tensors& tensors, int tag) {
  CheckPeer("recv", 0, tag);
  CheckCarried("recv", {OnlyTensor("recv", tensors)});
  const ResultPlace place(tensors[0], /*filled=*/false);
  OperationPlan plan = PlanOfReceive(place, tensors);
  plan.type = c10d::OpType::RECVANYSOURCE;
  plan.title = "harmonaize:recvAnySource";
  plan.description = Describe("recv", tensors) + " from any rank";
  plan.timeout = timeout_.load();
  const std::shared_ptr<Membership> members = Members();
  if (!members->takes_any.exchange(true)) {
    members->store().set(TakesAnyKey(rank_), std::vector<uint8_t>{1});
  }
  const auto operation = c10::make_intrusive<Operation>(rank_, std::move(plan), members->main());
  coalescing_.Note(operation);
  Progress::Get().Watch(operation);
  const bool added =
      Progress::Get().errands().Add([members, operation, memory = place.memory(), tag] {
        try {
          return ReceiveAnnounced(*members, operation, memory, tag);
        } catch (const std::exception& error) {
          operation->End("The group's store cannot be asked for messages: " + SentenceOf(error));
          return true;
        }
      });
  if (!added) operation->End("the process is about to end, and receives from named ranks alone");
  return operation;
}

bool Backend::ReceiveAnnounced(Membership& members, const c10::intrusive_ptr<Operation>& operation,
                               const at::Tensor& memory, int tag) {
  if (operation->HasEnded()) return true;
  const std::string failure = members.main()->failure();
  if (!failure.empty()) {
    operation->End(failure);
    return true;
  }
  c10d::Store& store = members.store_for_errands();
  for (int source = 0; source < members.size(); ++source) {
    const uint64_t number = members.received.Next(source, tag);
    const std::string announcement = AnnouncementKey(source, members.rank(), tag, number);
    if (source == members.rank() || !store.check({announcement})) continue;
    const Route route = RouteTo(members, source, tag);
    const bool taken = members.received.TakeIf(source, tag, number, [&] {
      operation->Choose(source, PostReceive(memory, route.peer), route.communicator);
    });
    if (!taken) continue;  // A receive from this rank by its number came first.
    route.communicator->GoOn();
    store.deleteKey(announcement);
    return true;
  }
  return false;
}

}  // namespace harmonaize_torch
