#include "daemon/api/api.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "daemon/api/event_stream.h"
#include "daemon/api/json_body.h"
#include "daemon/api/openapi.h"
#include "src/base/json_text.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

TEST(OpenApi, ListsTheRoutesThatThereAre) {
  std::set<std::string> served;
  for (const HttpRoute& route : Api::Routes({}, {}, {})) {
    served.insert(route.method + " " + route.pattern);
  }
  std::set<std::string> documented;
  const json document = ReadJson(kOpenApi);
  std::set<std::string> ids;
  for (const auto& [path, methods] : document.at("paths").items()) {
    for (const auto& [method, operation] : methods.items()) {
      std::string name = method;
      std::transform(name.begin(), name.end(), name.begin(), ::toupper);
      documented.insert(name + " " + path);
      EXPECT_TRUE(ids.insert(operation.at("operationId")).second) << path;
      EXPECT_FALSE(operation.at("summary").get<std::string>().empty()) << path;
      // Each parameter of the path is described.
      std::set<std::string> described;
      for (const json& parameter : operation.value("parameters", json::array())) {
        if (parameter.at("in") == "path")
          described.insert("{" + parameter.at("name").get<std::string>() + "}");
      }
      size_t parameters = 0;
      for (const std::string& name_of : described) {
        EXPECT_NE(path.find(name_of), std::string::npos) << path << name_of;
      }
      parameters = static_cast<size_t>(std::count(path.begin(), path.end(), '{'));
      EXPECT_EQ(described.size(), parameters) << path;
    }
  }
  EXPECT_EQ(documented, served);
}

TEST(EventRoutes, AnswerThatLogsMayBeReadLater) {
  const HttpResponse full = EventsProblem(SystemError("the disk is full"));
  EXPECT_EQ(full.status, 503);
  EXPECT_NE(full.body.find("the disk is full"), std::string::npos) << full.body;
  EXPECT_EQ(EventsProblem(InvalidArgument("no such event")).status, 400);
  EXPECT_EQ(EventsProblem(InternalError("a fault of the daemon")).status, 500);
}

TEST(OpenApi, RefersOnlyToWhatItHas) {
  const std::string text = kOpenApi;
  const json document = ReadJson(text);
  for (size_t at = text.find("\"#/"); at != std::string::npos; at = text.find("\"#/", at + 1)) {
    const std::string pointer = text.substr(at + 2, text.find('"', at + 1) - at - 2);
    EXPECT_TRUE(document.contains(json::json_pointer(pointer))) << pointer;
  }
}

constexpr std::string_view kFields[] = {"name", "size", "on", "at"};

TEST(JsonBody, ReadsWhatIsThere) {
  JsonBody body(R"({"name": "a b", "size": 2.5, "on": true, "at": "2026-11-26T08:30:00.25Z"})",
                kFields);
  EXPECT_EQ(body.Text("name", 10), "a b");
  EXPECT_EQ(body.Number("size", 0, 3), 2.5);
  EXPECT_EQ(body.YesNo("on"), true);
  EXPECT_EQ(body.Time("at"), 1'795'681'800'250'000'000);
  EXPECT_TRUE(body.status().ok()) << body.status().message();
}

TEST(JsonBody, SaysWhatIsWrong) {
  const auto error = [](const std::string& text) {
    JsonBody body(text, kFields);
    static_cast<void>(body.Text("name", 4));
    static_cast<void>(body.Number("size", 0, 3));
    static_cast<void>(body.YesNo("on"));
    static_cast<void>(body.Time("at"));
    body.Need("name", "what it is called");
    return body.status().message();
  };
  EXPECT_EQ(error(R"({"name": "a"})"), "");
  EXPECT_EQ(error("[1]"), "the body is no JSON object");
  EXPECT_EQ(error(R"({"name": "a")"), "the body is no JSON object");
  EXPECT_EQ(error(R"({"nam": "a"})"), "there is no field 'nam', did you mean 'name'?");
  EXPECT_EQ(error("{}"), "'name' is missing: what it is called");
  EXPECT_EQ(error(R"({"name": 5})"), "'name' is a text");
  EXPECT_EQ(error(R"({"name": "a\nb"})"), "'name' is a text of one line and at most 4 bytes");
  EXPECT_EQ(error(R"({"name": "abcde"})"), "'name' is a text of one line and at most 4 bytes");
  EXPECT_EQ(error(R"({"name": "a", "size": 4})"), "'size' is a number from 0 to 3");
  EXPECT_EQ(error(R"({"name": "a", "size": "1"})"), "'size' is a number from 0 to 3");
  EXPECT_EQ(error(R"({"name": "a", "on": 1})"), "'on' is true or false");
  for (const char* const at : {"2026-11-26", "2026-11-26T08:30:00", "2026-11-26T08:30:00+01:00",
                               "2026-11-26T08:30:00.Zx", "tomorrow"}) {
    EXPECT_NE(error(R"({"name": "a", "at": ")" + std::string(at) + R"("})").find("in UTC"),
              std::string::npos)
        << at;
  }
  std::string deep = R"({"name": )";
  for (int i = 0; i < 100'000; ++i) deep += '[';
  EXPECT_EQ(error(deep), "the body is nested too deeply");
}

}  // namespace
}  // namespace harmonaize::daemon
