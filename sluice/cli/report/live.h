#pragma once

#include <chrono>
#include <memory>
#include <string>

// report.html beside what is still running.

namespace sluice {

// When a command writes the page of its folder.
enum class ReportMode { kEnd, kLive, kOff };
// Of "end", "live" or "off"; throws std::invalid_argument, beginning with
// "[`owner`]", for anything else.
ReportMode parse_report_mode(const std::string& owner, const std::string& text);

// Writes FOLDER/report.html in place of the one that is there. Never throws: a
// page is no reason to lose what it is about. Returns what went wrong.
std::string write_report_page(const std::string& folder,
                              const std::string& target, int refresh_s = 0);

// Writes it again and again in a thread of low priority, every few seconds and
// for at most a twentieth of the time, until it is destroyed. Says once on
// standard error if that goes wrong.
class LiveReport {
 public:
  LiveReport(std::string folder, std::string target);
  // Does not wait for a disk that does not answer.
  ~LiveReport();
  LiveReport(const LiveReport&) = delete;
  LiveReport& operator=(const LiveReport&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace sluice
