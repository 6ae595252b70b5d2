#include "src/topology/inference/measurements.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "src/base/clean_text.h"
#include "src/base/json_text.h"

namespace harmonaize {
namespace {

using Json = nlohmann::json;

/// Most connections of a transfer in a document.
constexpr int kMostConnections = 1024;
/// Longest round trip in a document, in seconds.
constexpr double kLongestRoundTrip = 60;
/// Highest rate in a document, in bytes per second.
constexpr double kHighestRate = 1e15;
/// Most bytes of a text about a mistake: it quotes a document, perhaps another host's.
constexpr size_t kMostProblem = 1024;

/// Reads a document strictly. The first mistake is kept; everything read after it is worthless.
class MeasurementsReader {
 public:
  Result<Measurements> Read(const Json& document) {
    CheckKeys(document, "", {"hosts", "round_trips", "concurrent"});
    ForEach(document, "", "hosts", [this](const Json& host, const std::string& at) {
      CheckKeys(host, at, {"name", "nics"});
      ProbedHost& read = measurements_.hosts.emplace_back();
      read.name = Text(host, at, "name");
      ForEach(host, at, "nics", [&](const Json& nic, const std::string& nic_at) {
        CheckKeys(nic, nic_at, {"device", "address"});
        read.nics.push_back({Text(nic, nic_at, "device"), Text(nic, nic_at, "address")});
      });
    });
    // The hosts are validated before anything names them.
    if (status_.ok()) status_ = ValidateMeasurements(measurements_);
    ForEach(document, "", "round_trips",
            [this](const Json& one, const std::string& at) { ReadRoundTrip(one, at); });
    ForEach(document, "", "concurrent", [this](const Json& set, const std::string& at) {
      measurements_.concurrent.emplace_back();
      ForEachOf(set, at,
                [this](const Json& one, const std::string& one_at) { ReadTransfer(one, one_at); });
    });
    if (!status_.ok()) return status_;
    HZ_RETURN_IF_ERROR(ValidateMeasurements(measurements_));
    return std::move(measurements_);
  }

 private:
  void Wrong(const std::string& at, const std::string& what) {
    if (status_.ok()) status_ = InvalidArgument("{}: {}", at.empty() ? "document" : at, what);
  }

  static std::string Join(const std::string& at, const std::string& key) {
    return at.empty() ? key : at + "." + key;
  }

  void CheckKeys(const Json& object, const std::string& at,
                 std::initializer_list<const char*> known) {
    if (!object.is_object()) return Wrong(at, "an object is needed here");
    for (const auto& item : object.items()) {
      if (std::find(known.begin(), known.end(), item.key()) == known.end()) {
        Wrong(Join(at, item.key()), "this key is not known");
      }
    }
  }

  /// Returns the value of a key that is needed, or null.
  const Json& At(const Json& object, const std::string& at, const std::string& key) {
    static const Json nothing;
    if (object.is_object() && object.contains(key)) return object[key];
    Wrong(Join(at, key), "this key is needed");
    return nothing;
  }

  template <typename Each>
  void ForEach(const Json& object, const std::string& at, const std::string& key, Each each) {
    ForEachOf(At(object, at, key), Join(at, key), each);
  }
  template <typename Each>
  void ForEachOf(const Json& list, const std::string& at, Each each) {
    if (!list.is_array()) return Wrong(at, "a list is needed here");
    for (size_t i = 0; i < list.size() && status_.ok(); ++i) {
      each(list[i], fmt::format("{}[{}]", at, i));
    }
  }

  std::string Text(const Json& object, const std::string& at, const std::string& key) {
    const Json& value = At(object, at, key);
    if (value.is_string()) return value.get<std::string>();
    Wrong(Join(at, key), "a text is needed here");
    return "";
  }

  double Number(const Json& value, const std::string& at) {
    if (value.is_number()) return value.get<double>();
    Wrong(at, "a number is needed here");
    return 0;
  }

