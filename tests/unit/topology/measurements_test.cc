#include "src/topology/inference/measurements.h"

#include <gtest/gtest.h>

#include "src/base/clean_text.h"
#include "src/topology/fabric/fabric_file.h"

namespace harmonaize {
namespace {

constexpr char kGood[] = R"({
  "hosts": [{"name": "a", "nics": [{"device": "nic0", "address": "10.0.0.1"}]},
            {"name": "b", "nics": [{"device": "nic0", "address": "10.0.0.2"},
                                   {"device": "nic1", "address": "10.0.0.3"}]}],
  "round_trips": [{"from": "a:nic0", "to": "b:nic1", "reachable": true, "seconds": [2e-5, 3e-5]},
                  {"from": "a:nic0", "to": "b:nic0", "reachable": false, "seconds": []}],
  "concurrent": [[{"from": "b:nic1", "to": "a:nic0", "connections": 4, "bytes_per_second": 3e7}]]
})";

TEST(Measurements, ReadAndWriteTheSame) {
  const Result<Measurements> read = ParseMeasurements(kGood, "m.json");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->hosts[1].nics[1].device, "nic1");
  EXPECT_EQ(read->round_trips[0].to, (Endpoint{1, 1}));
  EXPECT_EQ(read->round_trips[0].seconds, (std::vector<double>{2e-5, 3e-5}));
  EXPECT_FALSE(read->round_trips[1].reachable);
  EXPECT_EQ(read->concurrent[0][0].connections, 4);
  const std::string text = FormatMeasurements(*read);
  const Result<Measurements> again = ParseMeasurements(text, "again");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(FormatMeasurements(*again), text);
}

/// The error for the good document with one piece replaced.
std::string ErrorWith(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  const Result<Measurements> read = ParseMeasurements(text.replace(at, from.size(), to), "m.json");
  return read.ok() ? "no error" : read.status().message();
}

TEST(Measurements, ErrorsSayWhere) {
  const auto begins = [](const std::string& text, const std::string& start) {
    EXPECT_TRUE(text.starts_with("m.json: " + start)) << text;
  };
  begins(ErrorWith("{", ""), "not JSON");
  begins(ErrorWith("\"hosts\"", "\"host\""), "host: this key is not known");
  begins(ErrorWith("\"name\": \"b\"", "\"name\": \"a\""), "hosts[1].name: two hosts");
  begins(ErrorWith("\"name\": \"b\"", "\"name\": 7"), "hosts[1].name: a text");
  begins(ErrorWith("b:nic1", "b:nic7"), "round_trips[0].to: 'b:nic7'");
  begins(ErrorWith("b:nic1", "a:nic0"), "round_trips[0]: both ends");
  begins(ErrorWith("2e-5", "-1"), "round_trips[0].seconds: -1");
  begins(ErrorWith("2e-5", "\"x\""), "round_trips[0].seconds[0]: a number");
  begins(ErrorWith("[2e-5, 3e-5]", "[]"), "round_trips[0].seconds: what is reachable");
  begins(ErrorWith("\"connections\": 4", "\"connections\": 0.5"), "concurrent[0][0].connections");
  begins(ErrorWith("3e7", "-3e7"), "concurrent[0][0].bytes_per_second");
  begins(ErrorWith("\"connections\": 4,", ""), "concurrent[0][0].connections: this key is needed");
}

// Measurements may be another host's, and their errors reach logs and terminals.
TEST(Measurements, WhatTheyQuoteIsClean) {
  for (const char* instead : {"\"ho\\u001b[2Jsts\"", "\"ho\xff\"", "\"\x1b\"", "\xff"}) {
    const std::string error = ErrorWith("\"hosts\"", instead);
    EXPECT_TRUE(error.starts_with("m.json: ")) << error;
    EXPECT_EQ(error, CleanText(error, error.size()));
  }
  const std::string error = ErrorWith("b:nic1", "b:\\u009bnic1");
  EXPECT_TRUE(error.starts_with("m.json: round_trips[0].to: ")) << error;
  EXPECT_EQ(error, CleanText(error, error.size()));
}

TEST(FabricWriter, WritesWhatReadsAsTheSameFabric) {
  for (const char* name : {"one-rack", "two-racks", "three-racks-unequal", "ring", "rails"}) {
    Result<FabricFile> file = LoadFabricFile(std::string(FABRICS_FOLDER "/") + name + ".toml");
    ASSERT_TRUE(file.ok());
    file->laboratory.mtu = 1500;
    file->fabric.links[0].bytes_per_second[1] *= 1.5;
    file->fabric.links[0].latency_seconds = 2e-6;
    const std::string text = FormatFabricFile(*file);
    const Result<FabricFile> again = ParseFabricFile(text, "again.toml");
    ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << text;
    EXPECT_EQ(FormatFabricFile(*again), text);
    ASSERT_EQ(again->fabric.links.size(), file->fabric.links.size());
    for (size_t i = 0; i < file->fabric.links.size(); ++i) {
      const Link& before = file->fabric.links[i];
      const Link& after = again->fabric.links[i];
      EXPECT_EQ(after.name, before.name);
      EXPECT_EQ(after.bytes_per_second, before.bytes_per_second);
      EXPECT_EQ(after.ends[0].node, before.ends[0].node);
      EXPECT_EQ(after.ends[1].node, before.ends[1].node);
    }
    EXPECT_EQ(again->fabric.racks, file->fabric.racks);
    EXPECT_EQ(again->fabric.preferences.size(), file->fabric.preferences.size());
    EXPECT_EQ(again->laboratory.mtu, 1500);
    for (const Endpoint& endpoint : file->fabric.Endpoints()) {
      EXPECT_EQ(again->fabric.NicAt(endpoint).address, file->fabric.NicAt(endpoint).address);
      EXPECT_EQ(again->fabric.NicAt(endpoint).paths.size(),
                file->fabric.NicAt(endpoint).paths.size());
    }
  }
}

}  // namespace
}  // namespace harmonaize
