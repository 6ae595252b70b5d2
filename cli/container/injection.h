#pragma once

#include <string>
#include <vector>

#include "cli/container/container_command.h"
#include "cli/container/injected.h"
#include "cli/run/environment.h"
#include "cli/run/rank_program.h"
#include "src/base/status.h"

namespace harmonaize {

struct InjectionOptions {
  std::string library;                   ///< The host's, to preload; "": none.
  std::string writer;                    ///< The host's harmonaize-writer; "": none.
  std::string socket;                    ///< The daemon's, absolute.
  std::vector<std::string> assignments;  ///< "NAME=value", the user's own.
  bool ranks_meet = false;               ///< There are several, which meet at MASTER_ADDR.
  Environment of_launcher;               ///< In which the container runtime would start.
};

/// Hands the host's client library, its daemon's socket and a rank's variables into the container
/// that the rank runs in. A value type. Thread: one.
class Injection {
 public:
  Injection(ContainerCommand command, InjectionOptions options);

  /// Returns what starts in place of a rank, `of_rank` being its environment with the host's paths.
  /// The container's id goes to `id_file`, unless that is "". Errors: kInvalidUsage for a path that
  /// the runtime's command line cannot express, or an LD_PRELOAD that would be lost, or a file for
  /// a container that runs already.
  Result<RankProgram> ProgramOf(const Environment& of_rank, const std::string& id_file) const;

  /// Returns a sentence on the network that several ranks have in their containers, where it is not
  /// what the command says, or keeps them apart; "" for none.
  std::string NetworkNote() const;

 private:
  void MountLibrary(Injected& injected) const;
  void MountWriter(Injected& injected) const;
  void MountSocket(Injected& injected) const;
  void MountHttpSocket(const std::string& socket, Injected& injected) const;
  Status MountFile(const char* name, const char* target, Injected& injected) const;
  std::string Mount(const std::string& source, const std::string& target, Injected& injected) const;

  ContainerCommand command_;
  InjectionOptions options_;
};

}  // namespace harmonaize
