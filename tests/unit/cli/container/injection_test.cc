#include "cli/container/injection.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>

#include "cli/run/private_daemon.h"
#include "src/base/file_descriptor.h"

namespace harmonaize {
namespace {

namespace fs = std::filesystem;

constexpr char kPreloadInside[] = "/opt/harmonaize/lib/libharmonaize-preload.so";

/// A host with a library and two daemons' sockets: one in a folder of its own, one beside other
/// files.
class InjectionTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<TemporaryFolder> folder = TemporaryFolder::Make();
    ASSERT_TRUE(folder.ok()) << folder.status().message();
    folder_ = std::move(*folder);
    fs::create_directory(Path("harmonaize-1"));
    fs::create_directory(Path("shared"));
    for (const char* file :
         {"lib.so", "harmonaize-1/d.sock.lock", "shared/notes", "job.toml", "ticket"}) {
      std::ofstream(Path(file)) << file;
    }
    MakeSocket(Path("harmonaize-1/d.sock"));
    MakeSocket(Path("shared/other.sock"));
    options_.library = Path("lib.so");
    options_.socket = Path("harmonaize-1/d.sock");
    options_.of_launcher.Set("PATH", "/bin");
  }

  static void MakeSocket(const std::string& path) {
    const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    ASSERT_LT(path.size(), sizeof address.sun_path);
    path.copy(address.sun_path, path.size());
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }

  std::string Path(const std::string& name) const {
    return fs::canonical(folder_.path()).string() + "/" + name;
  }

  Environment RankOf(int rank = 0, const std::string& requirements = "") const {
    RankVariables variables;
    variables.rank = rank;
    variables.world_size = 4;
    variables.master_port = 5;
    variables.requirements = requirements;
    variables.socket = options_.socket;
    variables.assignments = options_.assignments;
    return RankEnvironment(options_.of_launcher, variables);
  }

  Result<RankProgram> Inject(std::vector<std::string> words, const Environment& of_rank,
                             const std::string& id_file = "") const {
    Result<ContainerCommand> command = ReadContainerCommand(std::move(words));
    if (!command.ok()) return command.status();
    return Injection(std::move(command).value(), options_).ProgramOf(of_rank, id_file);
  }

  /// Returns the words with the folder's name as "~", in one line.
  std::string Line(const Result<RankProgram>& program) const {
    if (!program.ok()) return program.status().message();
    std::string line = fmt::format("{}", fmt::join(program->arguments, " "));
    const std::string folder = fs::canonical(folder_.path()).string();
    for (size_t at; (at = line.find(folder)) != std::string::npos;) {
      line.replace(at, folder.size(), "~");
    }
    return line;
  }
  std::string InjectedLine(std::vector<std::string> words) const {
    return Line(Inject(std::move(words), RankOf()));
  }

  TemporaryFolder folder_;
  InjectionOptions options_;
};

constexpr char kExpectedMounts[] =
    "--mount type=bind,src=~/lib.so,dst=/opt/harmonaize/lib/libharmonaize-preload.so,readonly "
    "--mount type=bind,src=~/harmonaize-1,dst=/run/harmonaize,readonly ";
constexpr char kNamedVariables[] =
    "--env RANK --env LOCAL_RANK --env WORLD_SIZE --env LOCAL_WORLD_SIZE --env MASTER_ADDR "
    "--env MASTER_PORT --env HARMONAIZE_SOCKET ";
constexpr char kExpectedPreload[] = "--env LD_PRELOAD=/opt/harmonaize/lib/libharmonaize-preload.so";

TEST_F(InjectionTest, GoesBeforeTheUsersOwnOptionsOfDocker) {
  for (const char* program : {"docker", "podman", "nerdctl", "/usr/bin/docker"}) {
    const Result<RankProgram> injected = Inject(
        {program, "run", "--rm", "-e", "A=1", "image", "python3", "-e", "LD_PRELOAD=x"}, RankOf(3));
    EXPECT_EQ(Line(injected),
              fmt::format("{} run {}{}{} --rm -e A=1 image python3 -e LD_PRELOAD=x", program,
                          kExpectedMounts, kNamedVariables, kExpectedPreload));
    const Environment& environment = injected->environment;
    EXPECT_EQ(environment.Get("RANK"), "3");
    EXPECT_EQ(environment.Get("WORLD_SIZE"), "4");
    EXPECT_EQ(environment.Get("MASTER_PORT"), "5");
    EXPECT_EQ(environment.Get("HARMONAIZE_SOCKET"), "/run/harmonaize/d.sock");
    // The client itself is not to load the library.
    EXPECT_FALSE(environment.Has("LD_PRELOAD"));
    EXPECT_EQ(environment.Get("PATH"), "/bin");
  }
}

