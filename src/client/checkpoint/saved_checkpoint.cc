#include "src/client/checkpoint/saved_checkpoint.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

#include "src/checkpoint/stored_checkpoint.h"
#include "src/client/checkpoint/checkpoint_choice.h"
#include "src/client/checkpoint/memory_source.h"
#include "src/client/checkpoint/provider_store.h"
#include "src/client/session/session.h"
#include "src/ipc/messages.h"

namespace harmonaize {
namespace {

using checkpoint::Shard;
using checkpoint::ShardReader;
using checkpoint::ShardSource;

/// Time for which a rank looks for what rank 0 has found in a store: other hosts of a network file
/// system see a new file some seconds later.
constexpr std::chrono::seconds kStoreMayLag{60};
constexpr std::chrono::milliseconds kLookEvery{200};

/// Brings a range of a part here that another host or the provider's store has. Returns the bytes
/// of the part.
Result<uint64_t> FetchPart(Session& session, uint32_t member, uint64_t save, int rank, uint64_t at,
                           uint64_t bytes) {
  FetchPartRequest request;
  request.save = save;
  request.at = at;
  request.bytes = bytes;
  request.member = member;
  request.rank = rank;
  HZ_ASSIGN_OR_RETURN(const FetchPartReply reply, session.Call<FetchPartReply>(request));
  return reply.bytes;
}

/// What a daemon has of a part. Its `memory` is not valid if it has nothing.
struct PartHere {
  FileDescriptor memory;
  uint64_t bytes = 0;
  bool is_partial = false;
};

Result<PartHere> AskForPart(Session& session, uint32_t member, uint64_t save, int rank) {
  OpenPartRequest request;
  request.save = save;
  request.member = member;
  request.rank = rank;
  std::vector<FileDescriptor> received;
  HZ_ASSIGN_OR_RETURN(const OpenPartReply reply,
                      session.Call<OpenPartReply>(request, {}, {}, &received));
  if (reply.bytes == 0 || received.size() != 1) return PartHere{};
  return PartHere{.memory = std::move(received.front()),
                  .bytes = reply.bytes,
                  .is_partial = reply.is_partial != 0};
}

/// Opens a part that is in this host's memory; nullopt: it is not.
Result<std::optional<OpenPart>> OpenHere(Communicator& communicator, uint64_t save, int rank) {
  HZ_ASSIGN_OR_RETURN(PartHere here,
                      AskForPart(communicator.session(), communicator.member(), save, rank));
  if (!here.memory.valid()) return std::optional<OpenPart>();
  OpenPart part = {.memory = std::move(here.memory), .bytes = here.bytes};
  const auto session = communicator.shared_session();
  const uint32_t member = communicator.member();
  part.reopen = [session, member, save, rank]() -> Result<FileDescriptor> {
    HZ_ASSIGN_OR_RETURN(PartHere now, AskForPart(*session, member, save, rank));
    return std::move(now.memory);
  };
  if (here.is_partial) {
    part.fetch = [session, member, save, rank](uint64_t at, uint64_t bytes) {
      return FetchPart(*session, member, save, rank, at, bytes).status();
    };
  }
  return std::optional<OpenPart>(std::move(part));
}

/// Opens the parts of a checkpoint that daemons have: in memory, at other hosts, or in the
/// provider's store. Thread: one.
class PartsAtDaemons {
 public:
  /// Both outlive this object.
  PartsAtDaemons(Communicator& communicator, const CheckpointChoice& choice)
      : communicator_(communicator), choice_(choice) {}

  Result<OpenPart> Open(int rank) {
    HZ_ASSIGN_OR_RETURN(std::optional<OpenPart> part, OpenHere(communicator_, choice_.save, rank));
    if (!part.has_value()) {
      HZ_RETURN_IF_ERROR(FindHolders());
      HZ_RETURN_IF_ERROR(
          FetchPart(communicator_.session(), communicator_.member(), choice_.save, rank, 0, 0)
              .status());
      HZ_ASSIGN_OR_RETURN(part, OpenHere(communicator_, choice_.save, rank));
    }
    if (part.has_value()) return std::move(*part);
    return Status(Code::kUnavailable, fmt::format("rank {}'s part of step {} is not there any more",
                                                  rank, choice_.step));
  }

 private:
  /// Has the daemon find out which hosts have parts. Each host does so by itself: the one of rank
  /// 0, which has chosen, may have parts that this one lacks.
  Status FindHolders() {
    if (knows_holders_) return Status::Ok();
    knows_holders_ = true;
    return ListSaves(communicator_).status();
  }

