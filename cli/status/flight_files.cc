#include "cli/status/flight_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/daemon_http.h"
#include "cli/json_view.h"
#include "cli/status/flight_recorder.h"
#include "cli/status/pickle.h"
#include "cli/status/ras_document.h"
#include "cli/text_table.h"
#include "src/base/wall_clock.h"
#include "src/ipc/http_client.h"

namespace harmonaize {
namespace {

Result<std::vector<Json>> FetchFlights(const std::string& socket) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindHttp(socket));
  HZ_ASSIGN_OR_RETURN(const Json jobs, GetDocument(daemon, "/v1/jobs"));
  std::vector<Json> flights;
  for (const Json& job : ListAt(jobs, "jobs")) {
    const Json& id = At(job, "id");
    if (!id.is_string() || ListAt(job, "communicators").empty()) continue;
    Result<Json> flight =
        GetDocument(daemon, "/v1/jobs/" + EncodeForUrl(id.get<std::string>()) + "/flight");
    // The job may have gone meanwhile.
    if (flight.status().code() == Code::kInvalidUsage) continue;
    if (!flight.ok()) return flight.status();
    flights.push_back(std::move(*flight));
  }
  return flights;
}

/// Returns whether a text is a communicator's id, and nothing that leads to another folder.
bool IsId(const std::string& text) {
  constexpr size_t kMostDigits = 32;
  return !text.empty() && text.size() <= kMostDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Status WriteFile(const std::filesystem::path& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  if (!file) return SystemError("cannot write {}", path.string());
  return Status::Ok();
}

/// Writes the files of one communicator. Returns the number of ranks.
Result<size_t> WriteRanks(const Json& communicator, const std::filesystem::path& folder,
                          bool as_json) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return SystemError("cannot make the folder {}: {}", folder.string(), error.message());
  size_t written = 0;
  for (const Json& rank : ListAt(communicator, "ranks")) {
    const nlohmann::ordered_json dump = FlightRecorderDump(communicator, rank);
    const std::string name = fmt::format("nccl_trace_rank_{}", CountAt(rank, "rank"));
    const auto replace = nlohmann::ordered_json::error_handler_t::replace;
    HZ_RETURN_IF_ERROR(as_json
                           ? WriteFile(folder / (name + ".json"), dump.dump(1, ' ', false, replace))
                           : WriteFile(folder / name, Pickle(dump)));
    ++written;
  }
  return written;
}

}  // namespace

Result<std::string> WriteFlightFiles(const std::string& socket, const std::string& folder,
                                     bool as_json) {
  HZ_ASSIGN_OR_RETURN(const std::vector<Json> flights, FetchFlights(socket));
  TextTable table({"communicator", "name", "folder", "ranks here", "of"}, 3);
  for (const Json& flight : flights) {
    for (const Json& communicator : ListAt(flight, "communicators")) {
      const std::string id = TextAt(communicator, "id");
      if (!IsId(id)) continue;
      const std::filesystem::path own = std::filesystem::path(folder) / id;
      HZ_ASSIGN_OR_RETURN(const size_t written, WriteRanks(communicator, own, as_json));
      const std::string name = TextAt(communicator, "name");
      table.Add({id, name.empty() ? kMissing : name, own.string(), std::to_string(written),
                 TextAt(communicator, "size")});
      if (At(communicator, "whole") == false) table.AddNote("more is in flight than is written");
    }
  }
  if (table.empty()) return std::string("no communicators\n");
  std::string text;
  table.Print(&text);
  return text;
}

Result<std::string> FetchRas(const std::string& socket) {
  const auto start = std::chrono::steady_clock::now();
  HZ_ASSIGN_OR_RETURN(const std::vector<Json> flights, FetchFlights(socket));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return RasDocument(flights, UnixSeconds(), took.count());
}

}  // namespace harmonaize