TEST_F(InjectionTest, NamesVariablesOfTheUserWithTheirValues) {
  // In the client's own environment they could steer it.
  options_.assignments = {"DOCKER_HOST=tcp://x", "MASTER_ADDR=rank0", "EMPTY="};
  const Result<RankProgram> injected = Inject({"docker", "run", "image"}, RankOf());
  EXPECT_NE(Line(injected).find("--env DOCKER_HOST=tcp://x --env MASTER_ADDR=rank0 --env EMPTY= "),
            std::string::npos)
      << Line(injected);
  EXPECT_EQ(Line(injected).find("--env MASTER_ADDR "), std::string::npos);
  EXPECT_FALSE(injected->environment.Has("DOCKER_HOST"));
}

TEST_F(InjectionTest, KeepsAnLdPreload) {
  const std::string ours = kPreloadInside;
  struct PreloadCase {
    std::vector<std::string> given;
    std::string expected;
  };
  options_.of_launcher.Set("LD_PRELOAD", "/host.so");
  const PreloadCase cases[] = {
      {{"-e", "LD_PRELOAD=/a.so"}, "-e LD_PRELOAD=" + ours + ":/a.so"},
      {{"--env", "LD_PRELOAD=/a.so:/b.so"}, "--env LD_PRELOAD=" + ours + ":/a.so:/b.so"},
      {{"--env=LD_PRELOAD=/a.so"}, "--env=LD_PRELOAD=" + ours + ":/a.so"},
      {{"-eLD_PRELOAD=/a.so"}, "-eLD_PRELOAD=" + ours + ":/a.so"},
      {{"-ite", "LD_PRELOAD=/a.so"}, "-ite LD_PRELOAD=" + ours + ":/a.so"},
      {{"-e", "LD_PRELOAD="}, "-e LD_PRELOAD=" + ours},
      {{"-e", "LD_PRELOAD"}, "-e LD_PRELOAD=" + ours + ":/host.so"},
      {{"-e", "OLD_PRELOAD=/a.so"}, "-e OLD_PRELOAD=/a.so"},
      {{"--label", "LD_PRELOAD=/a.so"}, "--label LD_PRELOAD=/a.so"},
  };
  for (const PreloadCase& one : cases) {
    std::vector<std::string> words = {"docker", "run"};
    words.insert(words.end(), one.given.begin(), one.given.end());
    words.emplace_back("image");
    const std::string line = InjectedLine(words);
    EXPECT_TRUE(line.ends_with(fmt::format("{} {} image", kExpectedPreload, one.expected))) << line;
  }
  options_.assignments = {"LD_PRELOAD=/a.so"};
  EXPECT_TRUE(InjectedLine({"docker", "run", "image"})
                  .ends_with(fmt::format("{}:/a.so image", kExpectedPreload)));
}

TEST_F(InjectionTest, RefusesAFileThatSetsLdPreload) {
  std::ofstream(Path("variables")) << "A=1\nLD_PRELOAD=/a.so\n";
  std::ofstream(Path("harmless")) << "A=LD_PRELOAD=/a.so\n#LD_PRELOAD=b\n";
  for (const char* program : {"docker", "apptainer"}) {
    const auto with = [&](const char* file) {
      return Inject({program, "run", "--env-file", Path(file), "image"}, RankOf()).status();
    };
    EXPECT_EQ(with("variables").code(), Code::kInvalidUsage);
    EXPECT_NE(with("variables").message().find("--env LD_PRELOAD="), std::string::npos);
    EXPECT_TRUE(with("harmless").ok()) << with("harmless").message();
    EXPECT_TRUE(with("missing").ok()) << with("missing").message();
  }
}

