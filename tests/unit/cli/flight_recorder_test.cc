// What is written for the tools of PyTorch and NCCL.

#include "cli/status/flight_recorder.h"

#include <gtest/gtest.h>

#include <string>

#include "cli/status/pickle.h"
#include "cli/status/ras_document.h"
#include "src/base/json_text.h"

namespace harmonaize {
namespace {

using nlohmann::ordered_json;

constexpr char kFlight[] = R"({"id": "3f9a01c2d4e5f60718293a4b5c6d7e8f", "name": "llama",
  "communicators": [{"id": "a1b2c3d4", "name": "tp0", "size": 3, "state": "ready", "begun": 7,
    "inline_operations": 0, "left": [], "whole": true,
    "stuck": {"roots": [{"rank": 2, "communicator": "tp0", "class": "dead"}]},
    "ranks": [
      {"rank": 0, "posted": 9, "ended": 6, "counts": {"AllReduce": 7, "AllGather": 2, "Send": 1},
       "process": 4711, "operations": [
        {"name": "AllReduce #6", "collective": "AllReduce", "sequence": 6, "count": 8,
         "type": "float32", "state": "started", "posted_unix_ns": 1000, "ready_unix_ns": 2000},
        {"name": "AllGather #7", "collective": "AllGather", "sequence": 7, "count": 4,
         "type": "int64", "state": "scheduled", "posted_unix_ns": 3000},
        {"name": "Send 0 -> 1", "collective": "Send", "peer": 1, "count": 5,
         "type": "bfloat16", "state": "scheduled", "posted_unix_ns": 4000}]},
      {"rank": 1, "posted": 7, "ended": 7, "counts": {}, "operations": []}]}]})";

const Json& FirstCommunicator() {
  static const Json flight = ReadJson(kFlight);
  return flight.at("communicators").at(0);
}

TEST(FlightRecorder, HasWhatARankHasInFlight) {
  const Json& communicator = FirstCommunicator();
  const ordered_json dump = FlightRecorderDump(communicator, communicator.at("ranks").at(0));
  EXPECT_EQ(dump.at("version"), "2.10");
  EXPECT_EQ(dump.at("pg_config").at("a1b2c3d4"),
            ordered_json({{"name", "a1b2c3d4"}, {"desc", "tp0"}, {"ranks", "[0, 1, 2]"}}));
  EXPECT_EQ(dump.at("pg_status").at("0"), ordered_json({{"last_enqueued_collective", 9},
                                                        {"last_started_collective", 7},
                                                        {"last_completed_collective", 6}}));
  const ordered_json& entries = dump.at("entries");
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].at("profiling_name"), "nccl:all_reduce");
  EXPECT_EQ(entries[0].at("process_group"), ordered_json::array({"a1b2c3d4", "tp0"}));
  EXPECT_EQ(entries[0].at("collective_seq_id"), 7) << "PyTorch counts from 1";
  EXPECT_EQ(entries[0].at("state"), "started");
  EXPECT_EQ(entries[0].at("time_created_ns"), 1000);
  EXPECT_EQ(entries[0].at("time_discovered_started_ns"), 2000);
  EXPECT_EQ(entries[0].at("input_sizes"), ordered_json::parse("[[8]]"));
  EXPECT_EQ(entries[0].at("input_dtypes"), ordered_json::array({"Float"}));
  EXPECT_EQ(entries[1].at("profiling_name"), "nccl:_all_gather_base");
  EXPECT_EQ(entries[1].at("input_sizes"), ordered_json::parse("[[4]]"));
  EXPECT_EQ(entries[1].at("output_sizes"), ordered_json::parse("[[12]]"));
  EXPECT_EQ(entries[1].at("time_discovered_started_ns"), nullptr);
  EXPECT_EQ(entries[2].at("profiling_name"), "nccl:send 0->1");
  EXPECT_EQ(entries[2].at("p2p_seq_id"), 10) << "no number of a collective";
  EXPECT_EQ(entries[2].at("collective_seq_id"), 0);
  EXPECT_EQ(entries[2].at("is_p2p"), true);
}

TEST(FlightRecorder, SurvivesWhatItDoesNotKnow) {
  for (const char* const odd : {"{}", "[]", R"({"size": -5, "ranks": 7, "id": []})"}) {
    const Json communicator = ReadJson(odd);
    const Json rank = ReadJson(R"({"operations": [1, {"collective": "x", "count": -1}]})");
    EXPECT_EQ(FlightRecorderDump(communicator, rank).at("entries").size(), 2u);
  }
}

TEST(Pickle, IsWhatPythonReads) {
  EXPECT_EQ(Pickle(ordered_json::parse(R"({"a": [null, true, "é"]})")),
            std::string("\x80\x02}(X\x01\0\0\0a](N\x88X\x02\0\0\0\xc3\xa9"
                        "eu.",
                        24));
  EXPECT_EQ(Pickle(-2), std::string("\x80\x02\x8a\x09\xfe\xff\xff\xff\xff\xff\xff\xff\xff.", 14));
  EXPECT_EQ(Pickle(UINT64_MAX),
            std::string("\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0.", 14));
  EXPECT_EQ(Pickle(1.5), std::string("\x80\x02G\x3f\xf8\0\0\0\0\0\0.", 12));
}

TEST(Ras, HasTheFormOfNccl) {
  const Json document = ReadJson(RasDocument({ReadJson(kFlight)}, 0, 0.25));
  EXPECT_EQ(document.at("communicators_count"), 1);
  EXPECT_EQ(document.at("ras").at("collection_time_sec"), 0.25);
  const Json& communicator = document.at("communicators").at(0);
  EXPECT_EQ(communicator.at("hash"), "0xa1b2c3d4");
  EXPECT_EQ(communicator.at("ranks_count"), 2);
  const Json& first = communicator.at("ranks").at(0);
  EXPECT_EQ(first.at("pid"), 4711);
  EXPECT_EQ(first.at("collective_counts").at("AllReduce"), 7);
  EXPECT_EQ(first.at("collective_counts").at("Broadcast"), 0);
  EXPECT_EQ(first.at("status").at("async_error"), 0);
  EXPECT_EQ(communicator.at("ranks").at(1).at("pid"), -1);
  ASSERT_EQ(communicator.at("missing_ranks_count"), 1);
  const Json& missing = communicator.at("missing_ranks").at(0);
  EXPECT_EQ(missing.at("rank"), 2);
  EXPECT_EQ(missing.at("status"), Json({{"unresponsive", false}, {"considered_dead", true}}));
}

TEST(Ras, SurvivesWhatItDoesNotKnow) {
  for (const char* const odd : {"{}", "[]", R"({"communicators": [1, {"size": "x"}]})"}) {
    EXPECT_TRUE(ReadJson(RasDocument({ReadJson(odd)}, -1e300, -1)).contains("ras"));
  }
}

}  // namespace
}  // namespace harmonaize
