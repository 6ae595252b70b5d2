// Messages in pipes to a rank of another host. The other host's daemon is the test, which says what
// it likes, in any order.

#include "daemon/multihost/remote_pipes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/communicator/pipe_id.h"
#include "daemon/multihost/host_group.h"
#include "src/ipc/pipe_message.h"
#include "tests/unit/daemon/multihost/two_hosts_fixture.h"

namespace harmonaize::daemon {
namespace {

// What daemons agree on.
constexpr size_t kPart = size_t{64} << 10;
constexpr int kPartBits = 9;
struct Note {
  uint64_t name = 0;
  uint64_t value = 0;
  uint32_t pipe = 0;
  uint32_t kind = 0;
};
constexpr uint32_t kLength = 1;
constexpr uint32_t kReceived = 2;
constexpr uint32_t kReady = 3;
constexpr size_t kMostNotes = 256;

constexpr uint32_t kPipe = 3;

class RemotePipesTest : public TwoHostsFixture {
 protected:
  RemotePipesTest() {
    SpanToOther();
    auto memory = std::make_shared<RegionMemory>();
    Result<SharedMemory> shared = CreateSharedMemory("test", kRegionBytes);
    EXPECT_TRUE(shared.ok());
    memory->mapping = std::move(shared->mapping);
    memory_ = reinterpret_cast<uint8_t*>(memory->mapping.data());
    region_ = *sessions_[0]->AddRegion(std::move(memory));
  }
  ~RemotePipesTest() override {
    communicator_->Break(RemoteError("the test ends"));
    PeerCloses(0, true);
    RunUntil([this] { return !communicator_->executing(); });
    EXPECT_FALSE(communicator_->executing());
  }

  /// A message of rank 0: its data begins with the region, its outcome is the `slot`-th behind it.
  const MessageOutcome& Post(bool sends, uint64_t name, uint64_t bytes, uint32_t pipe = kPipe) {
    const uint64_t place = kMostData + outcomes_++ * sizeof(MessageOutcome);
    OperationDescriptor descriptor;
    descriptor.collective = sends ? Collective::kSend : Collective::kReceive;
    descriptor.flags = kPipeMessage;
    descriptor.member = members_[0]->index;
    descriptor.stream = descriptor.member;
    descriptor.root = 1;
    descriptor.sequence = name;
    descriptor.count = bytes;
    descriptor.scalar = pipe;
    descriptor.send = {sends ? 0 : place, region_};
    descriptor.receive = {sends ? place : 0, region_};
    const Result<PostedOperation*> message = sessions_[0]->Admit(descriptor);
    EXPECT_TRUE(message.ok()) << message.status().message();
    communicator_->Post(*message);
    Run();
    return *reinterpret_cast<const MessageOutcome*>(memory_ + place);
  }
  const MessageOutcome& Send(uint64_t name, uint64_t bytes) { return Post(true, name, bytes); }
  const MessageOutcome& Receive(uint64_t name, uint64_t bytes) { return Post(false, name, bytes); }
  void ExpectEnd(const MessageOutcome& outcome, Code code, uint64_t bytes = 0) {
    RunUntil([&] { return outcome.end.load() != kUnderWay; });
    ASSERT_NE(outcome.end.load(), kUnderWay);
    EXPECT_EQ(CodeOf(outcome.end.load()), code) << ErrorOf(0);
    if (code == Code::kOk) {
      EXPECT_EQ(outcome.bytes.load(), bytes);
    }
  }
  /// Lets both daemons go on for a while.
  void RunAWhile() {
    int rounds = 0;
    RunUntil([&] { return ++rounds > 200; });
  }

  // The other daemon.