TEST_F(InjectionTest, LeavesTheUsersOwnMountsInTheirPlaces) {
  const std::string volume = "/elsewhere:/run/harmonaize:ro";
  const std::string mount = "type=bind,source=/elsewhere,target=/run/harmonaize";
  for (const auto& own : std::vector<std::vector<std::string>>{
           {"-v", volume}, {"--volume=" + volume}, {"--mount", mount}}) {
    std::vector<std::string> words = {"docker", "run"};
    words.insert(words.end(), own.begin(), own.end());
    words.emplace_back("image");
    const std::string line = InjectedLine(words);
    EXPECT_EQ(line.find("dst=/run/harmonaize,"), std::string::npos) << line;
    EXPECT_NE(line.find("dst=/opt/harmonaize/lib/"), std::string::npos) << line;
  }
  const std::string other = InjectedLine({"docker", "run", "-v", "/run:/run", "image"});
  EXPECT_NE(other.find("dst=/run/harmonaize,"), std::string::npos) << other;
}

TEST_F(InjectionTest, MountsASocketAloneWhereItsFolderHasOtherThings) {
  options_.socket = Path("shared/other.sock");
  const Result<RankProgram> injected = Inject({"docker", "run", "image"}, RankOf());
  EXPECT_NE(Line(injected).find("src=~/shared/other.sock,dst=/run/harmonaize/other.sock,readonly"),
            std::string::npos)
      << Line(injected);
  EXPECT_EQ(injected->environment.Get("HARMONAIZE_SOCKET"), "/run/harmonaize/other.sock");
}

// A name says nothing of what is in a folder of the user's own.
TEST_F(InjectionTest, MountsASocketAloneBesideAUsersOwnFiles) {
  std::ofstream(Path("harmonaize-1/secret")) << "secret";
  const std::string line = InjectedLine({"docker", "run", "image"});
  EXPECT_NE(line.find("src=~/harmonaize-1/d.sock,dst=/run/harmonaize/d.sock,readonly"),
            std::string::npos)
      << line;
  EXPECT_EQ(line.find("src=~/harmonaize-1,"), std::string::npos) << line;
}

TEST_F(InjectionTest, MountsTheHttpSocketWithOneThatIsMountedAlone) {
  MakeSocket(Path("shared/harmonaized.sock"));
  MakeSocket(Path("shared/http.sock"));
  options_.socket = Path("shared/harmonaized.sock");
  const std::string line = InjectedLine({"docker", "run", "image"});
  EXPECT_NE(line.find("src=~/shared/http.sock,dst=/run/harmonaize/http.sock,readonly"),
            std::string::npos)
      << line;
}

TEST_F(InjectionTest, BringsTheWriterWithTheLibrary) {
  std::ofstream(Path("writer")) << "";
  options_.writer = Path("writer");
  const std::string mount = "src=~/writer,dst=/opt/harmonaize/bin/harmonaize-writer,readonly";
  const Result<RankProgram> injected = Inject({"docker", "run", "image"}, RankOf());
  EXPECT_NE(Line(injected).find(mount), std::string::npos) << Line(injected);
  EXPECT_NE(Line(injected).find("--env HARMONAIZE_WRITER "), std::string::npos) << Line(injected);
  EXPECT_EQ(injected->environment.Get("HARMONAIZE_WRITER"),
            "/opt/harmonaize/bin/harmonaize-writer");
  const auto lacks_writer = [](const std::string& line) {
    return line.find("writer") == std::string::npos && line.find("WRITER ") == std::string::npos;
  };
  // A container that runs already can be given no file.
  EXPECT_TRUE(lacks_writer(InjectedLine({"docker", "exec", "name", "python3"})));
  options_.assignments = {"HARMONAIZE_WRITER=/own"};
  EXPECT_TRUE(lacks_writer(InjectedLine({"docker", "run", "image"})));
  options_.assignments.clear();
  options_.library.clear();
  EXPECT_TRUE(lacks_writer(InjectedLine({"docker", "run", "image"})));
}

