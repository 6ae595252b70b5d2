// Descriptors, and the memory that a tenant shares with the daemon for control.

#include <sys/mman.h>

#include <array>
#include <cstring>

#include "src/ipc/inline_segment.h"
#include "tests/hostile/attacks.h"

namespace harmonaize::testing {
namespace {

/// What a session's operations work on, in bytes: enough that one takes a while.
constexpr uint64_t kRegionBytes = uint64_t{1} << 20;

OperationDescriptor DrawDescriptor(Attacker& attacker) {
  OperationDescriptor descriptor;
  const std::vector<std::byte> bytes = attacker.DrawBytes(sizeof descriptor);
  std::memcpy(static_cast<void*>(&descriptor), bytes.data(), sizeof descriptor);
  return descriptor;
}

Collective DrawCollective(Attacker& attacker) {
  return static_cast<Collective>(attacker.DrawBelow(kCollectiveCount));
}

OperationDescriptor DrawValid(Attacker& attacker, Gang& gang, int rank) {
  OperationDescriptor descriptor =
      gang.Next(rank, DrawCollective(attacker), attacker.DrawBelow(50'000),
                static_cast<DataType>(attacker.DrawBelow(kDataTypeCount)));
  descriptor.op = static_cast<ReduceOperator>(attacker.DrawBelow(kReduceOperatorCount));
  descriptor.scalar = attacker.Draw();
  descriptor.root = static_cast<int32_t>(attacker.DrawBelow(static_cast<uint64_t>(gang.ranks())));
  return descriptor;
}

/// Changes one field.
void Spoil(Attacker& attacker, OperationDescriptor* descriptor) {
  switch (attacker.DrawBelow(11)) {
    case 0: descriptor->sequence += attacker.Draw() % 3 - 1; break;
    case 1:
      descriptor->count = attacker.OneIn(2) ? attacker.Draw() : ~attacker.DrawBelow(100);
      break;
    case 2: descriptor->position = attacker.DrawBelow(5); break;
    case 3: descriptor->send.offset = attacker.OneIn(2) ? attacker.Draw() : kRegionBytes - 3; break;
    case 4: descriptor->receive.region = attacker.DrawNumber(); break;
    case 5: descriptor->member = attacker.DrawNumber(); break;
    case 6: descriptor->stream = attacker.DrawNumber(); break;
    case 7: descriptor->root = static_cast<int32_t>(attacker.DrawNumber()); break;
    case 8: descriptor->collective = static_cast<Collective>(attacker.Draw()); break;
    case 9: descriptor->type = static_cast<DataType>(attacker.Draw()); break;
    default: descriptor->flags = static_cast<uint8_t>(attacker.Draw()); break;
  }
}

/// Writes any words at any places of [first, first + bytes), for as long as the process lives: a
/// half of them at the beginning, where what counts stands.
void ScribbleForEver(Attacker& attacker, std::byte* first, size_t bytes, size_t beginning) {
  while (true) {
    const size_t words = (attacker.OneIn(2) ? std::min(beginning, bytes) : bytes) / 8;
    auto* const word = reinterpret_cast<std::atomic<uint64_t>*>(first) + attacker.DrawBelow(words);
    word->store(attacker.OneIn(2) ? attacker.Draw() : attacker.DrawBelow(4),
                std::memory_order_relaxed);
    // Of each page a little, so that the memory that this costs stays small.
    if (attacker.OneIn(64)) usleep(1);
  }
}

}  // namespace

void PostAnyDescriptors(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<Gang> gang = Gang::Form(attacker, 1, kRegionBytes);
    if (!gang.has_value()) continue;
    const uint64_t honest_for = attacker.DrawBelow(4);
    for (uint64_t i = 0; attacker.TimeLeft() && !attacker.WasCutOff(gang->session()); ++i) {
      OperationDescriptor descriptor = DrawDescriptor(attacker);
      // Deeper and deeper into the checks: more and more of the descriptor is right.
      const OperationDescriptor valid = DrawValid(attacker, *gang, 0);
      if (honest_for >= 1) descriptor.member = descriptor.stream = valid.member;
      if (honest_for >= 2) descriptor.position = valid.position;
      if (honest_for >= 2) descriptor.sequence = valid.sequence;
      if (honest_for >= 3) descriptor.collective = valid.collective;
      if (honest_for >= 3) descriptor.type = valid.type;
      if (honest_for >= 3) descriptor.op = valid.op;
      gang->session().Post(descriptor);
      attacker.CountBlows();
      if (i % 16 == 15) usleep(500);
    }
  }
}

void PostNearlyValidDescriptors(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    const int ranks = 1 + static_cast<int>(attacker.DrawBelow(3));
    std::optional<Gang> gang = Gang::Form(attacker, ranks, kRegionBytes);
    if (!gang.has_value()) continue;
    while (attacker.TimeLeft() && !attacker.WasCutOff(gang->session())) {
      for (int rank = 0; rank < ranks; ++rank) {
        OperationDescriptor descriptor = DrawValid(attacker, *gang, rank);
        const uint64_t kind = attacker.DrawBelow(12);
        if (kind == 0) descriptor = DrawDescriptor(attacker);
        if (kind == 1) Spoil(attacker, &descriptor);
        gang->session().Queue(descriptor);
        attacker.CountBlows();
      }
      gang->session().Ring();
      usleep(100);
    }
  }
}

