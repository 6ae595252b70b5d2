#include "plugins/nccl-tuner/advice_link.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>
#include <vector>

#include "src/ipc/messages.h"

namespace harmonaize::nccl_abi {

Result<std::unique_ptr<AdviceLink>> AdviceLink::Open(uint64_t communicator, size_t ranks,
                                                     size_t hosts) {
  HZ_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, Session::Get());
  HZ_ASSIGN_OR_RETURN(SharedMemory position,
                      CreateSharedMemory("harmonaize-tuner", kTuningPositionBytes));
  // A child has no communicator of its parent's.
  madvise(position.mapping.data(), position.mapping.size(), MADV_DONTFORK);
  // The daemon takes no memory with missing pages.
  std::memset(position.mapping.data(), 0, position.mapping.size());
  const int descriptors[] = {position.descriptor.get()};
  std::vector<FileDescriptor> received;
  HZ_ASSIGN_OR_RETURN(
      const OpenTuningReply reply,
      session->Call<OpenTuningReply>(
          OpenTuningRequest{communicator, static_cast<int32_t>(ranks), static_cast<int32_t>(hosts)},
          {}, descriptors, &received));
  position.descriptor.Reset();
  if (reply.number == 0) return std::unique_ptr<AdviceLink>();
  if (received.size() != 1) return InternalError("the daemon sent no memory for the tuner");
  HZ_ASSIGN_OR_RETURN(Mapping segment, MapForeign(received[0].get(), sizeof(TuningSegment),
                                                  HugePageFiles::kRefuse, Access::kRead));
  return std::unique_ptr<AdviceLink>(
      new AdviceLink(std::move(session), reply.number, std::move(position), std::move(segment)));
}

AdviceLink::AdviceLink(std::shared_ptr<Session> session, uint32_t number, SharedMemory position,
                       Mapping segment)
    : session_(std::move(session)),
      number_(number),
      position_(std::move(position)),
      segment_(std::move(segment)),
      reader_(reinterpret_cast<const TuningSegment*>(segment_.data()),
              reinterpret_cast<TuningPosition*>(position_.mapping.data())) {}

AdviceLink::~AdviceLink() {
  if (session_->inherited() || session_->lost()) return;
  // A daemon that is gone knows nothing of the communicator any more.
  (void)session_->Call<CloseTuningReply>(CloseTuningRequest{.number = number_});
}

const TuningTable* AdviceLink::Next(int function, uint64_t bytes) {
  if (session_->inherited()) return nullptr;
  return &reader_.Next(function, bytes, [this] { return session_->CheckAlive().ok(); });
}

}  // namespace harmonaize::nccl_abi