TEST_F(InjectionTest, BringsTheWriterThatTheEnvironmentNames) {
  std::ofstream(Path("writer")) << "";
  std::ofstream(Path("another")) << "";
  options_.writer = Path("writer");
  options_.of_launcher.Set("HARMONAIZE_WRITER", Path("another"));
  const std::string line = InjectedLine({"bwrap", "--dev", "/dev", "true"});
  EXPECT_NE(line.find("--ro-bind ~/another /opt/harmonaize/bin/harmonaize-writer"),
            std::string::npos)
      << line;
}

TEST_F(InjectionTest, FollowsLinksSinceTheContainerDoesNotHaveThem) {
  fs::create_symlink(Path("harmonaize-1/d.sock"), Path("link"));
  options_.socket = Path("link");
  EXPECT_NE(InjectedLine({"docker", "run", "image"}).find("src=~/harmonaize-1,dst=/run/harmonaize"),
            std::string::npos);
}

TEST_F(InjectionTest, MountsFilesThatVariablesName) {
  Environment of_rank = RankOf(0, Path("job.toml"));
  of_rank = NewcomerEnvironment(of_rank, {.local_rank = 2, .ticket_file = Path("ticket")});
  const Result<RankProgram> injected = Inject({"docker", "run", "image"}, of_rank);
  EXPECT_NE(Line(injected).find("src=~/job.toml,dst=/run/harmonaize-job/requirements.toml,"),
            std::string::npos)
      << Line(injected);
  EXPECT_NE(Line(injected).find("src=~/ticket,dst=/run/harmonaize-job/ticket,readonly"),
            std::string::npos);
  EXPECT_EQ(Line(injected).find("--env RANK"), std::string::npos);
  const Environment& environment = injected->environment;
  EXPECT_EQ(environment.Get("HARMONAIZE_REQUIREMENTS"), "/run/harmonaize-job/requirements.toml");
  EXPECT_EQ(environment.Get("HARMONAIZE_TICKET_FILE"), "/run/harmonaize-job/ticket");
  EXPECT_EQ(environment.Get("LOCAL_RANK"), "2");
  // With a path of the user's own there is nothing to mount.
  options_.assignments = {"HARMONAIZE_REQUIREMENTS=/in/image.toml"};
  const std::string own = Line(Inject({"docker", "run", "image"}, RankOf()));
  EXPECT_NE(own.find("--env HARMONAIZE_REQUIREMENTS=/in/image.toml"), std::string::npos) << own;
  EXPECT_EQ(own.find("harmonaize-job"), std::string::npos) << own;
}

TEST_F(InjectionTest, GivesARunningContainerVariablesAlone) {
  EXPECT_EQ(InjectedLine({"docker", "exec", "-it", "name", "sh"}),
            fmt::format("docker exec {}{} -it name sh", kNamedVariables, kExpectedPreload));
  const Status status =
      Inject({"docker", "exec", "name", "sh"}, RankOf(0, Path("job.toml"))).status();
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_NE(status.message().find("--env HARMONAIZE_REQUIREMENTS=PATH"), std::string::npos);
}

TEST_F(InjectionTest, SharesANetworkWhereRanksMeet) {
  const auto note = [this](std::vector<std::string> words) {
    return Injection(*ReadContainerCommand(std::move(words)), options_).NetworkNote();
  };
  EXPECT_EQ(note({"docker", "run", "image"}), "");
  EXPECT_EQ(note({"bwrap", "--unshare-net", "sh"}), "");
  options_.ranks_meet = true;
  EXPECT_NE(note({"docker", "run", "image", "--network", "x"}).find("--network host"),
            std::string::npos);
  EXPECT_EQ(note({"docker", "run", "--network", "x", "image"}), "");
  EXPECT_EQ(note({"docker", "run", "--net=x", "image"}), "");
  EXPECT_EQ(note({"podman", "run", "--pod", "x", "image"}), "");
  EXPECT_EQ(note({"docker", "exec", "name", "sh"}), "");
  EXPECT_TRUE(InjectedLine({"docker", "run", "image"}).ends_with(" --network host image"));
  EXPECT_EQ(InjectedLine({"docker", "run", "--network", "x", "image"}).find("host"),
            std::string::npos);
  EXPECT_EQ(note({"apptainer", "run", "image"}), "");
  EXPECT_EQ(note({"apptainer", "run", "--net", "--network", "host", "image"}), "");
  EXPECT_EQ(note({"bwrap", "--tmpfs", "/", "sh"}), "");
  EXPECT_EQ(note({"bwrap", "--unshare-all", "--share-net", "sh"}), "");
  for (const auto& apart : std::vector<std::vector<std::string>>{
           {"bwrap", "--unshare-net", "sh"},
           {"bwrap", "--unshare-all", "sh"},
           {"apptainer", "run", "-n", "image"},
           {"apptainer", "run", "--net", "--network", "none", "image"}}) {
    EXPECT_NE(note(apart).find("a network of its own"), std::string::npos) << note(apart);
  }
}

