#include "sluice/comm/emulated/emulated.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>

#include "sluice/core/error.h"

namespace sluice {
namespace {

using Clock = Engine::Clock;

Clock::duration seconds(double value) {
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(value));
}

// When a message left and how long a port needs for it; in a frame of its own
// before each: the frame itself may be on its way to others as well.
struct Stamp {
  Clock::time_point start;
  Clock::duration duration;
};

struct Arrival {
  Frame frame;
  std::size_t peer = 0;
  Stamp stamp;
  Clock::time_point due;
};

class Emulated final : public Engine {
 public:
  Emulated(std::unique_ptr<Engine> inner, const Link& link)
      : inner_(std::move(inner)),
        link_(link),
        stamps_(inner_->size()),
        arrivals_(inner_->size()) {}

  std::size_t rank() const override { return inner_->rank(); }
  std::size_t size() const override { return inner_->size(); }
  std::size_t local_rank() const override { return inner_->local_rank(); }
  std::size_t local_size() const override { return inner_->local_size(); }
  std::size_t machine() const override {
    return link_.per_machine > 1 ? link_.machine(rank()) : inner_->machine();
  }
  Clock::time_point now() const override { return inner_->now(); }
  void finish() override { inner_->finish(); }
  void rebuild() override { inner_->rebuild(); }

  void post(std::size_t peer, const Frame& frame) override {
    const double slow =
        std::max(link_.slow_down(rank()), link_.slow_down(peer));
    const bool inside = link_.machine(rank()) == link_.machine(peer);
    const double alpha = inside ? link_.inside_alpha : link_.alpha;
    const double beta = inside ? link_.inside_beta : link_.beta;
    const auto bytes = static_cast<double>(frame.bytes().size());
    const Stamp stamp = {std::max(now(), send_port_),
                         seconds(slow * (alpha + beta * bytes))};
    send_port_ = stamp.start + stamp.duration;
    Frame before = pool_.get(sizeof(stamp));
    std::memcpy(before.payload().data(), &stamp, sizeof(stamp));
    inner_->post(peer, before);
    inner_->post(peer, frame);
  }

  bool poll(std::size_t peer, Frame& frame) override {
    collect();
    auto& waiting = arrivals_[peer];
    if (waiting.empty() || waiting.front().due > now()) return false;
    frame = waiting.pop().frame;
    return true;
  }

  bool closed(std::size_t peer) const override {
    const auto from = [&](const Arrival& a) { return a.peer == peer; };
    return arrivals_[peer].empty() && std::ranges::none_of(coming_, from) &&
           inner_->closed(peer);
  }

  void idle(Clock::time_point until) override {
    const auto time = now();
    for (const Arrival& a : coming_) until = std::min(until, a.stamp.start);
    for (auto& waiting : arrivals_) {
      if (!waiting.empty() && waiting.front().due > time) {
        until = std::min(until, waiting.front().due);
      }
    }
    inner_->idle(until);
  }

  Native sum(std::span<const float> in, std::span<float> out,
             const MemoryOwner& owner,
             const std::function<bool()>& late) override {
    const auto start = now();
    const Native done = inner_->sum(in, out, owner, late);
    if (done != Native::kDone) return done;
    const auto messages = static_cast<double>(2 * (size() - 1));
    const double share =
        static_cast<double>(in.size_bytes()) / static_cast<double>(size());
    const auto end = start + seconds(slowest() * messages *
                                     (link_.alpha + link_.beta * share));
    while (now() < end) {
      if (late()) return Native::kLate;
      inner_->idle(end);
    }
    return done;
  }

 private:
  double slowest() const {
    double slow = 1;
    for (const double s : link_.slow_downs) slow = std::max(slow, s);
    return slow;
  }

  // Gives what has come its turn at the receive port, in the order of
  // departure; what has yet to leave the sender's port waits.
  void collect() {
    for (std::size_t peer = 0; peer < size(); ++peer) {
      Frame frame;
      while (peer != rank() && inner_->poll(peer, frame)) {
        if (!stamps_[peer]) {
          std::memcpy(&stamps_[peer].emplace(), frame.payload().data(),
                      sizeof(Stamp));
          continue;
        }
        Arrival a = {std::move(frame), peer, *stamps_[peer], {}};
        stamps_[peer].reset();
        const auto behind = std::upper_bound(
            coming_.begin(), coming_.end(), a.stamp.start,
            [](auto start, const Arrival& b) { return start < b.stamp.start; });
        coming_.insert(behind, std::move(a));
      }
    }
    const auto time = now();
    auto first = coming_.begin();
    for (; first != coming_.end() && first->stamp.start <= time; ++first) {
      receive_port_ =
          std::max(first->stamp.start, receive_port_) + first->stamp.duration;
      first->due = receive_port_;
      const std::size_t peer = first->peer;
      arrivals_[peer].push(std::move(*first));
    }
    coming_.erase(coming_.begin(), first);
  }

