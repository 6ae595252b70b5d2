#include "src/ipc/http_client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

namespace harmonaize {
namespace {

std::vector<std::string> DataOf(ServerSentEvents* events) {
  std::vector<std::string> data;
  while (const std::optional<ServerSentEvent> event = events->Take()) data.push_back(event->data);
  return data;
}

TEST(ServerSentEvents, AreTakenApartWhereverTheirBytesAreSplit) {
  const std::string stream =
      ": a comment\n\nid: 1\nevent: x\ndata: first\ndata:second\r\n\r\ndata\n\nunknown: y\n\n";
  for (size_t size = 1; size <= stream.size(); ++size) {
    ServerSentEvents events;
    std::vector<ServerSentEvent> taken;
    for (size_t begin = 0; begin < stream.size(); begin += size) {
      ASSERT_TRUE(events.Add(std::string_view(stream).substr(begin, size)).ok());
      while (std::optional<ServerSentEvent> event = events.Take()) {
        taken.push_back(std::move(*event));
      }
    }
    ASSERT_EQ(taken.size(), 2u) << size;
    EXPECT_EQ(taken[0].id, "1");
    EXPECT_EQ(taken[0].event, "x");
    EXPECT_EQ(taken[0].data, "first\nsecond");
    EXPECT_EQ(taken[1].data, "");
  }
}

TEST(ServerSentEvents, AreRefusedWhenTheyAreTooLong) {
  ServerSentEvents lines;
  Status status = Status::Ok();
  for (int i = 0; i < 1'000'000 && status.ok(); ++i) status = lines.Add("data: 0123456789\n");
  EXPECT_EQ(status.code(), Code::kRemoteError);
  ServerSentEvents line;
  status = Status::Ok();
  for (int i = 0; i < 1'000'000 && status.ok(); ++i) status = line.Add("data: 0123456789");
  EXPECT_EQ(status.code(), Code::kRemoteError);
  EXPECT_TRUE(DataOf(&line).empty());
}

TEST(HttpClient, EncodesWhatAUrlDoesNotHold) {
  EXPECT_EQ(EncodeForUrl("aZ0-._~"), "aZ0-._~");
  EXPECT_EQ(EncodeForUrl(std::string("a/b?c&d=e%\n\0\xff", 13)), "a%2Fb%3Fc%26d%3De%25%0A%00%FF");
}

TEST(HttpClient, FindsTheSentenceOfAProblem) {
  EXPECT_EQ(ProblemIn({.status = 400, .body = R"({"detail": "say \u001b[31mwhat"})"}),
            "say \xef\xbf\xbd[31mwhat");
  for (const char* body : {"", "[]", "{}", R"({"detail": 7})", "{"}) {
    EXPECT_EQ(ProblemIn({.status = 502, .body = body}), "the daemon answered with status 502");
  }
}

/// Opens a stream at a daemon that answers so, and returns what comes of it.
Status OpenStream(const std::string& answer) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const FileDescriptor daemon(ends[1]);
  EXPECT_EQ(send(daemon.get(), answer.data(), answer.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(answer.size()));
  return HttpEventStream::Open(FileDescriptor(ends[0]), {.target = "/"}, 10'000).status();
}

TEST(HttpEventStream, TellsARefusalFromADaemonThatIsBusy) {
  const auto refusal = [](const std::string& status) {
    return OpenStream("HTTP/1.1 " + status +
                      " X\r\nContent-Length: 16\r\n\r\n{\"detail\":\"why\"}");
  };
  for (const char* refused : {"400", "403", "404"}) {
    EXPECT_EQ(refusal(refused).code(), Code::kInvalidArgument) << refused;
    EXPECT_EQ(refusal(refused).message(), "why");
  }
  for (const char* busy : {"429", "500", "503"}) {
    EXPECT_EQ(refusal(busy).code(), Code::kUnavailable) << busy;
    EXPECT_EQ(refusal(busy).message(), "why");
  }
  EXPECT_TRUE(OpenStream("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").ok());
  EXPECT_EQ(OpenStream("nonsense\r\n\r\n").code(), Code::kRemoteError);
}

}  // namespace
}  // namespace harmonaize