TEST_F(InjectionTest, WritesTheContainersIdWhereItIsTold) {
  const std::string line = Line(Inject({"docker", "run", "image"}, RankOf(), "/ids/0"));
  EXPECT_TRUE(line.ends_with("--cidfile /ids/0 image")) << line;
}

TEST_F(InjectionTest, LeavesTheLibraryOutWhereNoneIsWanted) {
  options_.library.clear();
  const std::string line = InjectedLine({"docker", "run", "-e", "LD_PRELOAD=/a.so", "image"});
  EXPECT_EQ(line.find("/opt/harmonaize"), std::string::npos) << line;
  EXPECT_TRUE(line.ends_with("--env HARMONAIZE_SOCKET -e LD_PRELOAD=/a.so image")) << line;
}

TEST_F(InjectionTest, RefusesPathsThatOptionsCannotExpress) {
  for (const char* name : {"a,b", "a:b", "a\"b", "a'b", "a\\b", "a\nb"}) {
    fs::create_directory(Path(name));
    options_.library = Path(name) + "/lib.so";
    std::ofstream(options_.library) << "";
    for (const char* program : {"docker", "podman", "apptainer"}) {
      const Status status = Inject({program, "run", "image"}, RankOf()).status();
      EXPECT_EQ(status.code(), Code::kInvalidUsage) << name;
      EXPECT_NE(status.message().find("cannot be mounted by an option"), std::string::npos);
    }
    // Its words are not taken apart.
    EXPECT_TRUE(Inject({"bwrap", "--tmpfs", "/", "sh"}, RankOf()).ok()) << name;
  }
}

TEST_F(InjectionTest, SpeaksToApptainerThroughItsEnvironment) {
  options_.assignments = {"A=1,2"};
  options_.of_launcher.Set("LD_PRELOAD", "/host.so");
  const Result<RankProgram> injected =
      Inject({"apptainer", "-d", "exec", "--nv", "image.sif", "sh"}, RankOf(1));
  EXPECT_EQ(Line(injected),
            "apptainer -d exec "
            "--bind ~/lib.so:/opt/harmonaize/lib/libharmonaize-preload.so:ro "
            "--bind ~/harmonaize-1:/run/harmonaize:ro --nv image.sif sh");
  const Environment& environment = injected->environment;
  EXPECT_EQ(environment.Get("APPTAINERENV_RANK"), "1");
  EXPECT_EQ(environment.Get("APPTAINERENV_A"), "1,2");
  EXPECT_EQ(environment.Get("APPTAINERENV_HARMONAIZE_SOCKET"), "/run/harmonaize/d.sock");
  EXPECT_EQ(environment.Get("APPTAINERENV_LD_PRELOAD"), std::string(kPreloadInside) + ":/host.so");
  EXPECT_EQ(environment.Get("LD_PRELOAD"), "/host.so");
  EXPECT_FALSE(environment.Has("RANK"));

  const auto preload = [this](std::vector<std::string> words, const std::string& variable) {
    return Inject(std::move(words), RankOf())->environment.Get(variable);
  };
  EXPECT_EQ(preload({"apptainer", "run", "-e", "image"}, "APPTAINERENV_LD_PRELOAD"),
            kPreloadInside);
  EXPECT_EQ(preload({"singularity", "run", "--nv", "-C", "image"}, "SINGULARITYENV_LD_PRELOAD"),
            kPreloadInside);
  options_.of_launcher.Set("APPTAINERENV_LD_PRELOAD", "/own.so");
  EXPECT_EQ(preload({"apptainer", "run", "-e", "image"}, "APPTAINERENV_LD_PRELOAD"),
            std::string(kPreloadInside) + ":/own.so");
  EXPECT_TRUE(InjectedLine({"apptainer", "run", "--env", "B=1,LD_PRELOAD=/a.so", "image"})
                  .ends_with(fmt::format("--env B=1,LD_PRELOAD={}:/a.so image", kPreloadInside)));
}