  Communicator& communicator_;
  const CheckpointChoice& choice_;
  bool knows_holders_ = false;
};

/// Opens all parts that daemons have. A rank reads its own number's part first, which it is most
/// likely to need.
Result<std::unique_ptr<ShardSource>> OpenAtDaemons(Communicator& communicator,
                                                   const CheckpointChoice& choice) {
  PartsAtDaemons at_daemons(communicator, choice);
  std::vector<OpenPart> parts;
  for (int i = 0; i < choice.ranks; ++i) {
    const int rank = (communicator.rank() + i) % choice.ranks;
    HZ_ASSIGN_OR_RETURN(OpenPart part, at_daemons.Open(rank));
    parts.push_back(std::move(part));
  }
  HZ_ASSIGN_OR_RETURN(std::unique_ptr<MemorySource> source,
                      MemorySource::Of(std::move(parts), choice.save));
  return std::unique_ptr<ShardSource>(std::move(source));
}

Result<std::unique_ptr<ShardSource>> OpenInFolder(const std::string& folder,
                                                  const CheckpointChoice& choice) {
  const auto until = std::chrono::steady_clock::now() + kStoreMayLag;
  for (;;) {
    Result<std::unique_ptr<checkpoint::StoredCheckpoint>> stored =
        checkpoint::StoredCheckpoint::Open(folder, choice.step);
    if (stored.ok() && (*stored)->summary().id.save == choice.save) {
      return std::unique_ptr<ShardSource>(std::move(*stored));
    }
    const bool may_come = stored.ok() || stored.status().code() == Code::kUnavailable;
    if (!may_come) return stored.status();
    if (std::chrono::steady_clock::now() >= until) {
      return Status(Code::kUnavailable,
                    fmt::format("rank 0 has found step {} in {}, and this rank does not",
                                choice.step, folder));
    }
    std::this_thread::sleep_for(kLookEvery);
  }
}

}  // namespace

const char* NameOf(CheckpointPlace place) {
  switch (place) {
    case CheckpointPlace::kMemory: return "memory";
    case CheckpointPlace::kPeer: return "peer";
    case CheckpointPlace::kStorage: return "storage";
  }
  return "";
}

SavedCheckpoint::SavedCheckpoint(std::unique_ptr<ShardSource> source, ShardReader reader)
    : source_(std::move(source)), reader_(std::move(reader)) {
  for (const auto& [name, view] : reader_.tensors()) tensors_.push_back({name, view});
}

Result<std::unique_ptr<SavedCheckpoint>> SavedCheckpoint::Open(Communicator& communicator,
                                                               const std::string& folder,
                                                               std::optional<uint64_t> step) {
  HZ_ASSIGN_OR_RETURN(const CheckpointChoice choice, AgreeOnCheckpoint(communicator, folder, step));
  const bool is_in_folder = choice.place == CheckpointPlace::kStorage && folder != kProviderStore;
  Result<std::unique_ptr<ShardSource>> source =
      is_in_folder ? OpenInFolder(folder, choice) : OpenAtDaemons(communicator, choice);
  HZ_RETURN_IF_ERROR(source.status());
  // The tables were read.
  HZ_RETURN_IF_ERROR((*source)->Confirm());
  HZ_ASSIGN_OR_RETURN(ShardReader reader, ShardReader::Of(source->get()));
  std::unique_ptr<SavedCheckpoint> opened(
      new SavedCheckpoint(std::move(*source), std::move(reader)));
  opened->step_ = choice.step;
  opened->save_ = choice.save;
  opened->ranks_ = choice.ranks;
  opened->place_ = choice.place;
  return opened;
}

Result<std::unique_ptr<SavedCheckpoint>> SavedCheckpoint::OpenStored(const std::string& folder,
                                                                     std::optional<uint64_t> step) {
  if (folder == kProviderStore) {
    return InvalidArgument("ranks of a communicator read '{}', and no process alone", folder);
  }
  HZ_ASSIGN_OR_RETURN(std::unique_ptr<checkpoint::StoredCheckpoint> stored,
                      checkpoint::StoredCheckpoint::Open(folder, step));
  HZ_ASSIGN_OR_RETURN(ShardReader reader, ShardReader::Of(stored.get()));
  const checkpoint::CheckpointSummary& summary = stored->summary();
  const uint64_t found = summary.id.step;
  const uint64_t save = summary.id.save;
  const int ranks = summary.ranks;
  std::unique_ptr<SavedCheckpoint> opened(
      new SavedCheckpoint(std::move(stored), std::move(reader)));
  opened->step_ = found;
  opened->save_ = save;
  opened->ranks_ = ranks;
  opened->place_ = CheckpointPlace::kStorage;
  return opened;
}

Status SavedCheckpoint::Read(std::span<const Shard> wanted, std::span<std::byte* const> data) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    HZ_RETURN_IF_ERROR(reader_.Read(wanted[i], data[i]));
  }
  return source_->Confirm();
}

}  // namespace harmonaize