void SetNonsenseTails(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<Gang> gang = Gang::Form(attacker, 1, 4096);
    if (!gang.has_value()) continue;
    SubmissionRing& ring = gang->session().segment().ring;
    gang->PostAll(Collective::kAllReduce, 16);
    ring.tail.fetch_add(attacker.OneIn(2) ? kRingEntries + 1
                                          : static_cast<uint32_t>(attacker.Draw()));
    ring.producer_waiting.store(1);
    gang->session().Ring();
    attacker.CountBlows();
    for (int i = 0; i < 50 && !attacker.WasCutOff(gang->session()); ++i) usleep(200);
  }
}

void ScribbleOverTheSession(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<Gang> gang = Gang::Form(attacker, 2, kRegionBytes);
    if (!gang.has_value()) continue;
    const Helper scribbler([&] {
      // All up to the ring's end, and the first streams and members.
      ScribbleForEver(attacker, reinterpret_cast<std::byte*>(&gang->session().segment()),
                      sizeof(SessionSegment),
                      sizeof(SessionHeader) + sizeof(SubmissionRing) + 4096);
    });
    while (attacker.TimeLeft() && !attacker.WasCutOff(gang->session())) {
      gang->PostAll(DrawCollective(attacker), attacker.DrawBelow(100'000));
      attacker.CountBlows();
      usleep(50);
    }
  }
}

void ScribbleOverTheInlineSegment(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<Gang> gang = Gang::Form(attacker, 2, kRegionBytes);
    if (!gang.has_value()) continue;
    AttachInlineRequest attach;
    attach.member = gang->member(0);
    if (!attacker.Ask(gang->session(), attach)) continue;
    const uint64_t bytes = gang->session().LastReply<AttachInlineReply>().bytes;
    if (bytes == 0 || gang->session().last_descriptors().empty()) continue;
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                              gang->session().last_descriptors().front().get(), 0);
    if (memory == MAP_FAILED) continue;
    const Helper scribbler([&] {
      ScribbleForEver(attacker, static_cast<std::byte*>(memory), bytes, sizeof(InlineHeader));
    });
    while (attacker.TimeLeft() && !attacker.WasCutOff(gang->session())) {
      gang->PostAll(Collective::kAllReduce, attacker.DrawBelow(2000));
      attacker.Ask(gang->session(), StatusRequest{});
      attach.member = gang->member(static_cast<int>(attacker.DrawBelow(2)));
      attacker.Ask(gang->session(), attach);
    }
    munmap(memory, bytes);
  }
}

// As ranks with private buffers do; the daemon has not told it that it may.
void FillSlicesThatNobodyAskedFor(Attacker& attacker) {
  while (attacker.TimeLeft()) {
    std::optional<Gang> gang = Gang::Form(attacker, 2, kRegionBytes);
    if (!gang.has_value()) continue;
    while (attacker.TimeLeft() && !attacker.WasCutOff(gang->session())) {
      const bool pair = attacker.OneIn(2);
      const uint64_t count = attacker.DrawBelow(60'000);
      SliceProgress* words[2];
      uint64_t sequences[2];
      for (int rank = 0; rank < 2; ++rank) {
        const Collective of_pair = rank == 0 ? Collective::kSend : Collective::kReceive;
        OperationDescriptor descriptor =
            gang->Next(rank, pair ? of_pair : Collective::kAllReduce, count, DataType::kInt32);
        if (pair) descriptor.root = 1 - rank;
        descriptor.flags |= kSendWindow | kReceiveWindow;
        // In a pair the number is the tenant's own.
        if (pair) descriptor.sequence = attacker.Draw();
        const SliceLane lane = rank == 0 ? kSendLane : kReceiveLane;
        SliceProgress& progress =
            gang->session().segment().members[gang->member(rank)].lanes[pair ? lane
                                                                             : kCollectiveLane];
        progress.filled.store(attacker.OneIn(2) ? attacker.Draw()
                                                : SliceCount(descriptor.sequence, attacker.Draw()));
        progress.slices.store(attacker.Draw());
        // Sometimes a window that is one, which the daemon then works on.
        progress.window_region.store(attacker.OneIn(4) ? attacker.DrawNumber()
                                                       : descriptor.send.region);
        progress.window_offset.store(attacker.OneIn(4) ? attacker.Draw() : 0);
        gang->session().Queue(descriptor);
        words[rank] = &progress;
        sequences[rank] = descriptor.sequence;
        attacker.CountBlows();
      }
      gang->session().Ring();
      // Until all is filled, others would wait.
      for (const int rank : {0, 1}) {
        words[rank]->filled.store(SliceCount(sequences[rank], kAllSlices));
      }
      gang->session().Ring();
      gang->AwaitAll(attacker, 0);
    }
  }
}

}  // namespace harmonaize::testing