TEST_F(InjectionTest, GoesBehindTheOptionsOfBubblewrap) {
  const Result<RankProgram> injected =
      Inject({"bwrap", "--ro-bind", "/usr", "/usr", "--", "/bin/sh", "-c", "true"}, RankOf(1));
  EXPECT_EQ(Line(injected),
            "bwrap --ro-bind /usr /usr "
            "--ro-bind ~/lib.so /opt/harmonaize/lib/libharmonaize-preload.so "
            "--ro-bind ~/harmonaize-1 /run/harmonaize "
            "--setenv LD_PRELOAD /opt/harmonaize/lib/libharmonaize-preload.so -- /bin/sh -c true");
  EXPECT_EQ(injected->environment.Get("RANK"), "1");
  EXPECT_EQ(injected->environment.Get("HARMONAIZE_SOCKET"), "/run/harmonaize/d.sock");
  EXPECT_FALSE(injected->environment.Has("LD_PRELOAD"));
}

TEST_F(InjectionTest, MountsNothingWhereBubblewrapShowsTheHostsPath) {
  const std::string all = InjectedLine({"bwrap", "--ro-bind", "/", "/", "sh"});
  EXPECT_EQ(all, "bwrap --ro-bind / / --setenv LD_PRELOAD ~/lib.so sh");
  const Result<RankProgram> shown = Inject({"bwrap", "--dev-bind", "/", "/", "sh"}, RankOf());
  EXPECT_EQ(shown->environment.Get("HARMONAIZE_SOCKET"), options_.socket);
  // A later mount hides it again, and one of another folder does not show it.
  for (const auto& hides : std::vector<std::vector<std::string>>{
           {"--ro-bind", "/", "/", "--tmpfs", folder_.path()},
           {"--ro-bind", "/", "/", "--ro-bind", "/usr", folder_.path() + "/"},
           {"--bind", "/usr", "/"},
           {"--ro-bind", Path("harmonaize-1"), Path("harmonaize-1") + "x"}}) {
    std::vector<std::string> words = {"bwrap"};
    words.insert(words.end(), hides.begin(), hides.end());
    words.emplace_back("sh");
    EXPECT_NE(InjectedLine(words).find("--ro-bind ~/harmonaize-1 /run/harmonaize "),
              std::string::npos)
        << InjectedLine(words);
  }
}

TEST_F(InjectionTest, KeepsWhatBubblewrapIsToldOfTheEnvironment) {
  options_.of_launcher.Set("LD_PRELOAD", "/host.so");
  const auto preload = [this](std::vector<std::string> options) {
    std::vector<std::string> words = {"bwrap", "--tmpfs", "/"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("sh");
    const std::string line = InjectedLine(words);
    const std::string_view before =
        "--setenv LD_PRELOAD /opt/harmonaize/lib/libharmonaize-preload.so";
    const size_t place = line.rfind(before);
    return place == std::string::npos ? line : line.substr(place + before.size());
  };
  EXPECT_EQ(preload({}), ":/host.so sh");
  EXPECT_EQ(preload({"--setenv", "LD_PRELOAD", "/a.so"}), ":/a.so sh");
  EXPECT_EQ(preload({"--unsetenv", "LD_PRELOAD"}), " sh");
  EXPECT_EQ(preload({"--clearenv"}), " sh");
  EXPECT_EQ(preload({"--new-session"}), ":/host.so --die-with-parent sh");
  const std::string cleared =
      Line(Inject({"bwrap", "--clearenv", "--setenv", "MASTER_ADDR", "a", "sh"}, RankOf(1)));
  EXPECT_NE(cleared.find("--setenv RANK 1 "), std::string::npos) << cleared;
  EXPECT_NE(cleared.find("--setenv HARMONAIZE_SOCKET /run/harmonaize/d.sock "), std::string::npos);
  EXPECT_EQ(cleared.find("MASTER_ADDR 127"), std::string::npos) << cleared;
}

}  // namespace
}  // namespace harmonaize
