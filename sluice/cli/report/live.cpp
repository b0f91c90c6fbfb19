#include "sluice/cli/report/live.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include "sluice/cli/report/subject.h"
#include "sluice/core/atomic_file.h"
#include "sluice/core/error.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr seconds kEvery{3};
constexpr int kRefresh = 5;
constexpr int kShare = 20;        // of the time goes to pages, at most
constexpr seconds kPatience{10};  // with the disk, at the end

}  // namespace

ReportMode parse_report_mode(const std::string& owner,
                             const std::string& text) {
  if (text == "end") return ReportMode::kEnd;
  if (text == "live") return ReportMode::kLive;
  require(text == "off", "[", owner,
          "] --report must be end, live or off, got '", text, "'");
  return ReportMode::kOff;
}

std::string write_report_page(const std::string& folder,
                              const std::string& target, int refresh_s) {
  try {
    ReportRequest request;
    request.paths = {folder};
    request.target = target;
    request.folder = folder;
    request.refresh_s = refresh_s;
    write_text(folder + "/report.html", to_html(make_page(request)));
    return {};
  } catch (const std::exception& e) {
    return e.what();
  }
}

struct LiveReport::State {
  std::string folder;
  std::string target;
  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  bool ended = false;

  void run();
};

void LiveReport::State::run() {
  // Of this thread alone, on Linux: training comes first.
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);
  bool told = false;
  Clock::duration pause = kEvery;
  std::unique_lock lock(mutex);
  while (!changed.wait_for(lock, pause, [&] { return stopping; })) {
    lock.unlock();
    const auto start = Clock::now();
    const std::string problem = write_report_page(folder, target, kRefresh);
    pause = std::max<Clock::duration>(kEvery, kShare * (Clock::now() - start));
    if (!problem.empty() && !told) {
      told = true;
      std::fprintf(stderr, "[report] no page while it runs: %s\n",
                   problem.c_str());
    }
    lock.lock();
  }
  ended = true;
  changed.notify_all();
}

LiveReport::LiveReport(std::string folder, std::string target)
    : state_(std::make_shared<State>()) {
  state_->folder = std::move(folder);
  state_->target = std::move(target);
  // Signals are for the threads that wait for them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([state = state_] { state->run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LiveReport::~LiveReport() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, kPatience, [&] { return state_->ended; });
}

}  // namespace sluice