  transport::PeerId here() const { return other_->linked().begin()->first; }
  static transport::MessageTag TagOf(uint64_t number, uint64_t name) {
    return {number, static_cast<uint32_t>(name >> 32), static_cast<uint32_t>(name)};
  }
  static transport::MessageTag PartOf(uint64_t name, uint64_t part) {
    return TagOf(HostGroup::PipeNumber(kKey, kPipe), name << kPartBits | part);
  }
  /// The daemon of rank 1 sends bytes, which stay as they are.
  void PeerSends(const transport::MessageTag& tag, std::vector<uint8_t> bytes) {
    sent_.push_back(std::move(bytes));
    const Status posted =
        other_->transport().PostSend(here(), {}, tag, std::as_bytes(std::span(sent_.back())),
                                     {[](void*, const Status&, size_t) {}, nullptr});
    EXPECT_TRUE(posted.ok()) << posted.message();
  }
  void PeerSendsPart(uint64_t name, uint64_t part, size_t bytes) {
    PeerSends(PartOf(name, part), std::vector<uint8_t>(bytes, static_cast<uint8_t>(part + 1)));
  }
  void PeerTells(const std::vector<Note>& notes) {
    std::vector<uint8_t> bytes(notes.size() * sizeof(Note));
    if (!notes.empty()) std::memcpy(bytes.data(), notes.data(), bytes.size());
    PeerSends(TagOf(HostGroup::NotesNumber(kKey, 1), told_++), bytes);
  }
  void PeerCloses(uint64_t notes, bool all = false) {
    Hear(PipesClosedMessage{kKey, 1, 0, kPipe, all, notes});
  }
  /// A receive of the other daemon.
  struct Arrival {
    std::vector<uint8_t> buffer;
    bool ended = false;
    Status status;
    size_t bytes = 0;
  };
  Arrival& PeerReceives(const transport::MessageTag& tag, size_t most) {
    Arrival& arrival = arrivals_.emplace_back();
    arrival.buffer.resize(most);
    const Status posted = other_->transport().PostReceive(
        here(), tag, std::as_writable_bytes(std::span(arrival.buffer)),
        {[](void* context, const Status& status, size_t bytes) {
           auto* const ended = static_cast<Arrival*>(context);
           ended->ended = true;
           ended->status = status;
           ended->bytes = bytes;
         },
         &arrival});
    EXPECT_TRUE(posted.ok()) << posted.message();
    return arrival;
  }
  /// The next note that rank 0's daemon tells.
  Note HearNote() {
    while (notes_.empty()) {
      Arrival& arrival =
          PeerReceives(TagOf(HostGroup::NotesNumber(kKey, 0), heard_++), kMostNotes * sizeof(Note));
      RunUntil([&] { return arrival.ended; });
      if (!arrival.ended) return {};
      std::vector<Note> notes(arrival.bytes / sizeof(Note));
      std::memcpy(notes.data(), arrival.buffer.data(), notes.size() * sizeof(Note));
      notes_.insert(notes_.end(), notes.begin(), notes.end());
    }
    const Note note = notes_.front();
    notes_.pop_front();
    return note;
  }
  void ExpectNote(uint32_t kind, uint64_t name, uint64_t value) {
    const Note note = HearNote();
    EXPECT_EQ(note.kind, kind);
    EXPECT_EQ(note.name, name);
    EXPECT_EQ(note.value, value);
    EXPECT_EQ(note.pipe, kPipe);
  }

  static constexpr size_t kMostData = size_t{4} << 20;
  static constexpr size_t kRegionBytes = kMostData + (size_t{1} << 20);

