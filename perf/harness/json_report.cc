#include "perf/harness/json_report.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <fstream>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"

namespace harmonaize::perf {
namespace {

using Json = nlohmann::ordered_json;

// Returns only variables that can change the result: an environment also holds private ones.
Json RelevantEnvironment() {
  Json environment = Json::object();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    const bool relevant = text.starts_with("NCCL_") || text.starts_with("HARMONAIZE_") ||
                          text.starts_with("OMP_") || text.starts_with("LD_PRELOAD=");
    if (relevant && equals != std::string::npos) {
      environment[text.substr(0, equals)] = text.substr(equals + 1);
    }
  }
  return environment;
}

std::string ProcessorModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t value =
        line.find_first_not_of(" \t", std::min(line.find(':'), line.size() - 1) + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

Json Machine() {
  utsname name{};
  uname(&name);
  return {{"hostname", name.nodename},
          {"kernel", name.release},
          {"architecture", name.machine},
          {"processor", ProcessorModel()},
          {"cpus", sysconf(_SC_NPROCESSORS_ONLN)},
          {"memory_bytes", sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE)}};
}

Json Config(const Options& options) {
  Json config = {{"nthreads", options.threads},
                 {"ngpus", options.ranks_per_thread},
                 {"minimum_bytes", options.min_bytes},
                 {"maximum_bytes", options.max_bytes}};
  if (options.step_factor > 1) {
    config["step_factor"] = options.step_factor;
  } else {
    config["step_bytes"] = options.step_bytes;
  }
  config["warmup_iters"] = options.warmup;
  config["iterations"] = options.iterations;
  config["aggregated_iterations"] = options.aggregated;
  config["run_cycles"] = options.cycles;
  config["validation"] = options.checks;
  config["graph"] = 0;
  config["blocking_collectives"] = options.blocking;
  config["stream_null"] = options.null_stream;
  config["parallel_init"] = options.parallel_init;
  config["report_cputime"] = options.report_cpu_time;
  config["average"] = static_cast<int>(options.average);
  config["timeout_s"] = options.timeout_s;
  config["local_register"] = static_cast<int>(options.memory);
  config["buffers"] = MemoryName(options.memory);
  return config;
}

Json MeasurementJson(const Measurement& measurement, bool cpu_time) {
  Json json = {{cpu_time ? "cpu_time" : "time", measurement.time_us},
               {"alg_bw", measurement.algbw},
               {"bus_bw", measurement.busbw},
               {"nwrong", nullptr}};
  if (measurement.checked) json["nwrong"] = measurement.wrong;
  return json;
}

Json RowJson(const Row& row, bool cpu_time) {
  return {{"size", row.bytes},
          {"count", row.count},
          {"type", row.type},
          {"redop", row.op},
          {"root", row.root},
          {"out_of_place", MeasurementJson(row.out_of_place, cpu_time)},
          {"in_place", MeasurementJson(row.in_place, cpu_time)}};
}

Json RecordJson(const RunRecord& record) {
  Json json = {{"version", 1},
               {"program", record.program},
               {"start_time", record.start_time},
               {"args", record.arguments},
               {"env", RelevantEnvironment()},
               {"machine", Machine()},
               {"harmonaize_version", record.versions.harmonaize},
               {"nccl_headers", record.versions.headers},
               {"nccl_version", record.versions.library},
               {"launcher", record.launch.source},
               {"processes", record.launch.processes},
               {"ranks", record.ranks.size()},
               {"config", Config(record.options)}};
  json["devices"] = Json::array();
  for (const RankInfo& info : record.ranks) {
    json["devices"].push_back({{"rank", info.rank},
                               {"group", 0},
                               {"pid", info.pid},
                               {"hostname", info.host},
                               {"device", info.device},
                               {"device_info", "host memory"}});
  }
  json["results"] = Json::array();
  for (const Row& row : record.rows) {
    json["results"].push_back(RowJson(row, record.options.report_cpu_time));
  }
  json["out_of_bounds"] = {{"count", record.summary.failed}, {"okay", record.summary.failed == 0}};
  json["average_bus_bandwidth"] = {{"bandwidth", record.summary.average_busbw()}};
  json["error"] = record.error.empty() ? Json(nullptr) : Json(record.error);
  json["end_time"] = record.end_time;
  return json;
}

}  // namespace

std::string Timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Status WriteJson(const RunRecord& record, const std::string& path) {
  const std::string partial = path + ".partial";
  {
    std::ofstream file(partial);
    file << JsonText(RecordJson(record), 2) << "\n";
    file.flush();
    if (!file) return ErrnoError(errno, "cannot write " + partial);
  }
  if (std::rename(partial.c_str(), path.c_str()) != 0) {
    return ErrnoError(errno, "cannot write " + path);
  }
  return Status::Ok();
}

}  // namespace harmonaize::perf
