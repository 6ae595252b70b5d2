#pragma once

#include <functional>
#include <memory>
#include <semaphore>
#include <utility>

#include "daemon/engine.h"
#include "src/base/log.h"
#include "src/memory/fault_guard.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {

/// A daemon's engine with its own thread and one worker, without the server in front of it. It
/// serves all inputs of a fuzzer, one after the other.
class EngineRunner {
 public:
  explicit EngineRunner(const daemon::Config& config) {
    SetLog(LogLevel::kError, kLogAll, [](LogLevel, LogSubsystem, std::string_view) {});
    RequireOk(FaultGuard::Install(), "guards of memory");
    daemon::Calibration calibration;
    for (const HostCostField& field : kHostCostFields) calibration.costs.*field.value = 1000;
    calibration.fingerprint.processors = 2;
    Result<std::unique_ptr<daemon::Engine>> engine = daemon::Engine::Create(
        config, std::move(calibration), [](const std::function<void()>& chore) { chore(); });
    RequireOk(engine.status(), "an engine");
    engine_ = std::move(*engine);
    engine_->Start();
  }

  /// Runs `call` on the engine's thread, and waits for its end.
  void Do(const std::function<void(daemon::Engine&)>& call) {
    std::binary_semaphore done(0);
    engine_->Post([&] {
      call(*engine_);
      done.release();
    });
    done.acquire();
  }

 private:
  std::unique_ptr<daemon::Engine> engine_;
};

}  // namespace harmonaize::fuzz
