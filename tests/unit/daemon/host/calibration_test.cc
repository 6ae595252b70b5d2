#include "daemon/host/calibration.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"

namespace harmonaize::daemon {
namespace {

HostCosts SomeCosts() {
  HostCosts costs = TypicalCosts();
  // The factor differs for each cost.
  double factor = 1;
  for (const HostCostField& field : kHostCostFields) costs.*field.value *= factor += 0.125;
  return costs;
}

MeasuredCosts Sure() {
  return {SomeCosts(), {.rounds = 4, .agreed = 3, .load = {.lost = 0.02, .running = 5}}};
}

MeasuredCosts Unsure() {
  MeasuredCosts measured = Sure();
  measured.evidence.load = {.lost = 0.75, .running = 20};
  measured.evidence.doubts = {"it was busy", "it was \"odd\""};
  return measured;
}

class CalibrationTest : public ::testing::Test {
 protected:
  CalibrationTest() {
    char name[] = "/tmp/harmonaize-calibration-test-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~CalibrationTest() override { std::filesystem::remove_all(folder_); }

  /// Returns the result of LoadOrMeasure, and counts how often it measures.
  Result<Calibration> Get(const std::string& folder) {
    return LoadOrMeasure(folder, host_, [this](const GoOn& go_on) -> Result<MeasuredCosts> {
      ++measured_;
      EXPECT_TRUE(go_on({.lost = 1})) << "the costs are needed, however busy the host is";
      return next_;
    });
  }
  std::string Read() const {
    std::ifstream file(path());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Write(const std::string& text) const { std::ofstream(path()) << text; }
  std::string path() const { return folder_ + "/" + kCalibrationFile; }

  std::string folder_;
  Fingerprint host_ = FingerprintOfHost();
  MeasuredCosts next_ = Sure();
  int measured_ = 0;
};

TEST_F(CalibrationTest, MeasuresOnceAndRemembers) {
  const Result<Calibration> first = Get(folder_);
  const Result<Calibration> second = Get(folder_);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(measured_, 1);
  for (const HostCostField& field : kHostCostFields) {
    EXPECT_EQ(second->costs.*field.value, SomeCosts().*field.value) << field.name;
  }
  EXPECT_TRUE(second->sure());
  EXPECT_EQ(second->evidence.rounds, 4);
  EXPECT_EQ(second->evidence.agreed, 3);
  EXPECT_EQ(second->evidence.load.lost, 0.02);
  EXPECT_EQ(second->evidence.load.running, 5);
  EXPECT_EQ(second->fingerprint, host_);
  EXPECT_EQ(second->measured_at, first->measured_at);
  EXPECT_FALSE(second->measured_at.empty());
  // Nothing else is left behind.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

// The start is no time to measure again: the host is as busy as it was. Recalibration waits.
TEST_F(CalibrationTest, AnUnsureOneCountsForUseAndStaysMarked) {
  next_ = Unsure();
  ASSERT_TRUE(Get(folder_).ok());
  const Result<Calibration> stored = Get(folder_);
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ(measured_, 1);
  EXPECT_FALSE(stored->sure());
  EXPECT_EQ(stored->evidence.doubts, Unsure().evidence.doubts);
  EXPECT_EQ(stored->evidence.load.lost, 0.75);
  EXPECT_EQ(stored->costs.wake_ns, SomeCosts().wake_ns);
  const nlohmann::json file = ReadJson(Read());
  EXPECT_EQ(file["sure"], false);
  EXPECT_EQ(file["load"]["heavy"], true);
}

TEST_F(CalibrationTest, DropsFilesOfTheVersionWithoutDoubts) {
  ASSERT_TRUE(Get(folder_).ok());
  nlohmann::json old = ReadJson(Read());
  for (const char* key : {"sure", "doubts", "rounds", "rounds_agreed", "load"}) old.erase(key);
  // A busy host's costs, as that version kept them.
  old["costs"]["yield_ns"] = 2e6;
  std::string version = old["fingerprint"]["version"];
  ASSERT_TRUE(version.ends_with(", costs 3")) << version;
  version.back() = '2';
  old["fingerprint"]["version"] = version;
  Write(JsonText(old));
  const Result<Calibration> anew = Get(folder_);
  ASSERT_TRUE(anew.ok());
  EXPECT_EQ(measured_, 2);
  EXPECT_EQ(anew->costs.yield_ns, SomeCosts().yield_ns);
}

TEST_F(CalibrationTest, MakesTheFolder) {
  ASSERT_TRUE(Get(folder_ + "/a/b").ok());
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/a/b/" + kCalibrationFile));
}

TEST_F(CalibrationTest, MeasuresAnewOnOtherHardwareOrByAnotherVersion) {
  ASSERT_TRUE(Get(folder_).ok());
  const Fingerprint here = host_;
  for (const auto& change : std::vector<std::function<void(Fingerprint*)>>{
           [](Fingerprint* other) { other->processor += " II"; },
           [](Fingerprint* other) { ++other->processors; },
           [](Fingerprint* other) { other->cache_bytes *= 2; },
           [](Fingerprint* other) { other->last_level_bytes *= 2; },
           [](Fingerprint* other) { ++other->memory_gib; },
           [](Fingerprint* other) { other->kernel += "-new"; },
           [](Fingerprint* other) { other->version = "0.0.1"; }}) {
    host_ = here;
    ASSERT_TRUE(Get(folder_).ok());
    const int before = measured_;
    change(&host_);
    const Result<Calibration> changed = Get(folder_);
    ASSERT_TRUE(changed.ok());
    EXPECT_EQ(measured_, before + 1);
    EXPECT_EQ(changed->fingerprint, host_);
    ASSERT_TRUE(Get(folder_).ok());
    EXPECT_EQ(measured_, before + 1) << "the new one was not kept";
  }
}

TEST_F(CalibrationTest, MeasuresAnewWhereTheFileIsDamaged) {
  ASSERT_TRUE(Get(folder_).ok());
  const std::string good = Read();
  nlohmann::json lacking = ReadJson(good);
  lacking["costs"].erase("wake_ns");
  nlohmann::json negative = ReadJson(good);
  negative["costs"]["wake_ns"] = -1;
  nlohmann::json implausible = ReadJson(good);
  implausible["costs"]["wake_up_ns"] = 12e6;
  nlohmann::json unmarked = ReadJson(good);
  unmarked.erase("doubts");
  nlohmann::json contradictory = ReadJson(good);
  contradictory["sure"] = false;
  nlohmann::json odd_doubts = ReadJson(good);
  odd_doubts["doubts"] = {7};
  nlohmann::json odd_rounds = ReadJson(good);
  odd_rounds["rounds"] = 1e300;
  for (const std::string& text :
       {std::string(), good.substr(0, good.size() / 2), std::string("[]"), std::string("{}"),
        std::string(R"({"costs": 3, "fingerprint": 4})"), std::string(1000, '\0'),
        JsonText(lacking), JsonText(negative), JsonText(implausible), JsonText(unmarked),
        JsonText(contradictory), JsonText(odd_doubts), JsonText(odd_rounds),
        std::string(R"({"costs": {}, "fingerprint": {}})")}) {
    Write(text);
    const int before = measured_;
    EXPECT_TRUE(Get(folder_).ok());
    EXPECT_EQ(measured_, before + 1) << text;
    EXPECT_TRUE(ParseCalibration(Read()).ok()) << "it was not replaced";
  }
}

TEST_F(CalibrationTest, EveryDamageIsToldAndNoneIsFatal) {
  ASSERT_TRUE(Get(folder_).ok());
  const std::string good = Read();
  const size_t length = good.find_last_of('}');
  for (size_t i = 0; i < length; ++i) {
    std::string damaged = good;
    damaged[i] = '\x80';
    EXPECT_FALSE(ParseCalibration(good.substr(0, i)).ok()) << i;
    // Inside a name or a text the damage may go unnoticed; it must not do worse.
    const Result<Calibration> parsed = ParseCalibration(damaged);
    if (parsed.ok()) {
      EXPECT_TRUE(Plausible(parsed->costs)) << i;
    }
  }
}

// A doubt may quote text that is no UTF-8, which JSON cannot hold as it is.
TEST_F(CalibrationTest, KeepsDoubtsOfAnyBytes) {
  next_ = Unsure();
  next_.evidence.doubts = {"\xff\x1b[2J \"odd\""};
  ASSERT_TRUE(Get(folder_).ok());
  const Result<Calibration> stored = Get(folder_);
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ(measured_, 1);
  EXPECT_FALSE(stored->sure());
  ASSERT_EQ(stored->evidence.doubts.size(), 1u);
  EXPECT_EQ(stored->evidence.doubts[0], "\xef\xbf\xbd\x1b[2J \"odd\"");
}

TEST_F(CalibrationTest, AFolderThatCannotBeWrittenIsNoError) {
  Write("a file, and no folder");
  EXPECT_TRUE(Get(path() + "/below").ok());
  EXPECT_TRUE(Get("").ok());
  EXPECT_EQ(measured_, 2);
}

// A limit on the size of files makes every write fail, as a full disk does.
TEST_F(CalibrationTest, AFullDiskIsNoErrorAndLeavesTheOldFile) {
  ASSERT_TRUE(Get(folder_).ok());
  const std::string before = Read();
  ++host_.memory_gib;
  rlimit unlimited{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
  const rlimit nothing{0, unlimited.rlim_max};
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &nothing), 0);
  const Result<Calibration> anew = Get(folder_);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
  signal(SIGXFSZ, old_handler);
  ASSERT_TRUE(anew.ok());
  EXPECT_EQ(measured_, 2);
  EXPECT_EQ(Read(), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(CalibrationTest, FailsOnlyWhereMeasuringDoes) {
  const Result<Calibration> failed = LoadOrMeasure(
      folder_, host_, [](const GoOn&) { return Result<MeasuredCosts>(SystemError("no threads")); });
  EXPECT_EQ(failed.status().code(), Code::kSystemError);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST(Fingerprint, IsThatOfThisHost) {
  const Fingerprint host = FingerprintOfHost();
  EXPECT_FALSE(host.processor.empty());
  EXPECT_GE(host.processors, 1u);
  EXPECT_FALSE(host.kernel.empty());
  EXPECT_FALSE(host.version.empty());
  EXPECT_EQ(host, FingerprintOfHost());
  EXPECT_EQ(host, FingerprintFrom(ToJson(host)));
  EXPECT_NE(host, FingerprintFrom(nlohmann::json::object()));
}

}  // namespace
}  // namespace harmonaize::daemon
