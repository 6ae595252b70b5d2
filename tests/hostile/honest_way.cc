#include "tests/hostile/honest_way.h"

#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstring>
#include <functional>
#include <new>
#include <span>

#include "src/ipc/pipe_message.h"
#include "src/ipc/profile_ring.h"
#include "tests/support/hostile_names.h"

namespace harmonaize::testing {
namespace {

/// Messages of a round, and bytes of the largest one, which has several parts between hosts.
constexpr uint64_t kMessages = 6;
constexpr uint64_t kMostBytes = 300'000;

/// Longest wait of an honest process on a busy machine, with sanitizers.
constexpr std::chrono::seconds kPatience(60);
constexpr useconds_t kLookAtWayEvery = 50;

uint64_t BytesOf(uint64_t message) {
  return message == 0 ? 0 : kMostBytes / (kMessages - message);
}

std::byte ByteOf(uint64_t round, uint64_t message, uint64_t i) {
  return static_cast<std::byte>(round * 7 + message * 31 + i * 13);
}

// The outcomes of messages come first in the memory, then their data.
uint64_t OutcomeOffset(uint64_t message) {
  return message * sizeof(MessageOutcome);
}
uint64_t DataOffset(uint64_t message) {
  return 4096 + message * kMostBytes;
}

Status AwaitFor(const char* what, const std::function<Status()>& look) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    const Status state = look();
    if (state.code() != Code::kInProgress) return state;
    if (std::chrono::steady_clock::now() > until) return RemoteError("{} takes too long", what);
    usleep(kLookAtWayEvery);
  }
}

}  // namespace

Status HonestWay::Begin(const std::string& socket_path) {
  HZ_ASSIGN_OR_RETURN(session_, HostileSession::TryOpen(socket_path));
  HZ_ASSIGN_OR_RETURN(SharedMemory shared, CreateSharedMemory("honest", DataOffset(kMessages)));
  std::memset(shared.mapping.data(), 0, shared.mapping.size());
  HZ_ASSIGN_OR_RETURN(region_,
                      session_->TryRegister(shared.descriptor.get(), shared.mapping.size()));
  memory_ = std::move(shared.mapping);
  return OpenProfile();
}

Status HonestWay::OpenProfile() {
  HZ_ASSIGN_OR_RETURN(SharedMemory shared, CreateSharedMemory("honest", sizeof(ProfileRing)));
  std::memset(shared.mapping.data(), 0, shared.mapping.size());
  const int descriptor = shared.descriptor.get();
  HZ_RETURN_IF_ERROR(session_->Ask(OpenProfileRequest{1}, std::span(&descriptor, 1)));
  profile_ = std::move(shared.mapping);
  return Status::Ok();
}

Result<UniqueId> HonestWay::Open(const std::string& socket_path) {
  HZ_RETURN_IF_ERROR(Begin(socket_path));
  HZ_RETURN_IF_ERROR(session_->Ask(OpenDoorRequest{}));
  return session_->LastReply<OpenDoorReply>().door;
}

Status HonestWay::AwaitGuest() {
  peer_ = 0;
  const Status knocked = AwaitFor("a knock", [this]() -> Status {
    HZ_RETURN_IF_ERROR(session_->Ask(TakeKnockRequest{}));
    member_ = session_->LastReply<MemberReply>().member;
    return member_ == kNoMember ? Status(Code::kInProgress, "") : Status::Ok();
  });
  return knocked.ok() ? AwaitReady() : knocked;
}

Status HonestWay::Knock(const std::string& socket_path, const UniqueId& door) {
  HZ_RETURN_IF_ERROR(Begin(socket_path));
  KnockRequest knock{.door = door};
  FillField(knock.name, "honest-way");
  HZ_RETURN_IF_ERROR(session_->Ask(knock));
  member_ = session_->LastReply<MemberReply>().member;
  peer_ = 1;
  return AwaitReady();
}

Status HonestWay::AwaitReady() {
  MemberSlot& slot = session_->segment().members[member_];
  return AwaitFor("the way", [&]() -> Status {
    const auto state = static_cast<MemberState>(slot.state.load());
    if (state == MemberState::kForming) return {Code::kInProgress, ""};
    return state == MemberState::kReady ? Status::Ok() : RemoteError("{}", slot.error.Get());
  });
}

Status HonestWay::Exchange(uint64_t round, bool sends) {
  for (uint64_t message = 0; message < kMessages; ++message) Post(round, message, sends);
  session_->Ring();
  for (uint64_t message = 0; message < kMessages; ++message) HZ_RETURN_IF_ERROR(Await(message));
  if (!sends) HZ_RETURN_IF_ERROR(Check(round));
  const ProfileRecord record{.kind = ProfileKind::kGroup, .duration_ns = 1000};
  if (!WriteProfileWords(reinterpret_cast<ProfileRing*>(profile_.data()),
                         std::bit_cast<ProfileWords>(record))) {
    return InternalError("the ring of profiler events is full");
  }
  return session_->Ask(
      ClosePipeRequest{.member = member_, .peer = peer_, .pipe = static_cast<uint32_t>(round)});
}

void HonestWay::Post(uint64_t round, uint64_t message, bool sends) {
  new (memory_.data() + OutcomeOffset(message)) MessageOutcome{};
  std::byte* const bytes = memory_.data() + DataOffset(message);
  for (uint64_t i = 0; i < BytesOf(message); ++i) {
    bytes[i] = sends ? ByteOf(round, message, i) : std::byte{0};
  }
  OperationDescriptor descriptor;
  descriptor.collective = sends ? Collective::kSend : Collective::kReceive;
  descriptor.type = DataType::kInt8;
  descriptor.flags = kPipeMessage;
  descriptor.member = member_;
  descriptor.root = peer_;
  descriptor.scalar = round;
  descriptor.sequence = message;
  descriptor.count = sends ? BytesOf(message) : kMostBytes;
  const BufferReference data{.offset = DataOffset(message), .region = region_};
  const BufferReference outcome{.offset = OutcomeOffset(message), .region = region_};
  descriptor.send = sends ? data : outcome;
  descriptor.receive = sends ? outcome : data;
  session_->Queue(descriptor);
}

Status HonestWay::Await(uint64_t message) {
  const auto& outcome =
      *reinterpret_cast<const MessageOutcome*>(memory_.data() + OutcomeOffset(message));
  return AwaitFor("a message", [&]() -> Status {
    const uint32_t end = outcome.end.load(std::memory_order_acquire);
    if (end == kUnderWay && !session_->socket().PeerGone()) return {Code::kInProgress, ""};
    if (end != kMessageDone) return RemoteError("message {} ended with {}", message, end);
    const uint64_t bytes = outcome.bytes.load();
    if (bytes == BytesOf(message)) return Status::Ok();
    return InternalError("message {} has {} bytes, not {}", message, bytes, BytesOf(message));
  });
}

Status HonestWay::Check(uint64_t round) {
  for (uint64_t message = 0; message < kMessages; ++message) {
    for (uint64_t i = 0; i < BytesOf(message); ++i) {
      if (memory_.data()[DataOffset(message) + i] == ByteOf(round, message, i)) continue;
      return InternalError("byte {} of message {} is wrong", i, message);
    }
  }
  const uint32_t knocks = session_->segment().header.knocks.load();
  return knocks == 1 ? Status::Ok() : InternalError("{} processes have knocked", knocks);
}

}  // namespace harmonaize::testing
