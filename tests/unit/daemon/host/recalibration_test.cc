#include "daemon/host/recalibration.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <vector>

namespace harmonaize::daemon {
namespace {

using std::chrono::milliseconds;

constexpr auto kPatience = std::chrono::seconds(60);

CostEvidence Doubtful(size_t doubts) {
  return {.rounds = 1, .agreed = 1, .doubts = std::vector<std::string>(doubts, "a doubt")};
}

/// A daemon and a host that do what a test wants, and a Recalibration for them. A mutex guards all
/// state that the recalibration's thread shares with the test.
class RecalibrationTest : public ::testing::Test {
 protected:
  RecalibrationTest() {
    char name[] = "/tmp/harmonaize-recalibration-test-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~RecalibrationTest() override {
    recalibration_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Begin() {
    Recalibration::Means means{.host = FingerprintOfHost(),
                               .folder = folder_,
                               .measure = [this](const GoOn& go_on) { return Measure(go_on); },
                               .ask =
                                   [this](const std::function<void(const Activity&)>& answer) {
                                     Activity now;
                                     {
                                       const std::lock_guard lock(mutex_);
                                       if (mute_) return;
                                       now = activity_;
                                     }
                                     answer(now);
                                   },
                               .use =
                                   [this](Calibration calibration) {
                                     const std::lock_guard lock(mutex_);
                                     used_.push_back(std::move(calibration));
                                     changed_.notify_all();
                                   }};
    recalibration_ = std::make_unique<Recalibration>(
        std::move(means), Recalibration::Times{.first = milliseconds(1),
                                               .longest_while_busy = milliseconds(4),
                                               .longest = milliseconds(8),
                                               .rest = milliseconds(1)});
    recalibration_->Begin();
  }

  Result<MeasuredCosts> Measure(const GoOn& go_on) {
    std::function<void()> meanwhile;
    HostLoad load;
    {
      const std::lock_guard lock(mutex_);
      meanwhile = meanwhile_;
      load = load_;
    }
    if (meanwhile) meanwhile();
    if (!go_on(load)) {
      const std::lock_guard lock(mutex_);
      ++given_up_;
      return Status(Code::kInProgress, "given up");
    }
    const std::lock_guard lock(mutex_);
    const CostEvidence evidence = evidences_[std::min(measured_, evidences_.size() - 1)];
    ++measured_;
    return MeasuredCosts{TypicalCosts(), evidence};
  }

  template <typename Condition>
  bool WaitUntil(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      {
        const std::lock_guard lock(mutex_);
        if (condition()) return true;
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
    return false;
  }
  bool WaitUntilDone() {
    return WaitUntil([this] { return !recalibration_->state().wanted; });
  }
  bool WaitForTries(int more) {
    const int tries = recalibration_->state().tries;
    return WaitUntil([&] { return recalibration_->state().tries >= tries + more; });
  }
  template <typename Change>
  void Set(Change change) {
    const std::lock_guard lock(mutex_);
    change();
  }

  Result<Calibration> Stored() const {
    std::ifstream file(folder_ + "/" + kCalibrationFile);
    return ParseCalibration(std::string(std::istreambuf_iterator<char>(file), {}));
  }

  std::string folder_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool mute_ = false;
  Activity activity_;
  HostLoad load_;
  std::function<void()> meanwhile_;
  std::vector<CostEvidence> evidences_ = {CostEvidence{.rounds = 3, .agreed = 3}};
  size_t measured_ = 0;
  size_t given_up_ = 0;
  std::vector<Calibration> used_;

  std::unique_ptr<Recalibration> recalibration_;
};

TEST_F(RecalibrationTest, ReplacesAnUnsureCalibrationAndKeepsTheNewOne) {
  Begin();
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(measured_, 1u);
  ASSERT_EQ(used_.size(), 1u);
  EXPECT_TRUE(used_.front().sure());
  EXPECT_EQ(used_.front().fingerprint, FingerprintOfHost());
  EXPECT_FALSE(used_.front().measured_at.empty());
  const Result<Calibration> stored = Stored();
  ASSERT_TRUE(stored.ok()) << stored.status().message();
  EXPECT_TRUE(stored->sure());
  EXPECT_EQ(recalibration_->state().tries, 1);
}

TEST_F(RecalibrationTest, MeasuresNothingWhileOperationsRun) {
  activity_.busy = true;
  Begin();
  ASSERT_TRUE(WaitForTries(5));
  EXPECT_TRUE(recalibration_->state().wanted);
  Set([this] {
    EXPECT_EQ(measured_, 0u);
    EXPECT_EQ(given_up_, 0u);
    activity_.busy = false;
  });
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(measured_, 1u);
}

TEST_F(RecalibrationTest, IsNotDeceivedByOperationsBetweenTwoLooks) {
  // Each look finds the daemon at rest, but operations have run since the last one.
  Recalibration::Means means{.host = {},
                             .folder = "",
                             .measure = [this](const GoOn& go_on) { return Measure(go_on); },
                             .ask =
                                 [this](const std::function<void(const Activity&)>& answer) {
                                   Activity now;
                                   Set([&] {
                                     ++activity_.operations;
                                     now = activity_;
                                   });
                                   answer(now);
                                 },
                             .use = [](const Calibration&) {}};
  recalibration_ = std::make_unique<Recalibration>(
      std::move(means),
      Recalibration::Times{milliseconds(1), milliseconds(1), milliseconds(1), milliseconds(1)});
  recalibration_->Begin();
  ASSERT_TRUE(WaitForTries(5));
  Set([this] {
    EXPECT_EQ(measured_, 0u);
    EXPECT_EQ(given_up_, 0u);
  });
}

TEST_F(RecalibrationTest, GivesUpAMeasurementWhenAnOperationBegins) {
  meanwhile_ = [this] { Set([this] { ++activity_.operations; }); };
  Begin();
  ASSERT_TRUE(WaitUntil([this] { return given_up_ >= 3; }));
  Set([this] {
    EXPECT_EQ(measured_, 0u);
    EXPECT_TRUE(used_.empty());
    meanwhile_ = nullptr;
  });
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(measured_, 1u);
}

TEST_F(RecalibrationTest, GivesUpAMeasurementUnderLoad) {
  load_ = {.lost = 0.5, .running = 4};
  Begin();
  ASSERT_TRUE(WaitUntil([this] { return given_up_ >= 3; }));
  Set([this] {
    EXPECT_EQ(measured_, 0u);
    load_ = {};
  });
  ASSERT_TRUE(WaitUntilDone());
}

TEST_F(RecalibrationTest, UsesTheNewestUntilOneIsSure) {
  evidences_ = {Doubtful(1), Doubtful(2), {.rounds = 3, .agreed = 2}};
  Begin();
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(measured_, 3u);
  ASSERT_EQ(used_.size(), 3u);
  EXPECT_EQ(used_[0].evidence.doubts.size(), 1u);
  EXPECT_EQ(used_[1].evidence.doubts.size(), 2u);
  EXPECT_TRUE(used_[2].sure());
  EXPECT_TRUE(Stored()->sure());
}

TEST_F(RecalibrationTest, TriesAtGrowingIntervals) {
  evidences_ = {Doubtful(1)};
  Recalibration::Means means{
      .host = {},
      .folder = "",
      .measure = [this](const GoOn& go_on) { return Measure(go_on); },
      .ask = [](const std::function<void(const Activity&)>& answer) { answer({}); },
      .use = [](const Calibration&) {}};
  recalibration_ = std::make_unique<Recalibration>(
      std::move(means), Recalibration::Times{milliseconds(1), milliseconds(1),
                                             std::chrono::hours(1), milliseconds(0)});
  const auto start = std::chrono::steady_clock::now();
  recalibration_->Begin();
  ASSERT_TRUE(WaitForTries(8));
  // 1 + 2 + 4 + ... + 128 ms.
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(255));
  EXPECT_TRUE(recalibration_->state().wanted);
}

TEST_F(RecalibrationTest, BeginsAgainWhenOperationsContradictIt) {
  Begin();
  ASSERT_TRUE(WaitUntilDone());
  recalibration_->Begin();
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(measured_, 2u);
}

TEST_F(RecalibrationTest, EndsAlthoughTheDaemonAnswersNoMore) {
  mute_ = true;
  Begin();
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_TRUE(recalibration_->state().wanted);
  recalibration_.reset();
}

TEST_F(RecalibrationTest, AFolderThatCannotBeWrittenIsNoError) {
  std::ofstream(folder_ + "/file") << "no folder";
  const std::string folder = std::exchange(folder_, folder_ + "/file");
  Begin();
  ASSERT_TRUE(WaitUntilDone());
  EXPECT_EQ(used_.size(), 1u);
  folder_ = folder;
}

}  // namespace
}  // namespace harmonaize::daemon
