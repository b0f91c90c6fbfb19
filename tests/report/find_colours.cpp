// Prints for each argument its place in the palette, or -1.

#include <cstdio>

#include "sluice/report/palette.h"

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const auto found = sluice::Palette::standard().find(argv[i]);
    std::printf("%d\n", found ? static_cast<int>(*found) : -1);
  }
}
