#!/usr/bin/env python3
"""Tests of what the program says to bad input.

Run as: python3 tests/cli/bad_input_test.py PATH_TO_SLUICE [unittest options]
"""

from harness import (CODECS, COLLECTIVE, CliTest, DATA, FEEDBACK, SELECT, SIMULATED, SLUICE, SPARSIFIERS, WIRE,
                     little_memory, main, sluice, without)


class BadInput(CliTest):
    """Every one: a non-zero exit and one clear line."""
    SMALL = ("--n", "2048")

    def test_density(self):
        cases = {value: ("density", "above 0 and at most 1", value) for value in ("0", "-1", "2", "nan", "inf")}
        cases |= {value: ("--densities", value) for value in ("abc", "0.1x", "0.1,abc")}
        for base in (SELECT[:-2], WIRE[:-2]):
            self.each_fails((*base, *self.SMALL), "--densities", cases)

    def test_n(self):
        values = ("0", "-5", "1.5", "abc", "1e30", "nan", "inf", "5G", "10kk", "k", "2048,abc")
        cases = {value: ("a size must be a whole number", value.split(",")[-1]) for value in values}
        self.each_fails(SELECT, "--n", cases)
        del cases["2048,abc"]
        self.each_fails(WIRE, "--n", cases)

    def test_threads(self):
        cases = {value: ("threads", "from 1 to 1024", value) for value in ("0", "-1", "100000")}
        cases |= {value: ("threads", value) for value in ("abc", "1.5")}
        self.each_fails((*SELECT, *self.SMALL), "--threads", cases)

    def test_counts(self):
        for option in ("--row", "--stride", "--steps"):
            base = [*SELECT[:2], *SELECT[4:], *self.SMALL]
            self.each_fails(base, option, {"0": (option, "from 1 to"), "-1": (option, "-1"), "abc": (option, "abc")})
        for option in ("--row", "--steps"):
            base = [*WIRE[:2], *WIRE[4:], *self.SMALL]
            self.each_fails(base, option, {"0": (option, "from 1 to"), "-1": (option, "-1"), "abc": (option, "abc")})

    def test_slab_overflow(self):
        # 2^32 * 2^32 wraps to 0.
        done = sluice(*SELECT, *self.SMALL, "--row", 2**32, "--stride", 2**32)
        self.assertIn(done.returncode, (0, 1), f"must not crash: {done.stderr}")

    def test_names(self):
        cases = {
            "nope": ("no sparsifier 'nope'", "known:", *SPARSIFIERS),
            "topk,nope": ("no sparsifier 'nope'", "known:"),
            "topk:nope=1": ("topk", "no parameter 'nope'"),
            "dgc:nope=1": ("dgc", "no parameter 'nope'", "known:", "upper"),
            "dgc:upper=-1": ("'upper'", "must lie in", "-1"),
            "dgc:upper=nan": ("'upper'", "must lie in", "nan"),
            "dgc:upper=abc": ("'upper'", "must be a number", "abc"),
            "dgc:resample=perhaps": ("'resample'", "true or false", "perhaps"),
            "adtopk:dim=7": ("'dim'", "one of", "longer", "'7'"),
            "dgc:rounds=1.5": ("'rounds'", "whole number", "1.5"),
            "dgc:upper": ("key=value", "'upper'"),
            "dgc:": ("key=value",),
            "topk,,dgc": ("name:key=value",),
            '{"name"': ("JSON",),
        }
        self.each_fails(("bench", "select", "--steps", "1", *self.SMALL), "--sparsifier", cases)
        del cases["topk,nope"], cases["topk,,dgc"]
        self.each_fails((*WIRE, *self.SMALL), "--sparsifier", cases)

    def test_feedback(self):
        self.each_fails((*SELECT, *self.SMALL), "--feedback", {
            "nope": ("no feedback 'nope'", "known:", *FEEDBACK),
            "residual:nope=1": ("no parameter 'nope'", "beta"),
            "residual:beta=2": ("'beta'", "must lie in [0, 1]", "2"),
        })

    def test_codec(self):
        self.each_fails((*SELECT, *self.SMALL), "--codec", {
            "nope": ("no codec 'nope'", "known:", *CODECS),
            "auto:nope=1": ("no parameter 'nope'", "values"),
            "auto:values=fp8": ("'values'", "one of", "bf16", "'fp8'"),
            "dense": ("dense", "able to carry"),
            "rows": ("rows", "able to carry"),
        })

    def test_collective(self):
        cases = {
            "--densities": {"0": "density must be above 0", "2": "at most 1", "nan": "density", "abc": "abc"},
            "--n": {"0": "a size must be", "1.5": "1.5", "abc": "'abc'", "20k,abc": "'abc'",
                    "4294967296": "below 2^32"},
            "--overlap": {"-0.1": ("overlap must be from 0 to 1", "-0.1"), "1.1": "1.1", "nan": "nan", "x": "--overlap"},
            "--support": {"nope": ("no support 'nope'", "uniform skewed clustered hot-columns")},
            "--values": {"fp8": ("fp32, bf16 or fp16", "'fp8'"), "two-bit": "'two-bit'"},
            "--steps": {"0": "--steps must be from 1", "-1": "-1", "abc": "abc"},
            "--warmup": {"-1": "--warmup must be from 0", "abc": "abc"},
            "--seed": {"-1": "--seed", "abc": "--seed"},
            "--network": {"/nope.json": "cannot open '/nope.json'", SLUICE: "[network]"},
            "--collective": {"nope": ("no collective 'nope'", "known:", "balanced"), "balanced,nope": "'nope'",
                            "balanced:nope=1": "no parameter 'nope'", "balanced:block=0": "'block'",
                            "balanced:direct=perhaps": "'direct'", "balanced:block=3": "power of two"},
        }
        for option, values in cases.items():
            self.each_fails(without(option, (*COLLECTIVE, *SIMULATED)), option, values)
        self.fails(*COLLECTIVE, "--json", "--csv", says=("--json", "--csv"))

    def test_launch(self):
        cases = {
            "--workers": {"0": "--workers must be from 1 to 1024, got 0", "-1": "-1", "5000": "5000", "abc": "abc",
                          "1.5": "1.5"},
            "--engine": {"nope": ("no engine 'nope'", "mpi threads simulated")},
            "--timeout": {"0": "--timeout must be above 0", "-1": "-1", "nan": "nan", "inf": "inf", "abc": "abc"},
            "--net": {"1Gbit": "ALPHA,RATE", "abc": "abc", "50us,0Gbit": "above 0", "50us,1Gbit,0=0.5": "factor",
                      "50us,1Gbit,4=2": "must be below 4", "-1us,1Gbit": "-1us"},
        }
        for command in (COLLECTIVE, ("probe", "--out", self.folder / "net.json")):
            for option, values in cases.items():
                engine = () if option == "--engine" else ("--engine", "threads")
                self.each_fails((*command, *engine), option, values)
            self.fails(*command, "--engine", "simulated", says=("needs a network", "--net 50us,1Gbit"))
        self.assertEqual(list(self.folder.iterdir()), [], "nothing was written")

    def test_data(self):
        for base in (SELECT, WIRE):
            self.each_fails((*base, *self.SMALL), "--data", {"nope": ("no data 'nope'", *DATA, ".npy")})

    def test_json_with_csv(self):
        for base in (SELECT, WIRE):
            self.fails(*base, *self.SMALL, "--json", "--csv", says=("--json", "--csv"))

    def test_unknown_option(self):
        for command in ((), ("list",), ("bench",), SELECT, WIRE, COLLECTIVE, ("probe",)):
            with self.subTest(command=command):
                self.fails(*command, "--bogus", says=("no option '--bogus'", "did you mean '--"))

    def test_unknown_option_names_the_nearest_of_its_command(self):
        cases = {("--versoin",): "[sluice] no option '--versoin'; did you mean '--version'?",
                 ("--jsn", "list"): "[sluice] no option '--jsn'",
                 ("list", "--jsn"): "[list] no option '--jsn'; did you mean '--json'?",
                 (*SELECT, "--thread", "2"): "[select] no option '--thread'; did you mean '--threads'?",
                 (*COLLECTIVE, "--wokers=2"): "[collective] no option '--wokers'; did you mean '--workers'?",
                 (*COLLECTIVE, "-workers", "2"): "did you mean '--workers'?",
                 ("compare", "--methds", "topk"): "[compare] no option '--methds'; did you mean '--methods'?"}
        for args, says in cases.items():
            with self.subTest(args=args):
                self.fails(*args, says=says)

    def test_no_subcommand(self):
        self.fails("bench", says=("select", "wire", "collective"))

    def test_unknown_subcommand(self):
        self.fails("bogus", says=("got 'bogus'", "known: list bench"))
        self.fails("bench", "bogus", says=("got 'bogus'", "known: select wire"))
        self.fails("help", "bogus", says=("got 'bogus'", "known: list bench"))
        self.fails("help", "bench", "bogus", says=("got 'bogus'", "known: select wire"))

    def test_option_without_value(self):
        for option in ("--n", "--densities", "--sparsifier", "--threads"):
            with self.subTest(option=option):
                self.fails(*SELECT[:2], option, says=option)

    def test_too_little_memory(self):
        for args, says in {("--n", "4G"): "memory", (*self.SMALL, "--threads", "1024"): "threads"}.items():
            with self.subTest(args=args):
                self.fails(*SELECT, *args, says=says, preexec_fn=little_memory)

    def test_everything_is_checked_before_anything_runs(self):
        # An hour of timing must not be lost to a typing error in what comes
        # last. Here the first case would not get its memory.
        cases = {
            ("--n", "4G,abc"): "'abc'",
            ("--n", "4G", "--threads", "1,0"): "threads",
            ("--n", "4G", "--data", "randn,nope"): "'nope'",
            ("--n", "4G", "--data", "randn,missing.npy"): "missing.npy",
            ("--n", "4G", "--feedback", "nope"): "'nope'",
            ("--n", "4G", "--codec", "nope"): "'nope'",
        }
        for args, says in cases.items():
            with self.subTest(args=args):
                self.fails(*SELECT, *args, says=says, preexec_fn=little_memory)


if __name__ == "__main__":
    main()
