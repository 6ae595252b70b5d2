#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/api/job_snapshots.h"
#include "daemon/events/event_bus.h"
#include "daemon/http/byte_stream.h"
#include "daemon/http/http_exchange.h"
#include "daemon/quota/holdings.h"
#include "daemon/ras/ras_command.h"
#include "daemon/ras/ras_event.h"

namespace harmonaize::daemon {

/// How long clients may take. A client that is slower only holds places of its own user's.
struct RasLimits {
  /// From one line to the next, where the client does not watch events. NCCL's client sends all at
  /// once, and people type.
  std::chrono::milliseconds line_within{60'000};
  /// To read a text that was sent.
  std::chrono::milliseconds read_within{30'000};
  /// To close, after the last text was sent.
  std::chrono::milliseconds close_within{1'000};
  /// To get a report from the engine, unless the client says another time, as NCCL has it.
  std::chrono::milliseconds answer_within{5'000};
  /// Bytes of events that wait for a client; further ones stay in the tenant's log meanwhile.
  size_t waiting_event_bytes = 64 << 10;
};

/// What connections use. Threads: any may hold it; its calls are the RAS thread's.
struct RasServices {
  boost::asio::io_context context;
  JobSnapshots* reports = nullptr;  ///< Of RasReport; outlives the thread.
  EventBus* bus = nullptr;          ///< Outlives the daemon's other parts.
  RasLimits limits = {};
};

/// A client's connection: answers its lines in turn. An answer to STATUS is the last one. Thread:
/// the one that runs the context.
class RasConnection : public std::enable_shared_from_this<RasConnection> {
 public:
  /// `on_closed` is called once, when the connection has closed.
  RasConnection(std::shared_ptr<RasServices> services, std::shared_ptr<ByteStream> stream,
                HttpCaller caller, std::shared_ptr<Account> account,
                std::function<void()> on_closed);

  void Start();
  void Close();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { kListening, kAnswering, kFinishing, kClosed };

  /// Events on their way from the bus's thread to this one.
  struct Mailbox {
    std::mutex mutex;
    RasWatch watch;       // guarded by mutex
    std::string text;     // guarded by mutex
    bool full = false;    // guarded by mutex: the bus waits for Resume
    bool closed = false;  // guarded by mutex
  };

  void Read();
  void OnRead(ByteStream::ReadEnd end, std::string_view bytes);
  void Advance();
  bool ObeyNextLine();
  void Obey(const RasCommand& command);
  void AskStatus(bool verbose);
  void OnReport(const JobSnapshots::Snapshot& report, std::string text);
  void FinishWith(std::string text);
  void Watch(unsigned groups);
  void Subscribe();
  std::string TakeEvents();
  void Write();
  void OnWritten();
  void SetDeadline();
  void OnDeadline();

  const std::shared_ptr<RasServices> services_;
  const std::shared_ptr<ByteStream> stream_;
  const HttpCaller caller_;
  const std::shared_ptr<Account> account_;
  const std::function<void()> on_closed_;
  const EventReader reader_;
  const std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();

  Phase phase_ = Phase::kListening;
  bool reading_ = false;
  bool writing_ = false;
  bool json_ = false;
  std::string received_;  ///< What has come and was not obeyed.
  std::string outgoing_;
  Holding answer_memory_;
  uint64_t subscription_ = 0;  ///< 0: the client watches nothing.
  std::chrono::milliseconds answer_within_;
  Clock::time_point due_;  ///< Of what the phase waits for.
  Clock::time_point written_by_;
  boost::asio::steady_timer deadline_;
};

}  // namespace harmonaize::daemon
