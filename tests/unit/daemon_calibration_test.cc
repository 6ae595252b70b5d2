#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "daemon/calibration.h"

namespace harmonaize::daemon {
namespace {

HostCosts SomeCosts() {
  HostCosts costs;
  double value = 1;
  for (const HostCostField& field : kHostCostFields) costs.*field.value = value += 0.25;
  return costs;
}

class CalibrationTest : public ::testing::Test {
 protected:
  CalibrationTest() {
    char name[] = "/tmp/harmonaize-calibration-test-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~CalibrationTest() override { std::filesystem::remove_all(folder_); }

  /// What LoadOrMeasure gives; counts how often it measures.
  Result<Calibration> Get(const std::string& folder) {
    return LoadOrMeasure(folder, host_, [this]() -> Result<HostCosts> {
      ++measured_;
      return SomeCosts();
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
  EXPECT_EQ(second->fingerprint, host_);
  EXPECT_EQ(second->measured_at, first->measured_at);
  EXPECT_FALSE(second->measured_at.empty());
  // Nothing else is left behind.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
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
  nlohmann::json lacking = nlohmann::json::parse(good);
  lacking["costs"].erase("wake_ns");
  nlohmann::json negative = nlohmann::json::parse(good);
  negative["costs"]["wake_ns"] = -1;
  for (const std::string& text :
       {std::string(), good.substr(0, good.size() / 2), std::string("[]"), std::string("{}"),
        std::string(R"({"costs": 3, "fingerprint": 4})"), std::string(1000, '\0'), lacking.dump(),
        negative.dump(), std::string(R"({"costs": {}, "fingerprint": {}})")}) {
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

TEST_F(CalibrationTest, AFolderThatCannotBeWrittenIsNoError) {
  Write("a file, and no folder");
  EXPECT_TRUE(Get(path() + "/below").ok());
  EXPECT_TRUE(Get("").ok());
  EXPECT_EQ(measured_, 2);
}

TEST_F(CalibrationTest, FailsOnlyWhereMeasuringDoes) {
  const Result<Calibration> failed =
      LoadOrMeasure(folder_, host_, [] { return Result<HostCosts>(SystemError("no threads")); });
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
