#include "cli/container/engine_place.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/run/private_daemon.h"

namespace harmonaize {
namespace {

namespace fs = std::filesystem;

/// The home of a user with two contexts of docker: "far", which is in use, and "near".
class EnginePlace : public testing::Test {
 protected:
  void SetUp() override {
    Result<TemporaryFolder> folder = TemporaryFolder::Make();
    ASSERT_TRUE(folder.ok()) << folder.status().message();
    folder_ = std::move(*folder);
    environment_.Set("HOME", folder_.path());
    AddContext("far", "ssh://user@far");
    AddContext("near", "unix:///near.sock");
    std::ofstream(folder_.path() + "/.docker/contexts/meta/odd") << "no folder";
  }

  void AddContext(const std::string& name, const std::string& host) {
    const std::string place = folder_.path() + "/.docker/contexts/meta/digest-of-" + name;
    fs::create_directories(place);
    std::ofstream(place + "/meta.json")
        << R"({"Name":")" << name << R"(","Endpoints":{"docker":{"Host":")" << host << R"("}}})";
  }
  void UseContext(const std::string& name) {
    std::ofstream(folder_.path() + "/.docker/config.json")
        << R"({"currentContext":")" << name << "\"}";
  }

  Status Check(std::vector<std::string> words) const {
    words.insert(words.end(), {"run", "image"});
    const Result<ContainerCommand> command = ReadContainerCommand(std::move(words));
    return command.ok() ? CheckEngineIsHere(*command, environment_) : command.status();
  }

  TemporaryFolder folder_;
  Environment environment_;
};

TEST_F(EnginePlace, IsHereUnlessSomethingSaysOtherwise) {
  for (const char* program : {"docker", "podman", "nerdctl", "apptainer"}) {
    EXPECT_TRUE(Check({program}).ok()) << program;
  }
}

TEST_F(EnginePlace, IsWhereDockerWouldLookForIt) {
  UseContext("far");
  const Status far = Check({"docker"});
  EXPECT_EQ(far.code(), Code::kInvalidUsage);
  EXPECT_NE(far.message().find("the context far, at ssh://user@far"), std::string::npos)
      << far.message();
  EXPECT_TRUE(Check({"docker", "--context", "near"}).ok());
  EXPECT_TRUE(Check({"docker", "-c", "default"}).ok());
  EXPECT_TRUE(Check({"docker", "--host", "unix:///x"}).ok());
  // Docker complains itself.
  EXPECT_TRUE(Check({"docker", "-c", "missing"}).ok());
  EXPECT_FALSE(Check({"docker", "-H", "tcp://far:2376"}).ok());
  environment_.Set("DOCKER_CONTEXT", "near");
  EXPECT_TRUE(Check({"docker"}).ok());
  environment_.Set("DOCKER_HOST", "tcp://far:2376");
  EXPECT_FALSE(Check({"docker"}).ok());
  EXPECT_TRUE(Check({"docker", "--context=near"}).ok());
  environment_.Set("DOCKER_HOST", "unix:///run/user/1000/docker.sock");
  EXPECT_TRUE(Check({"docker"}).ok());
}

TEST_F(EnginePlace, IsReadFromTheFolderThatDockerReads) {
  environment_.Set("DOCKER_CONFIG", folder_.path() + "/.docker");
  environment_.Set("HOME", "/nonexistent");
  UseContext("far");
  EXPECT_FALSE(Check({"docker"}).ok());
  EXPECT_TRUE(Check({"docker", "--config", "/nonexistent"}).ok());
  std::ofstream(folder_.path() + "/.docker/config.json") << "{ no JSON";
  EXPECT_TRUE(Check({"docker"}).ok());
}

TEST_F(EnginePlace, IsWherePodmanWouldLookForIt) {
  EXPECT_FALSE(Check({"podman", "--url", "ssh://far/run/podman.sock"}).ok());
  EXPECT_TRUE(Check({"podman", "--url", "unix:///run/podman/podman.sock"}).ok());
  EXPECT_FALSE(Check({"podman", "--connection", "far"}).ok());
  EXPECT_FALSE(Check({"podman", "--remote"}).ok());
  EXPECT_TRUE(Check({"podman", "--remote=false"}).ok());
  environment_.Set("CONTAINER_HOST", "tcp://far:1");
  EXPECT_FALSE(Check({"podman"}).ok());
  environment_.Set("CONTAINER_HOST", "unix:///x");
  EXPECT_TRUE(Check({"podman", "--remote"}).ok());
  environment_.Unset("CONTAINER_HOST");
  environment_.Set("CONTAINER_CONNECTION", "far");
  const Status status = Check({"podman"});
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_NE(status.message().find("the connection far"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace harmonaize
