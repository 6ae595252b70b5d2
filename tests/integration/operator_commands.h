// What tests of operators' commands against real daemons share. HARMONAIZE_SOCKET names the daemon.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "tests/integration/command_line.h"

namespace harmonaize::testing {

using nlohmann::json;

inline Ended Ask(std::vector<std::string> words) {
  return RunCommand(std::move(words), getenv("HARMONAIZE_SOCKET"));
}

/// Runs a command that has to succeed, and returns what it printed.
inline std::string Output(std::vector<std::string> words) {
  const Ended ended = Ask(std::move(words));
  EXPECT_EQ(ended.status, 0) << ended.error;
  return ended.output;
}

inline json Document(std::vector<std::string> words) {
  words.push_back("--json");
  return ReadJson(Output(std::move(words)));
}

/// Announces maintenance, and returns its id.
inline std::string Announce(std::vector<std::string> words) {
  words.insert(words.begin(), {"maintenance", "announce"});
  std::string id = Output(std::move(words));
  if (!id.empty()) id.pop_back();
  return id;
}

inline json Announced(const std::string& id) {
  const json list = Document({"maintenance", "list"});
  for (const json& one : list.at("announced")) {
    if (one.at("id") == id) return one;
  }
  return nullptr;
}

inline json PromiseOf(const std::string& id) {
  const json list = Document({"promises"});
  for (const json& one : list.at("promises")) {
    if (one.at("id") == id) return one;
  }
  return nullptr;
}

/// Waits until this daemon has told an event of this type, and returns the last of them.
inline json LastEvent(const std::string& type) {
  for (int i = 0; i < 400; ++i) {
    const std::string events = Output({"events", "--json", "--types", type});
    if (!events.empty()) {
      const size_t line = events.rfind('\n', events.size() - 2);
      return ReadJson(events.substr(line == std::string::npos ? 0 : line + 1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ADD_FAILURE() << "no event " << type;
  return nullptr;
}

/// Has two ranks of a job with a communicator run `body`.
inline bool WithRanks(const std::string& job, const std::function<void(ncclComm_t, int)>& body) {
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    setenv("HARMONAIZE_JOB", job.c_str(), 1);
    ncclComm_t communicator;
    if (JoinNamed("pair", 2, rank, &communicator) != ncclSuccess) return 2;
    EXPECT_EQ(CountRanks(communicator), 2);
    body(communicator, rank);
    EXPECT_EQ(CountRanks(communicator), 2);
    EXPECT_NCCL(ncclCommDestroy(communicator));
    return 0;
  });
  return statuses == std::vector<int>{0, 0};
}

}  // namespace harmonaize::testing
