// netlab_ring BYTES...: every rank sends BYTES to the next rank and receives as
// many from the one before, all at once. Rank 0 prints one line for each size:
// bytes, median seconds of one shift, number of shifts. The ranks must share
// one clock, so one machine.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kBudgetSeconds = 2.5;
constexpr int kFewest = 3;
constexpr int kMost = 51;
constexpr long kMaxBytes = 1'000'000'000;
// Long enough for the start time to reach every rank before it comes.
constexpr double kLeadSeconds = 0.003;

struct Ring {
  int rank = 0;
  int size = 0;

  int next() const { return (rank + 1) % size; }
  int previous() const { return (rank + size - 1) % size; }
};

double now() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// A barrier lets the ranks go one after the other, by as much as a small shift
// takes; a common start time does not.
void start_together() {
  double start = now() + kLeadSeconds;
  MPI_Bcast(&start, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  std::this_thread::sleep_for(std::chrono::duration<double>(start - now()));
}

// Seconds from the first rank's start to the last rank's end.
double shift(const Ring& ring, const std::vector<char>& out,
             std::vector<char>& in) {
  const int count = static_cast<int>(out.size());
  MPI_Barrier(MPI_COMM_WORLD);
  start_together();
  // One reduction gives both: the maximum of the negative is the minimum.
  double span[2] = {-now(), 0.0};
  MPI_Sendrecv(out.data(), count, MPI_CHAR, ring.next(), 0, in.data(), count,
               MPI_CHAR, ring.previous(), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  span[1] = now();
  MPI_Allreduce(MPI_IN_PLACE, span, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return span[1] + span[0];
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void measure(const Ring& ring, long bytes) {
  const std::vector<char> out(static_cast<std::size_t>(bytes), 1);
  std::vector<char> in(out.size());
  // The first connects, the second says how many fit into the time.
  shift(ring, out, in);
  const double once = shift(ring, out, in);
  const int fit = static_cast<int>(
      std::min(kBudgetSeconds / (once + kLeadSeconds), double{kMost}));
  const int shifts = std::max(fit, kFewest);
  std::vector<double> seconds;
  for (int i = 0; i < shifts; ++i) seconds.push_back(shift(ring, out, in));
  if (ring.rank == 0) {
    std::printf("%ld %.9f %d\n", bytes, median(seconds), shifts);
  }
}

// Every rank finds the same mistake; one says it.
[[noreturn]] void stop(const Ring& ring, const std::string& what) {
  if (ring.rank == 0) {
    std::fprintf(stderr, "[netlab_ring] %s\n", what.c_str());
  }
  MPI_Finalize();
  std::exit(2);
}

long parse_bytes(const Ring& ring, const char* text) {
  char* end = nullptr;
  const long bytes = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || bytes < 1 || bytes > kMaxBytes) {
    stop(ring, "a size must lie in [1, 1000000000] bytes, got '" +
                   std::string(text) + "'");
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Ring ring;
  MPI_Comm_rank(MPI_COMM_WORLD, &ring.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ring.size);
  if (ring.size < 2) stop(ring, "a ring needs 2 ranks or more, got 1");
  if (argc < 2) stop(ring, "no size was given; try netlab_ring 400000");
  std::vector<long> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(parse_bytes(ring, argv[i]));
  for (const long bytes : sizes) measure(ring, bytes);
  MPI_Finalize();
}
