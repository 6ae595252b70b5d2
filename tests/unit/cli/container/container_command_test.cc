#include "cli/container/container_command.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <sstream>

namespace harmonaize {
namespace {

std::vector<std::string> Words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

struct LineCase {
  std::string line;
  std::string verb;
  std::string inserted_before;  ///< The word before which options of docker's kind go.
  std::string program;          ///< The image, or the program.
};

TEST(ContainerCommand, IsTakenApart) {
  const LineCase cases[] = {
      {"docker run --rm image a --rm", "run", "--rm", "image"},
      {"docker container run -it image", "run", "-it", "image"},
      {"/usr/bin/docker --context x -D run --gpus all image", "run", "--gpus", "image"},
      {"docker -H unix:///x exec -it -e A=1 name sh", "exec", "-it", "name"},
      {"podman --root /a --runtime runc run --rootfs /root sh", "run", "--rootfs", "/root"},
      {"podman exec -l sh", "exec", "-l", "sh"},
      {"docker run -l label image", "run", "-l", "image"},
      {"nerdctl -n k8s.io run --network host image", "run", "--network", "image"},
      {"apptainer exec --nv -B /a:/b image.sif sh", "exec", "--nv", "image.sif"},
      {"apptainer -d run --nv image.sif", "run", "--nv", "image.sif"},
      {"singularity shell -e image.sif", "shell", "-e", "image.sif"},
      {"bwrap --unshare-all --share-net --ro-bind / / --setenv A B --args 3 sh -c x", "",
       "--unshare-all", "sh"},
      {"bwrap --tmpfs / -- sh", "", "--tmpfs", "--"},
      {"bwrap --overlay a b c --uid 3 sh", "", "--overlay", "sh"},
  };
  for (const LineCase& one : cases) {
    const Result<ContainerCommand> command = ReadContainerCommand(Words(one.line));
    ASSERT_TRUE(command.ok()) << one.line << ": " << command.status().message();
    EXPECT_EQ(command->verb, one.verb) << one.line;
    EXPECT_EQ(command->words.at(command->verb_end), one.inserted_before) << one.line;
    EXPECT_EQ(command->words.at(command->options_end), one.program) << one.line;
  }
}

TEST(ContainerCommand, TellsWhetherItOutlivesItsContainer) {
  for (const char* line : {"docker run image", "docker run --detach=false image", "docker exec a b",
                           "docker run image -d", "apptainer run a", "bwrap --tmpfs / a"}) {
    EXPECT_FALSE(ReadContainerCommand(Words(line))->LeavesContainer()) << line;
  }
  for (const char* line : {"docker run -d image", "docker run -itd image", "podman run --detach a",
                           "docker run --detach=true image", "docker create image",
                           "docker exec -d a b", "apptainer instance start a b"}) {
    EXPECT_TRUE(ReadContainerCommand(Words(line))->LeavesContainer()) << line;
  }
}

TEST(ContainerCommand, RefusesWhatStartsNoContainer) {
  const Status unknown = ReadContainerCommand({"srun", "docker", "run", "image"}).status();
  EXPECT_EQ(unknown.code(), Code::kInvalidUsage);
  EXPECT_NE(unknown.message().find("'srun' is no container runtime"), std::string::npos);
  for (const char* runtime : {"docker", "podman", "nerdctl", "apptainer", "singularity", "bwrap"}) {
    EXPECT_NE(unknown.message().find(runtime), std::string::npos) << runtime;
  }
  EXPECT_NE(unknown.message().find("docs/containers.md"), std::string::npos);
  for (const char* line :
       {"docker", "docker ps", "docker compose run x", "podman container ls", "apptainer build x",
        "apptainer instance list", "docker --context run"}) {
    const Status status = ReadContainerCommand(Words(line)).status();
    EXPECT_EQ(status.code(), Code::kInvalidUsage) << line;
    EXPECT_NE(status.message().find("it knows"), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace harmonaize
