#!/usr/bin/env python3
"""Tests of `sluice bench audio`.

Run as: python3 tests/cli/bench_audio_test.py PATH_TO_SLUICE [unittest options]
"""

from harness import CliTest, main


class BenchAudio(CliTest):
    def test_rows(self):
        rows = self.rows("bench", "audio", "--minutes", "0.05", "--clip", "1", "--rounds", "1")
        self.assertEqual([row["what"] for row in rows], ["features", "tempo and gain, features", "8 kHz to 16 kHz"])
        for row in rows:
            self.assertEqual(row["clips"], 3)
            self.assertEqual(row["audio_s"], 3)
            self.assertGreater(row["s_per_hour"], 0)

    def test_bad_numbers(self):
        self.fails("bench", "audio", "--minutes", "0", says=("--minutes must be above 0 and at most 600, got 0",))
        self.fails("bench", "audio", "--clip", "0.01", says=("--clip must be from 0.1 to 600 s, got 0.01",))
        self.fails("bench", "audio", "--rounds", "0", says=("--rounds must be from 1 to",))


if __name__ == "__main__":
    main()
