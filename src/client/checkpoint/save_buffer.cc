#include "src/client/checkpoint/save_buffer.h"

#include <utility>

#include "src/ipc/messages.h"

namespace harmonaize {

Result<std::unique_ptr<SaveBuffer>> SaveBuffer::Lend(std::shared_ptr<Session> session,
                                                     uint32_t member, SharedMemory memory) {
  LendBufferRequest request;
  request.bytes = memory.mapping.size();
  request.member = member;
  const int descriptors[] = {memory.descriptor.get()};
  HZ_ASSIGN_OR_RETURN(const LendBufferReply reply,
                      session->Call<LendBufferReply>(request, {}, descriptors));
  std::unique_ptr<SaveBuffer> buffer(new SaveBuffer());
  buffer->session_ = std::move(session);
  buffer->memory_ = std::move(memory.mapping);
  buffer->descriptor_ = OwnDescriptor(std::move(memory.descriptor));
  buffer->number_ = reply.buffer;
  return buffer;
}

Status SaveBuffer::TakeBack() {
  ReturnBufferRequest request;
  request.buffer = number_;
  return session_->Call<EmptyReply>(request).status();
}

}  // namespace harmonaize