  std::unique_ptr<Engine> inner_;
  Link link_;
  Clock::time_point send_port_{};
  Clock::time_point receive_port_{};
  FramePool pool_;
  std::vector<std::optional<Stamp>> stamps_;  // whose frame is yet to come
  std::vector<Arrival> coming_;               // still on the sender's side
  std::vector<Fifo<Arrival>> arrivals_;       // by peer
};

double number(std::string_view text, std::string_view whole) {
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size() &&
              std::isfinite(value) && value >= 0,
          "[link] expected ALPHA,RATE as in 50us,1Gbit or 5e-5,8e-9, then "
          "RANK=FACTOR for slow ranks, got '",
          whole, "'");
  return value;
}

bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

double parse_alpha(std::string_view text, std::string_view whole) {
  double unit = 1;
  if (take_suffix(text, "us")) {
    unit = 1e-6;
  } else if (take_suffix(text, "ms")) {
    unit = 1e-3;
  } else {
    take_suffix(text, "s");
  }
  return unit * number(text, whole);
}

double parse_beta(std::string_view text, std::string_view whole) {
  for (const auto& [suffix, bits] :
       {std::pair{"Gbit", 1e9}, std::pair{"Mbit", 1e6},
        std::pair{"kbit", 1e3}}) {
    if (!take_suffix(text, suffix)) continue;
    const double rate = number(text, whole) * bits;
    require(rate > 0, "[link] the rate must be above 0, got '", whole, "'");
    return 8 / rate;
  }
  return number(text, whole);
}

// "RANKS/ALPHA/RATE"
void parse_machine(std::string_view text, std::string_view whole, Link& link) {
  constexpr double kMostRanks = 1 << 20;
  const std::size_t first = std::min(text.find('/'), text.size());
  const std::size_t second = std::min(text.find('/', first + 1), text.size());
  require(second < text.size(),
          "[link] a machine must be RANKS/ALPHA/RATE as in 4/2us/100Gbit, got "
          "'",
          text, "'");
  const double ranks = number(text.substr(0, first), whole);
  require(ranks >= 1 && ranks < kMostRanks && ranks == std::floor(ranks),
          "[link] a machine must have a rank at least, got '", text, "'");
  link.per_machine = static_cast<std::size_t>(ranks);
  link.inside_alpha =
      parse_alpha(text.substr(first + 1, second - first - 1), whole);
  link.inside_beta = parse_beta(text.substr(second + 1), whole);
}

void parse_slow_down(std::string_view text, std::string_view whole,
                     Link& link) {
  constexpr double kMostRanks = 1 << 20;
  const std::size_t equals = std::min(text.find('='), text.size());
  const double rank = number(text.substr(0, equals), whole);
  const double factor =
      number(text.substr(std::min(equals + 1, text.size())), whole);
  require(rank < kMostRanks && rank == std::floor(rank) && factor >= 1,
          "[link] a slow rank must be RANK=FACTOR with a factor of at least "
          "1, got '",
          text, "'");
  const auto r = static_cast<std::size_t>(rank);
  link.slow_downs.resize(std::max(link.slow_downs.size(), r + 1), 1.0);
  link.slow_downs[r] = factor;
}

}  // namespace

Link parse_link(std::string_view text) {
  Link link;
  std::size_t field = 0;
  for (std::size_t begin = 0; begin <= text.size(); ++field) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    if (field == 0) link.alpha = parse_alpha(part, text);
    if (field == 1) link.beta = parse_beta(part, text);
    constexpr std::string_view kMachine = "machine=";
    if (field > 1 && part.starts_with(kMachine)) {
      parse_machine(part.substr(kMachine.size()), text, link);
    } else if (field > 1) {
      parse_slow_down(part, text, link);
    }
    begin = end + 1;
  }
  require(field >= 2, "[link] expected ALPHA,RATE as in 50us,1Gbit, got '",
          text, "'");
  return link;
}

std::string describe(const Link& link) {
  std::string out = concat(link.alpha * 1e6, " us, ");
  out += link.beta > 0 ? concat(8e-9 / link.beta, " Gbit/s")
                       : std::string("no limit of rate");
  for (std::size_t r = 0; r < link.slow_downs.size(); ++r) {
    if (link.slow_downs[r] > 1) {
      out += concat(", rank ", r, " ", link.slow_downs[r], "x slower");
    }
  }
  if (link.per_machine > 1) {
    out += concat(", machines of ", link.per_machine, " with ",
                  describe({link.inside_alpha, link.inside_beta, {}}));
  }
  return out;
}

std::unique_ptr<Engine> make_emulated(std::unique_ptr<Engine> inner,
                                      const Link& link) {
  require(inner->local_size() == inner->size(),
          "[emulated] all ranks must share a clock, that is run on one "
          "machine, but only ",
          inner->local_size(), " of ", inner->size(), " run on this one");
  return std::make_unique<Emulated>(std::move(inner), link);
}

}  // namespace sluice
