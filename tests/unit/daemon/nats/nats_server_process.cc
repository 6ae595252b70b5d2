#include "tests/unit/daemon/nats/nats_server_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"

namespace harmonaize::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

/// Found by the PATH, which for tests has build/servers/bin.
constexpr char kProgram[] = "nats-server";
/// Longest wait for a server or a message, in milliseconds; far longer than either takes.
constexpr int kPatienceMs = 30'000;

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

/// Returns the port in the file that the server writes once it listens; 0: not yet.
uint16_t PortIn(const std::string& folder, pid_t pid) {
  const auto document = ReadJson(TextOf(fmt::format("{}/nats-server_{}.ports", folder, pid)));
  if (document.is_discarded() || !document.contains("nats")) return 0;
  const std::string url = document.at("nats").at(0);
  return static_cast<uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
}

KeptMessage KeptIn(natsMsg* message) {
  KeptMessage kept;
  kept.subject = natsMsg_GetSubject(message);
  const char* value = nullptr;
  if (natsMsgHeader_Get(message, "Nats-Msg-Id", &value) == NATS_OK) kept.id = value;
  if (natsMsgHeader_Get(message, "content-type", &value) == NATS_OK) kept.content_type = value;
  kept.content.assign(natsMsg_GetData(message),
                      static_cast<size_t>(natsMsg_GetDataLength(message)));
  return kept;
}

}  // namespace

std::string NatsServerProcess::WhyNot() {
  const char* const path = getenv("PATH");
  for (std::string_view left = path == nullptr ? "" : path; !left.empty();) {
    const std::string_view folder = left.substr(0, left.find(':'));
    left.remove_prefix(std::min(folder.size() + 1, left.size()));
    if (access(fmt::format("{}/{}", folder, kProgram).c_str(), X_OK) == 0) return "";
  }
  return fmt::format("there is no {} on the PATH; scripts/test-servers.sh brings it", kProgram);
}

std::string NatsServerProcess::MakeFolder() {
  std::string folder = (fs::temp_directory_path() / "harmonaize-nats-XXXXXX").string();
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  return folder;
}

NatsServerProcess::NatsServerProcess(const std::string& config)
    : config_(config), folder_(MakeFolder()) {
  Start(-1);
}

NatsServerProcess::~NatsServerProcess() {
  Kill();
  fs::remove_all(folder_);
}

void NatsServerProcess::Start(int port) {
  const std::string config_path = folder_ + "/server.conf";
  std::ofstream(config_path) << fmt::format(
      "host: \"127.0.0.1\"\nport: {}\nports_file_dir: \"{}\"\n{}", port, folder_,
      Replaced(config_, "FOLDER", folder_));
  const std::string log_path = folder_ + "/server.log";
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    const int log = open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(log, 1);
    dup2(log, 2);
    execlp(kProgram, kProgram, "-c", config_path.c_str(), nullptr);
    _exit(127);
  }
  port_ = 0;
  for (int i = 0; i < kPatienceMs / 10 && port_ == 0; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
    if (waitpid(pid_, nullptr, WNOHANG) != 0) {
      pid_ = -1;
      break;
    }
    port_ = PortIn(folder_, pid_);
  }
  EXPECT_NE(port_, 0) << TextOf(log_path);
}

void NatsServerProcess::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::string NatsServerProcess::url(const std::string& scheme, const std::string& host) const {
  return fmt::format("{}://{}:{}", scheme, host, port_);
}

NatsClient::NatsClient(const std::string& url) : NatsClient(url, User{}) {}

NatsClient::NatsClient(const std::string& url, const User& user) {
  natsOptions* options = nullptr;
  EXPECT_EQ(natsOptions_Create(&options), NATS_OK);
  EXPECT_EQ(natsOptions_SetURL(options, url.c_str()), NATS_OK);
  // What a user may not do is what some tests look for.
  EXPECT_EQ(natsOptions_SetErrorHandler(
                options, [](natsConnection*, natsSubscription*, natsStatus, void*) {}, nullptr),
            NATS_OK);
  if (!user.name.empty()) {
    EXPECT_EQ(natsOptions_SetUserInfo(options, user.name.c_str(), user.password.c_str()), NATS_OK);
  }
  if (!user.ca_file.empty()) {
    EXPECT_EQ(natsOptions_SetSecure(options, true), NATS_OK);
    EXPECT_EQ(natsOptions_LoadCATrustedCertificates(options, user.ca_file.c_str()), NATS_OK);
  }
  if (natsConnection_Connect(&connection_, options) != NATS_OK) connection_ = nullptr;
  natsOptions_Destroy(options);
  if (connection_ != nullptr) {
    EXPECT_EQ(natsConnection_JetStream(&context_, connection_, nullptr), NATS_OK);
  }
}