  uint8_t* memory_ = nullptr;
  uint32_t region_ = 0;
  uint64_t outcomes_ = 0;
  std::deque<std::vector<uint8_t>> sent_;
  std::deque<Arrival> arrivals_;
  std::deque<Note> notes_;
  uint64_t told_ = 0;
  uint64_t heard_ = 0;
};

TEST_F(RemotePipesTest, ASendEndsWhenTheOtherDaemonSaysThatItWasReceived) {
  std::memset(memory_, 7, 100);
  const MessageOutcome& outcome = Send(5, 100);
  const Arrival& arrival = PeerReceives(PartOf(5, 0), 100);
  RunUntil([&] { return arrival.ended; });
  EXPECT_EQ(arrival.buffer, std::vector<uint8_t>(100, 7));
  RunAWhile();
  EXPECT_EQ(outcome.end.load(), kUnderWay);
  PeerTells({{5, 0, kPipe, kReceived}});
  ExpectEnd(outcome, Code::kOk, 100);
}

TEST_F(RemotePipesTest, ALongMessageGoesInPartsWhenItsReceiveIsReady) {
  constexpr size_t kBytes = 20 * kPart + 10;
  for (size_t i = 0; i < kBytes; ++i) memory_[i] = static_cast<uint8_t>(i / kPart);
  const MessageOutcome& outcome = Send(5, kBytes);
  ExpectNote(kLength, 5, kBytes);
  std::vector<const Arrival*> arrivals;
  for (uint64_t part = 0; part <= 20; ++part) {
    arrivals.push_back(&PeerReceives(PartOf(5, part), kPart));
  }
  RunAWhile();
  EXPECT_TRUE(arrivals[0]->ended);
  EXPECT_FALSE(arrivals[1]->ended);
  PeerTells({{5, 0, kPipe, kReady}});
  for (size_t part = 0; part <= 20; ++part) {
    RunUntil([&] { return arrivals[part]->ended; });
    ASSERT_TRUE(arrivals[part]->ended);
    ASSERT_EQ(arrivals[part]->bytes, part < 20 ? kPart : 10);
    EXPECT_EQ(arrivals[part]->buffer[0], part);
  }
  PeerTells({{5, 0, kPipe, kReceived}});
  ExpectEnd(outcome, Code::kOk, kBytes);
}

// The other side may be slow with the receives of many messages, and want the last one first.
TEST_F(RemotePipesTest, AMessageThatNobodyReceivesHoldsUpNoOther) {
  for (uint64_t name = 1; name <= 100; ++name) Send(name, 3 * kPart);
  PeerTells({{101, 0, kPipe, kReady}});
  const MessageOutcome& outcome = Send(101, 20 * kPart);
  for (uint64_t part = 0; part < 20; ++part) {
    const Arrival& arrival = PeerReceives(PartOf(101, part), kPart);
    RunUntil([&] { return arrival.ended; });
    ASSERT_TRUE(arrival.ended) << part;
  }
  PeerTells({{101, 0, kPipe, kReceived}});
  ExpectEnd(outcome, Code::kOk, 20 * kPart);
}

// The receive, the length, and the parts, in each order.
TEST_F(RemotePipesTest, ALongMessageArrivesInWhicheverOrder) {
  constexpr size_t kBytes = 2 * kPart + 10;
  std::vector<int> order = {0, 1, 2, 3, 4};
  uint64_t name = 0;
  do {
    std::memset(memory_, 0, kBytes);
    ++name;
    const MessageOutcome* outcome = nullptr;
    for (const int event : order) {
      if (event == 0) outcome = &Receive(name, kBytes + 1000);
      if (event == 1) PeerTells({{name, kBytes, kPipe, kLength}});
      if (event >= 2) {
        const auto part = static_cast<uint64_t>(event - 2);
        PeerSendsPart(name, part, part < 2 ? kPart : 10);
      }
      Run();
      cluster_->Progress(true);
      other_->Progress(true);
    }
    ExpectEnd(*outcome, Code::kOk, kBytes);
    ExpectNote(kReady, name, 0);
    ExpectNote(kReceived, name, 0);
    for (size_t i = 0; i < kBytes; i += kPart / 2) ASSERT_EQ(memory_[i], i / kPart + 1);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(RemotePipesTest, AMessageOfOnePartNeedsNoLength) {
  PeerSendsPart(1, 0, 0);
  ExpectEnd(Receive(1, 100), Code::kOk, 0);
  PeerSendsPart(2, 0, 99);
  ExpectEnd(Receive(2, 100), Code::kOk, 99);
}

TEST_F(RemotePipesTest, WhatIsTooLongIsRefusedAndItsSenderIsTold) {
  PeerSendsPart(1, 0, 101);
  ExpectEnd(Receive(1, 100), Code::kInvalidUsage);
  ExpectNote(kReceived, 1, static_cast<uint64_t>(Code::kInvalidUsage));
  // The first part fits, and the message does not.
  const MessageOutcome& outcome = Receive(2, 2 * kPart);
  PeerSendsPart(2, 0, kPart);
  PeerTells({{2, UINT64_MAX, kPipe, kLength}});
  ExpectEnd(outcome, Code::kInvalidUsage);
  ExpectNote(kReady, 2, 0);
  ExpectNote(kReceived, 2, static_cast<uint64_t>(Code::kInvalidUsage));
  EXPECT_EQ(communicator_->state(), Communicator::State::kReady);
}

TEST_F(RemotePipesTest, ASendThatIsTooLongForItsReceiveFails) {
  const MessageOutcome& outcome = Send(1, 100);
  PeerTells({{1, static_cast<uint64_t>(Code::kInvalidUsage), kPipe, kReceived}});
  ExpectEnd(outcome, Code::kInvalidUsage);
}

TEST_F(RemotePipesTest, LimitsOfMessages) {
  ExpectEnd(Send(uint64_t{1} << 55, 1), Code::kInvalidUsage);
  const MessageOutcome& first = Receive(1, 100);
  ExpectEnd(Receive(1, 100), Code::kInvalidUsage);
  for (uint64_t name = 2; name <= kMostMessagesOfPipe; ++name) Receive(name, 100);
  ExpectEnd(Receive(kMostMessagesOfPipe + 1, 100), Code::kInvalidUsage);
  EXPECT_EQ(first.end.load(), kUnderWay);
  // One that has ended makes room.
  PeerSendsPart(1, 0, 10);
  ExpectEnd(first, Code::kOk, 10);
  EXPECT_EQ(Receive(kMostMessagesOfPipe + 1, 100).end.load(), kUnderWay);
}

TEST_F(RemotePipesTest, NewsOfTheEndWaitForTheNotesThatWereSentBefore) {
  const MessageOutcome& received = Send(1, 100);
  const MessageOutcome& never = Send(2, 100);
  RunAWhile();
  PeerCloses(1);
  RunAWhile();
  EXPECT_EQ(received.end.load(), kUnderWay);
  EXPECT_EQ(never.end.load(), kUnderWay);
  PeerTells({{1, 0, kPipe, kReceived}});
  ExpectEnd(received, Code::kOk, 100);
  ExpectEnd(never, Code::kRemoteError);
  ExpectEnd(Receive(3, 100), Code::kRemoteError);
}

TEST_F(RemotePipesTest, ClosingEndsWhatWaitsAndTellsTheOtherDaemon) {
  const MessageOutcome& receive = Receive(1, 100);
  const MessageOutcome& send = Send(2, 10 * kPart);
  RunAWhile();
  EXPECT_TRUE(communicator_->other_hosts()->ClosePipe({0, 1, kPipe}).ok());
  ExpectEnd(receive, Code::kRemoteError);
  ExpectEnd(send, Code::kRemoteError);
  ExpectEnd(Receive(3, 100), Code::kInvalidUsage);
  RunUntil([&] { return other_events_.Count<PipesClosedMessage>() == 1; });
  EXPECT_EQ(other_events_.Count<PipesClosedMessage>(), 1);
  EXPECT_EQ(other_events_.Count<PipesOpenedMessage>(), 1);
}

TEST_F(RemotePipesTest, WhatMakesNoSenseIsPassedOver) {
  const MessageOutcome& outcome = Send(1, 100);
  PeerTells({{1, 0, kPipe + 1, kReceived},
             {2, 0, kPipe, kReceived},
             {1, 0, UINT32_MAX, kReceived},
             {1, 0, kPipe, kReady},
             {1, 0, kPipe, kReady},
             {1, 5, kPipe, kLength}});
  PeerTells({});
  PeerSends(TagOf(HostGroup::NotesNumber(kKey, 1), told_++), {1, 2, 3});
  RunAWhile();
  EXPECT_EQ(outcome.end.load(), kUnderWay);
  EXPECT_EQ(communicator_->state(), Communicator::State::kReady);
  PeerTells({{1, 0, kPipe, kReceived}});
  ExpectEnd(outcome, Code::kOk, 100);
}

// What is told of messages that have yet to be posted takes memory until they are.
TEST_F(RemotePipesTest, ADaemonThatTellsOfTooManyMessagesEndsTheCommunicator) {
  const MessageOutcome& receive = Receive(0, 100);
  uint64_t name = 1;
  while (name <= kMostMessagesOfPipe + 1) {
    std::vector<Note> notes;
    for (size_t i = 0; i < kMostNotes; i += 2, ++name) {
      notes.push_back({name, kPart, kPipe, kLength});
      notes.push_back({name, 0, kPipe, kReady});
    }
    PeerTells(notes);
  }
  RunUntilEnded();
  EXPECT_EQ(communicator_->state(), Communicator::State::kBroken);
  // The transport has the receive until the other daemon has closed.
  PeerCloses(0, true);
  ExpectEnd(receive, Code::kRemoteError);
}

// What the other daemon says of them counts until it has closed all pipes.
TEST_F(RemotePipesTest, AfterABreakSendsMayStillBeReceived) {
  const MessageOutcome& send = Send(1, 100);
  const MessageOutcome& receive = Receive(2, 100);
  RunAWhile();
  const MessageOutcome& late = Send(3, 100);
  communicator_->Break(RemoteError("broken"));
  RunAWhile();
  EXPECT_EQ(send.end.load(), kUnderWay);
  PeerTells({{1, 0, kPipe, kReceived}});
  ExpectEnd(send, Code::kOk, 100);
  EXPECT_EQ(late.end.load(), kUnderWay);
  PeerCloses(told_, true);
  ExpectEnd(receive, Code::kRemoteError);
  ExpectEnd(late, Code::kRemoteError);
}

}  // namespace
}  // namespace harmonaize::daemon
