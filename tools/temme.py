"""Coefficients of Temme's uniform expansion of the incomplete gamma functions.

    python -m tools.temme > src/curta/primitives/elementwise/temme_values.py

N. Temme, The asymptotic expansion of the incomplete gamma functions (1979); NIST DLMF
8.12: with eta**2 / 2 = mu - log(1 + mu), c_0 = 1/mu - 1/eta and c_k = c_{k-1}' / eta +
(-1)**k g_k / mu, with Stirling's coefficients g_k (DLMF 5.11.3).
"""

import mpmath as mp

ORDERS, POWERS, LIMIT = 10, 26, 0.36  # of 1/a, of eta, and the largest eta
LEAST = 60.0  # from this a on


def series(count):
    """mu / eta as a power series of eta."""
    alpha = [mp.mpf(0), mp.mpf(1)]
    for n in range(2, count + 2):
        inner = sum(alpha[i] * (n + 1 - i) * alpha[n + 1 - i] for i in range(2, n))
        alpha.append((alpha[n - 1] - inner) / (n + 1))
    return alpha[1:]


def inverse(p):
    q = [1 / p[0]]
    for n in range(1, len(p)):
        q.append(-sum(p[k] * q[n - k] for k in range(1, n + 1)) / p[0])
    return q


def stirling(count):
    """g_k: exp of the sum of B_2k / (2k (2k - 1)) z^(2k - 1), in powers of z."""
    log = [mp.mpf(0)] * (count + 1)
    for k in range(1, count // 2 + 2):
        if 2 * k - 1 <= count:
            log[2 * k - 1] = mp.bernoulli(2 * k) / (2 * k * (2 * k - 1))
    g = [mp.mpf(1)]
    for n in range(1, count + 1):
        g.append(sum(k * log[k] * g[n - k] for k in range(1, n + 1)) / n)
    return g


def table():
    count = POWERS + 2 * ORDERS + 4
    over_mu = inverse(series(count))  # eta / mu
    g = stirling(ORDERS)
    c = [over_mu[1:]]
    for k in range(1, ORDERS):
        derivative = [n * x for n, x in enumerate(c[-1])][1:]
        # c' / eta + (-1)^k g_k / mu: the poles cancel.
        both = [x + (-1) ** k * g[k] * y
                for x, y in zip(derivative, over_mu, strict=False)]  # fmt: skip
        assert abs(both[0]) < mp.mpf(10) ** -40, both[0]
        c.append(both[1:])
    rows = []
    for k, row in enumerate(c):
        kept = [x for n, x in enumerate(row[:POWERS])
                if abs(x) * LIMIT**n / LEAST**k > 2e-18]  # fmt: skip
        last = max((n for n, x in enumerate(row[:POWERS])
                    if abs(x) * LIMIT**n / LEAST**k > 2e-18), default=-1)  # fmt: skip
        del kept
        if last >= 0:
            rows.append([float(x) for x in row[: last + 1]])
    return rows


def main():
    mp.mp.dps = 80
    print('"""Coefficients c[k][n] of eta**n / a**k, made by tools/temme.py."""\n')
    print(f"LEAST = {LEAST}  # the smallest a")
    print("WIDTH = 0.3  # the largest |x / a - 1|")
    print("TEMME = (")
    for row in table():
        print("    (")
        for i in range(0, len(row), 3):
            print("        " + ", ".join(map(repr, row[i : i + 3])) + ",")
        print("    ),")
    print(")  # fmt: skip")


if __name__ == "__main__":
    main()
