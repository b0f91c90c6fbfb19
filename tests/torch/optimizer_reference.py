#!/usr/bin/env python3
"""Prints what optimizer_test.cpp expects of bertadam and lamb.

Plain Python in double precision, from the formulas of the original BERT code
and of You et al. 2020 (Algorithm 2, with the exclusions of their code). Five
steps at a rate of 0.1 from the parameters of make_parameters(), whose
gradients in step s are sin(s p).
"""

import math


def norm(values):
    return math.sqrt(sum(x * x for x in values))


def start():
    return {"weight": [i / 7 + 1 for i in range(6)], "bias": [1.0, -2.0, 3.0]}


def bert_adam(p, g, m, v, rate, decay, clip=1.0):
    if norm(g) > clip:
        g = [x * clip / norm(g) for x in g]
    m[:] = [0.9 * a + 0.1 * x for a, x in zip(m, g)]
    v[:] = [0.999 * a + 0.001 * x * x for a, x in zip(v, g)]
    return [w - rate * (a / (math.sqrt(b) + 1e-6) + decay * w) for w, a, b in zip(p, m, v)]


def lamb(p, g, m, v, rate, decay, step, correct, trusted, most=10.0):
    m[:] = [0.9 * a + 0.1 * x for a, x in zip(m, g)]
    v[:] = [0.999 * a + 0.001 * x * x for a, x in zip(v, g)]
    one = 1 - 0.9**step if correct else 1
    two = 1 - 0.999**step if correct else 1
    u = [a / one / (math.sqrt(b / two) + 1e-6) + decay * w for w, a, b in zip(p, m, v)]
    trust = min(norm(p) / norm(u), most) if trusted else 1
    return [w - rate * trust * x for w, x in zip(p, u)]


def run(name, rate=0.1):
    parameters = start()
    for key, p in parameters.items():
        m, v = [0.0] * len(p), [0.0] * len(p)
        matrix = key == "weight"
        decay = 0.01 if matrix else 0
        for step in range(1, 6):
            g = [math.sin(step * x) for x in p]
            if name == "bertadam":
                p = bert_adam(p, g, m, v, rate, decay)
            else:
                p = lamb(p, g, m, v, rate, decay, step, name == "lamb", matrix)
        print(name, key, ", ".join(f"{x:.7f}" for x in p))


for which in ("bertadam", "lamb", "lamb:bias_correction=false"):
    run(which)
