#include <exception>
#include <iostream>

#include "sluice/run/events.h"

// Writes what events_test.py expects to find: a run that stopped after step 4
// and one that went on from step 3.
int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: write_events FOLDER\n";
    return 2;
  }
  {
    sluice::EventWriter writer(argv[1]);
    for (int step = 0; step < 5; ++step) {
      writer.add_scalar("train/loss", 1.0 / (1 + step), step);
      writer.add_scalar("lr", 0.1, step);
    }
  }
  sluice::EventWriter writer(argv[1], 3);
  for (int step = 3; step < 6; ++step) {
    writer.add_scalar("train/loss", 100.0 + step, step);
  }
  writer.add_scalar("large step", -2.5, 1LL << 40);
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