NatsClient::~NatsClient() {
  for (natsSubscription* const one : subscriptions_) natsSubscription_Destroy(one);
  jsCtx_Destroy(context_);
  natsConnection_Destroy(connection_);
}

std::optional<uint64_t> NatsClient::Messages(const std::string& stream) {
  jsStreamInfo* info = nullptr;
  if (js_GetStreamInfo(&info, context_, stream.c_str(), nullptr, nullptr) != NATS_OK) {
    return std::nullopt;
  }
  const uint64_t messages = info->State.Msgs;
  jsStreamInfo_Destroy(info);
  return messages;
}

bool NatsClient::WaitForMessages(const std::string& stream, uint64_t messages) {
  for (int i = 0; i < kPatienceMs / 10; ++i) {
    if (Messages(stream).value_or(0) >= messages) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

std::vector<KeptMessage> NatsClient::Read(const std::string& stream) {
  std::vector<KeptMessage> all;
  const uint64_t messages = Messages(stream).value_or(0);
  for (uint64_t sequence = 1; all.size() < messages; ++sequence) {
    natsMsg* message = nullptr;
    if (js_GetMsg(&message, context_, stream.c_str(), sequence, nullptr, nullptr) != NATS_OK) {
      ADD_FAILURE() << "message " << sequence << " cannot be read";
      break;
    }
    all.push_back(KeptIn(message));
    natsMsg_Destroy(message);
  }
  return all;
}

natsStatus NatsClient::AddConsumer(const std::string& stream, const std::string& name,
                                   const std::string& filter) {
  jsConsumerConfig config;
  jsConsumerConfig_Init(&config);
  config.Durable = name.c_str();
  config.FilterSubject = filter.c_str();
  config.AckPolicy = js_AckExplicit;
  jsConsumerInfo* info = nullptr;
  const natsStatus status =
      js_AddConsumer(&info, context_, stream.c_str(), &config, nullptr, nullptr);
  jsConsumerInfo_Destroy(info);
  return status;
}

natsSubscription* NatsClient::Subscribe(const std::string& subject) {
  natsSubscription* subscription = nullptr;
  EXPECT_EQ(natsConnection_SubscribeSync(&subscription, connection_, subject.c_str()), NATS_OK);
  EXPECT_EQ(natsConnection_FlushTimeout(connection_, kPatienceMs), NATS_OK);
  subscriptions_.push_back(subscription);
  return subscription;
}

std::vector<std::string> NatsClient::Received(natsSubscription* subscription, int silence_ms) {
  std::vector<std::string> subjects;
  natsMsg* message = nullptr;
  while (natsSubscription_NextMsg(&message, subscription, silence_ms) == NATS_OK) {
    subjects.emplace_back(natsMsg_GetSubject(message));
    natsMsg_Destroy(message);
  }
  return subjects;
}

void NatsClient::Publish(const std::string& subject, const std::string& content) {
  EXPECT_EQ(natsConnection_PublishString(connection_, subject.c_str(), content.c_str()), NATS_OK);
  EXPECT_EQ(natsConnection_FlushTimeout(connection_, kPatienceMs), NATS_OK);
}

std::optional<std::string> NatsClient::Ask(const std::string& subject, const std::string& content) {
  natsMsg* answer = nullptr;
  if (natsConnection_RequestString(&answer, connection_, subject.c_str(), content.c_str(), 500) !=
      NATS_OK) {
    return std::nullopt;
  }
  std::string text(natsMsg_GetData(answer), static_cast<size_t>(natsMsg_GetDataLength(answer)));
  natsMsg_Destroy(answer);
  return text;
}

std::vector<KeptMessage> NatsClient::Pull(const std::string& stream, const std::string& consumer,
                                          int most) {
  natsInbox* inbox = nullptr;
  EXPECT_EQ(natsInbox_Create(&inbox), NATS_OK);
  natsSubscription* const subscription = Subscribe(inbox);
  const std::string subject = "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer;
  const std::string request = fmt::format(R"({{"batch":{},"expires":1000000000}})", most);
  EXPECT_EQ(
      natsConnection_PublishRequestString(connection_, subject.c_str(), inbox, request.c_str()),
      NATS_OK);
  natsInbox_Destroy(inbox);
  std::vector<KeptMessage> pulled;
  natsMsg* message = nullptr;
  while (static_cast<int>(pulled.size()) < most &&
         natsSubscription_NextMsg(&message, subscription, 1500) == NATS_OK) {
    // What is no message of the stream, such as the end of the wait, has no place to acknowledge.
    const char* const reply = natsMsg_GetReply(message);
    if (reply != nullptr && natsMsg_GetDataLength(message) > 0) {
      pulled.push_back(KeptIn(message));
      Publish(reply, "+ACK");
    }
    natsMsg_Destroy(message);
  }
  return pulled;
}

}  // namespace harmonaize::testing