  Endpoint End(const Json& object, const std::string& at, const std::string& key) {
    const std::string text = Text(object, at, key);
    const std::vector<ProbedHost>& hosts = measurements_.hosts;
    for (size_t host = 0; host < hosts.size(); ++host) {
      for (size_t nic = 0; nic < hosts[host].nics.size(); ++nic) {
        const Endpoint endpoint{static_cast<int>(host), static_cast<int>(nic)};
        if (text == measurements_.EndpointName(endpoint)) return endpoint;
      }
    }
    Wrong(Join(at, key), fmt::format("'{}' is no NIC of the hosts; write \"HOST:DEVICE\"", text));
    return {};
  }

  void ReadRoundTrip(const Json& one, const std::string& at) {
    CheckKeys(one, at, {"from", "to", "reachable", "seconds"});
    RoundTrip trip{.from = End(one, at, "from"), .to = End(one, at, "to"), .seconds = {}};
    const Json& reachable = At(one, at, "reachable");
    if (!reachable.is_boolean()) return Wrong(Join(at, "reachable"), "true or false is needed");
    trip.reachable = reachable.get<bool>();
    ForEach(one, at, "seconds", [&](const Json& value, const std::string& value_at) {
      trip.seconds.push_back(Number(value, value_at));
    });
    measurements_.round_trips.push_back(std::move(trip));
  }

  void ReadTransfer(const Json& one, const std::string& at) {
    CheckKeys(one, at, {"from", "to", "connections", "bytes_per_second"});
    MeasuredTransfer transfer{.from = End(one, at, "from"), .to = End(one, at, "to")};
    const double connections = Number(At(one, at, "connections"), Join(at, "connections"));
    if (!(connections >= 1 && connections <= kMostConnections) ||
        connections != std::floor(connections)) {
      return Wrong(Join(at, "connections"), fmt::format("1 to {} are possible", kMostConnections));
    }
    transfer.connections = static_cast<int>(connections);
    transfer.bytes_per_second =
        Number(At(one, at, "bytes_per_second"), Join(at, "bytes_per_second"));
    measurements_.concurrent.back().push_back(transfer);
  }

