#include "daemon/metrics/metrics_source.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/events/event_bus.h"
#include "daemon/host/host_limits.h"
#include "daemon/main/engine.h"
#include "daemon/runtime/background.h"

namespace harmonaize::daemon {
namespace {

class MetricsSourceTest : public ::testing::Test {
 protected:
  MetricsSourceTest() {
    Config config;
    config.workers = 1;
    config.measure_again = false;
    Calibration calibration;
    for (const HostCostField& field : kHostCostFields) calibration.costs.*field.value = 1000;
    calibration.fingerprint.processors = 2;
    auto accounts = std::make_shared<Accounts>(LimitsOfHost(config, CapacityOfHost()));
    Result<std::unique_ptr<Engine>> made = Engine::Create(config, std::move(calibration), accounts);
    EXPECT_TRUE(made.ok()) << made.status().message();
    engine_ = std::move(*made);
    Result<std::unique_ptr<EventBus>> bus =
        EventBus::Create({.now_seconds = [] { return int64_t{1}; }});
    bus_ = std::move(*bus);
    engine_->Start();
  }

  std::shared_ptr<MetricsSource> Source() {
    return std::make_shared<MetricsSource>(
        MetricsSource::Services{.ask =
                                    [this](std::function<void(const ReportSources&)> call) {
                                      ++asked_;
                                      if (gone_) return false;
                                      engine_->loop().Post([this, call = std::move(call)] {
                                        call(engine_->report_sources());
                                      });
                                      return true;
                                    },
                                .bus = bus_.get(),
                                .work = &work_});
  }

  static MetricsSource::Snapshot Wait(MetricsSource& source) {
    auto answer = std::make_shared<std::promise<MetricsSource::Snapshot>>();
    source.Get([answer](const MetricsSource::Snapshot& snapshot) { answer->set_value(snapshot); });
    return answer->get_future().get();
  }

  std::atomic<int> asked_{0};
  std::atomic<bool> gone_{false};
  Background work_;
  std::unique_ptr<EventBus> bus_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(MetricsSourceTest, AsksTheEngineAndMakesAPage) {
  const auto source = Source();
  const MetricsSource::Snapshot snapshot = Wait(*source);
  ASSERT_NE(snapshot, nullptr);
  EXPECT_GT(snapshot->facts.uptime_seconds, 0);
  EXPECT_NE(snapshot->page.find("harmonaize_workers 1\n"), std::string::npos);
}

TEST_F(MetricsSourceTest, ManyCallersCostTheEngineLittleMoreThanOne) {
  const auto source = Source();
  std::vector<std::thread> callers;
  std::atomic<int> answered{0};
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      for (int j = 0; j < 100; ++j) {
        if (Wait(*source) != nullptr) ++answered;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(answered, 800);
  // One look in half a second, by the interface's promise, and the first one.
  const auto took = std::chrono::steady_clock::now() - begun;
  EXPECT_LE(asked_, took / std::chrono::milliseconds(500) + 1);
}

TEST_F(MetricsSourceTest, SaysThatTheEngineIsGone) {
  gone_ = true;
  const auto source = Source();
  EXPECT_EQ(Wait(*source), nullptr);
  // It asks again the next time.
  EXPECT_EQ(Wait(*source), nullptr);
  EXPECT_EQ(asked_, 2);
}

TEST_F(MetricsSourceTest, RefusesCallersWhereTooManyWaitForAnEngineThatStandsStill) {
  std::promise<void> go_on;
  engine_->loop().Post([&] { go_on.get_future().wait(); });
  const auto source = Source();
  std::atomic<int> served{0};
  std::atomic<int> refused{0};
  for (int i = 0; i < 2000; ++i) {
    source->Get([&](const MetricsSource::Snapshot& snapshot) {
      ++(snapshot == nullptr ? refused : served);
    });
  }
  EXPECT_EQ(asked_, 1);
  go_on.set_value();
  for (int i = 0; i < 20'000 && served + refused < 2000; ++i) usleep(1000);
  EXPECT_EQ(served, 1024);
  EXPECT_EQ(refused, 2000 - 1024);
  EXPECT_NE(Wait(*source), nullptr);
}

TEST_F(MetricsSourceTest, TellsOfTenants) {
  std::promise<void> done;
  engine_->loop().Post([&] {
    Tenant& tenant = *engine_->tenants().Of({1000, 1000, 1000, "uid 1000"});
    tenant.operations = 42;
    tenant.claimed_operations = 7;
    done.set_value();
  });
  done.get_future().wait();
  const auto source = Source();
  const MetricsSource::Snapshot snapshot = Wait(*source);
  ASSERT_NE(snapshot, nullptr);
  const std::string& page = snapshot->page;
  EXPECT_NE(page.find("harmonaize_tenant_operations_total{tenant=\"uid 1000\"} 42\n"),
            std::string::npos);
  EXPECT_NE(page.find("harmonaize_tenant_claimed_inline_operations_total{tenant=\"uid 1000\"} 7\n"),
            std::string::npos);
  EXPECT_NE(page.find("harmonaize_tenant_operations_total{tenant=\"other\"} 0\n"),
            std::string::npos);
}

}  // namespace
}  // namespace harmonaize::daemon
