#include "plugins/nccl-net/registration.h"

#include "src/client/memory/memory.h"

namespace harmonaize::nccl_net {

Result<std::unique_ptr<Registration>> Registration::Make(Session& session, void* data,
                                                         size_t bytes) {
  auto made = std::unique_ptr<Registration>(new Registration(data, bytes));
  HZ_ASSIGN_OR_RETURN(made->place_, RegionTable::Get().Locate(session, data, bytes));
  made->session_ = session.number();
  return made;
}

Result<BufferReference> Registration::Find(Session& session, const void* data,
                                           uint64_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(data);
  const bool inside = begin >= data_ && begin <= data_ + bytes_ &&
                      bytes <= static_cast<uint64_t>(data_ + bytes_ - begin);
  if (!inside) {
    return InvalidArgument("{} bytes at {} are not in the registered {} bytes at {}", bytes, data,
                           bytes_, static_cast<const void*>(data_));
  }
  BufferReference place = place_;
  if (session.number() != session_) place.region = kNoBuffer;
  place.offset += static_cast<uint64_t>(begin - data_);
  return place;
}

}  // namespace harmonaize::nccl_net