  Measurements measurements_;
  Status status_;
};

Status CheckEnds(const Measurements& measurements, Endpoint from, Endpoint to,
                 const std::string& at) {
  for (const Endpoint& end : {from, to}) {
    const bool host = end.host >= 0 && static_cast<size_t>(end.host) < measurements.hosts.size();
    if (!host || end.nic < 0 ||
        static_cast<size_t>(end.nic) >=
            measurements.hosts[static_cast<size_t>(end.host)].nics.size()) {
      return InvalidArgument("{}: there is no NIC {} of host {}", at, end.nic, end.host);
    }
  }
  if (from.host != to.host) return Status::Ok();
  return InvalidArgument("{}: both ends are of host '{}'", at,
                         measurements.hosts[static_cast<size_t>(from.host)].name);
}

Status CheckHosts(const Measurements& measurements) {
  std::set<std::string> names;
  for (size_t i = 0; i < measurements.hosts.size(); ++i) {
    const ProbedHost& host = measurements.hosts[i];
    if (!IsFabricName(host.name)) {
      return InvalidArgument(
          "hosts[{}].name: '{}' cannot name a host: a name has up to 32 letters, digits, '_' "
          "and '-'",
          i, host.name);
    }
    if (!names.insert(host.name).second) {
      return InvalidArgument("hosts[{}].name: two hosts are named '{}'", i, host.name);
    }
    if (host.nics.empty()) return InvalidArgument("hosts[{}].nics: a host needs a NIC", i);
    std::set<std::string> devices;
    for (const ProbedNic& nic : host.nics) {
      if (!devices.insert(nic.device).second) {
        return InvalidArgument("hosts[{}].nics: two are named '{}'", i, nic.device);
      }
    }
  }
  return Status::Ok();
}

}  // namespace

std::string Measurements::EndpointName(Endpoint endpoint) const {
  const ProbedHost& host = hosts[static_cast<size_t>(endpoint.host)];
  return fmt::format("{}:{}", host.name, host.nics[static_cast<size_t>(endpoint.nic)].device);
}

Status ValidateMeasurements(const Measurements& measurements) {
  HZ_RETURN_IF_ERROR(CheckHosts(measurements));
  for (size_t i = 0; i < measurements.round_trips.size(); ++i) {
    const RoundTrip& trip = measurements.round_trips[i];
    const std::string at = fmt::format("round_trips[{}]", i);
    HZ_RETURN_IF_ERROR(CheckEnds(measurements, trip.from, trip.to, at));
    if (trip.reachable == trip.seconds.empty()) {
      return InvalidArgument(
          "{}.seconds: {}", at,
          trip.reachable ? "what is reachable needs samples" : "what is not reachable has none");
    }
    for (const double seconds : trip.seconds) {
      if (seconds > 0 && seconds <= kLongestRoundTrip) continue;  // a NaN is wrong, too
      return InvalidArgument("{}.seconds: {} is no round trip (above 0, {} at most)", at, seconds,
                             kLongestRoundTrip);
    }
  }
  for (size_t i = 0; i < measurements.concurrent.size(); ++i) {
    for (size_t j = 0; j < measurements.concurrent[i].size(); ++j) {
      const MeasuredTransfer& transfer = measurements.concurrent[i][j];
      const std::string at = fmt::format("concurrent[{}][{}]", i, j);
      HZ_RETURN_IF_ERROR(CheckEnds(measurements, transfer.from, transfer.to, at));
      if (transfer.bytes_per_second >= 0 && transfer.bytes_per_second <= kHighestRate) continue;
      return InvalidArgument("{}.bytes_per_second: {} is no rate", at, transfer.bytes_per_second);
    }
  }
  return Status::Ok();
}

std::string FormatMeasurements(const Measurements& measurements) {
  Json hosts = Json::array();
  for (const ProbedHost& host : measurements.hosts) {
    Json nics = Json::array();
    for (const ProbedNic& nic : host.nics) {
      nics.push_back({{"device", nic.device}, {"address", nic.address}});
    }
    hosts.push_back({{"name", host.name}, {"nics", std::move(nics)}});
  }
  Json trips = Json::array();
  for (const RoundTrip& trip : measurements.round_trips) {
    trips.push_back({{"from", measurements.EndpointName(trip.from)},
                     {"to", measurements.EndpointName(trip.to)},
                     {"reachable", trip.reachable},
                     {"seconds", trip.seconds}});
  }
  Json sets = Json::array();
  for (const ConcurrentTransfers& set : measurements.concurrent) {
    Json transfers = Json::array();
    for (const MeasuredTransfer& transfer : set) {
      transfers.push_back({{"from", measurements.EndpointName(transfer.from)},
                           {"to", measurements.EndpointName(transfer.to)},
                           {"connections", transfer.connections},
                           {"bytes_per_second", transfer.bytes_per_second}});
    }
    sets.push_back(std::move(transfers));
  }
  return JsonText(Json({{"hosts", std::move(hosts)},
                        {"round_trips", std::move(trips)},
                        {"concurrent", std::move(sets)}}),
                  1) +
         "\n";
}

Result<Measurements> ParseMeasurements(std::string_view text, const std::string& name) {
  Json document;
  try {
    document = Json::parse(text);
  } catch (const Json::exception& error) {
    return InvalidArgument("{}: not JSON: {}", name, CleanText(error.what(), kMostProblem));
  }
  Result<Measurements> measurements = MeasurementsReader().Read(document);
  if (measurements.ok()) return measurements;
  return InvalidArgument("{}: {}", name, CleanText(measurements.status().message(), kMostProblem));
}

}  // namespace harmonaize
