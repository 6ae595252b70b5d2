#include "daemon/checkpoint/part_copies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/checkpoint/part_eraser.h"
#include "daemon/runtime/event_loop.h"

namespace harmonaize::daemon {
namespace {

constexpr uint64_t kPiece = 64 << 10;
constexpr uint64_t kBytes = 10 * kPiece + 100;

/// A source that reads when it is told.
class ToldSource final : public PartSource {
 public:
  struct Range {
    uint64_t at = 0;
    std::span<std::byte> into;
    Done done;
  };

  Status Read(uint64_t at, std::span<std::byte> into, Done done) override {
    asked.push_back({at, into, std::move(done)});
    return Status::Ok();
  }

  std::deque<Range> asked;
};

class PartCopiesTest : public ::testing::Test {
 protected:
  PartCopiesTest() : loop_(EventLoop::Create().value()) {
    ResourceLimits limits;
    limits.fill({.for_each = int64_t{1} << 40, .for_all = int64_t{1} << 41});
    account_ = std::make_shared<Account>(std::make_shared<HostHoldings>(limits), "alice");
    copies_ =
        std::make_unique<PartCopies>(PartCopies::Services{.loop = loop_.get(), .eraser = eraser_});
    EXPECT_TRUE(copies_->Begin(name_, source_, kBytes, *account_, 1).ok());
  }
  ~PartCopiesTest() override {
    copies_.reset();
    eraser_->End();
  }

  /// Returns the number of the wish in `answers_`.
  size_t Fetch(uint64_t at, uint64_t bytes) {
    const size_t wish = answers_.size();
    answers_.push_back(Status(Code::kInProgress, "not yet"));
    copies_->Fetch(name_, at, bytes, 1, [this, wish](const Result<uint64_t>& fetched) {
      answers_[wish] = fetched.status();
    });
    return wish;
  }
  bool IsThere(size_t wish) const { return answers_[wish].ok(); }

  /// Ends what was asked first of the source. Returns the range.
  std::pair<uint64_t, uint64_t> EndRead(const Status& status = Status::Ok()) {
    ToldSource::Range range = std::move(source_->asked.front());
    source_->asked.pop_front();
    std::fill(range.into.begin(), range.into.end(), std::byte{'x'});
    range.done(status);
    loop_->RunPosted();
    return {range.at, range.into.size()};
  }

  const std::unique_ptr<EventLoop> loop_;
  const std::shared_ptr<PartEraser> eraser_ = std::make_shared<PartEraser>();
  std::shared_ptr<Account> account_;
  const std::shared_ptr<ToldSource> source_ = std::make_shared<ToldSource>();
  const PartName name_ = {};
  std::unique_ptr<PartCopies> copies_;
  std::vector<Status> answers_;
};

using Span = std::pair<uint64_t, uint64_t>;

TEST_F(PartCopiesTest, SingleBytesAreReadInPieces) {
  const size_t byte = Fetch(3 * kPiece + 7, 1);
  EXPECT_EQ(EndRead(), Span(3 * kPiece, kPiece));
  EXPECT_TRUE(IsThere(byte));
  EXPECT_TRUE(IsThere(Fetch(3 * kPiece, kPiece))) << "without the source";
  const size_t last = Fetch(kBytes - 1, 1);
  EXPECT_EQ(EndRead(), Span(10 * kPiece, 100));
  EXPECT_TRUE(IsThere(last));
  EXPECT_TRUE(IsThere(Fetch(0, 0)));
  EXPECT_TRUE(source_->asked.empty());
}

TEST_F(PartCopiesTest, WhatIsThereIsNotReadAgainUnderItsReaders) {
  const size_t middle = Fetch(4 * kPiece, kPiece);
  const size_t same = Fetch(4 * kPiece, kPiece);
  EXPECT_EQ(source_->asked.size(), 1u);
  EndRead();
  EXPECT_TRUE(IsThere(middle) && IsThere(same));
  EXPECT_TRUE(source_->asked.empty());
  const size_t all = Fetch(0, kBytes);
  EXPECT_EQ(EndRead(), Span(0, 4 * kPiece));
  EXPECT_FALSE(IsThere(all));
  EXPECT_EQ(EndRead(), Span(5 * kPiece, 5 * kPiece + 100));
  EXPECT_TRUE(IsThere(all));
}

TEST_F(PartCopiesTest, WhatCannotBeReadIsToldToAllWhoWait) {
  const size_t first = Fetch(0, 1);
  const size_t second = Fetch(kPiece, 1);
  EndRead(Status(Code::kUnavailable, "replaced"));
  EXPECT_EQ(answers_[first].code(), Code::kUnavailable);
  EXPECT_EQ(answers_[second].code(), Code::kUnavailable);
  EXPECT_FALSE(copies_->Contains(name_));
}

TEST_F(PartCopiesTest, RangesOutsideAreRefused) {
  for (const auto& [at, bytes] : {Span(kBytes + 1, 0), Span(kBytes, 1), Span(0, kBytes + 1),
                                  Span(UINT64_MAX, 2), Span(1, UINT64_MAX)}) {
    EXPECT_EQ(answers_[Fetch(at, bytes)].code(), Code::kInvalidArgument) << at << " " << bytes;
  }
  EXPECT_TRUE(source_->asked.empty());
}

TEST_F(PartCopiesTest, WhatIsWaitedForIsNotUnused) {
  Fetch(0, 1);
  copies_->DropUnused(PartCopies::kUnusedNs + 100);
  EXPECT_TRUE(copies_->Contains(name_));
  EndRead();
  copies_->DropUnused(PartCopies::kUnusedNs + 100);
  EXPECT_FALSE(copies_->Contains(name_));
}

}  // namespace
}  // namespace harmonaize::daemon
