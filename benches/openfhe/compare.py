"""Our operations beside OpenFHE's and SEAL's, in turns within one run.

    cargo build --release --example peer
    python benches/openfhe/compare.py --sets C A --threads 1 --samples 15 [--kernels avx2 scalar] [--out FILE.csv]

Each library is used through its Python wheel (`openfhe`; `tenseal` for SEAL) where it can be imported; what cannot be is
named and left out. Same ring degree, same bits of every ciphertext prime, uniform ternary secrets; the
special primes and digits are what each library can choose under the 128-bit bound of the security table. Times include
one call from Python, some microseconds; each call that counts comes after 20 ms of the same. `tfhe-ntt` is a yardstick, not a rival: its transform of one limb of 50 bits, timed
in turns with each of our operations, says how fast the machine was while it ran. `--kernels` names the versions of our kernels that take turns
(`RNS_KERNEL`); the default is the one that this machine runs. The ratio is theirs over ours, of medians, with a 95 % interval from
resampling pairs; above 1 we are faster. One thread count a run: pools are sized at start.
"""

import argparse
import csv
import importlib
import math
import os
import pathlib
import random
import subprocess
import sys
import time
from statistics import median

# Ring degree, bits of the first prime, levels, bits a level, OpenFHE's digits (60-bit special primes under the bound).
SETS = {"C": (14, 50, 8, 40, 9), "A": (15, 50, 18, 40, 19), "B": (16, 50, 30, 45, 6)}
RESAMPLES = 2000


def mean_bits(got, want):
    return -math.log2(sum(abs(g - w) for g, w in zip(got, want)) / len(want))


def root(x):
    return math.sqrt(x + 1.05)


def openfhe_operations(log_n, first, levels, scale, digits):
    import openfhe as fhe

    p = fhe.CCParamsCKKSRNS()
    p.SetRingDim(1 << log_n)
    p.SetMultiplicativeDepth(levels)
    p.SetFirstModSize(first)
    p.SetScalingModSize(scale)
    p.SetNumLargeDigits(digits)
    p.SetScalingTechnique(fhe.FIXEDMANUAL)
    p.SetSecretKeyDist(fhe.UNIFORM_TERNARY)
    # The sizes are chosen by the table; the library's own is older and a little different.
    p.SetSecurityLevel(fhe.HEStd_NotSet)
    cc = fhe.GenCryptoContext(p)
    for feature in (fhe.PKE, fhe.KEYSWITCH, fhe.LEVELEDSHE, fhe.ADVANCEDSHE):
        cc.Enable(feature)
    keys = cc.KeyGen()
    cc.EvalMultKeyGen(keys.secretKey)
    cc.EvalRotateKeyGen(keys.secretKey, list(range(1, 17)))
    slots = 1 << (log_n - 1)
    rng = random.Random(1)
    x, y = ([rng.uniform(-1, 1) for _ in range(slots)] for _ in range(2))
    plain = cc.MakeCKKSPackedPlaintext(x)
    a, b = (cc.Encrypt(keys.publicKey, cc.MakeCKKSPackedPlaintext(v)) for v in (x, y))
    product = cc.EvalMult(a, b)
    coefficients = fhe_coefficients(31)

    def bits(ct, want):
        out = cc.Decrypt(ct, keys.secretKey)
        out.SetLength(slots)
        return mean_bits(out.GetRealPackedValue(), want)

    def rotate_16():
        digits = cc.EvalFastRotationPrecompute(a)
        return [cc.EvalFastRotation(a, k, 2 << log_n, digits) for k in range(1, 17)][-1]

    turned = [x[k:] + x[:k] for k in (1, 16)]
    multiplied = [u * v for u, v in zip(x, y)]
    return {
        "encode": (lambda: cc.MakeCKKSPackedPlaintext(x), None),
        "encrypt_public": (lambda: cc.Encrypt(keys.publicKey, plain), lambda c: bits(c, x)),
        "decrypt": (lambda: cc.Decrypt(a, keys.secretKey), None),
        "add": (lambda: cc.EvalAdd(a, b), lambda c: bits(c, [u + v for u, v in zip(x, y)])),
        "mul": (lambda: cc.Rescale(cc.EvalMult(a, b)), lambda c: bits(c, multiplied)),
        "rescale": (lambda: cc.Rescale(product), None),
        "rotate": (lambda: cc.EvalRotate(a, 1), lambda c: bits(c, turned[0])),
        "rotate_16": (rotate_16, lambda c: bits(c, turned[1])),
        "chebyshev_31": (
            lambda: cc.EvalChebyshevSeries(a, coefficients, -1, 1),
            lambda c: bits(c, [root(u) for u in x]),
        ),
    }


def fhe_coefficients(degree):
    """Of the interpolant at the Chebyshev nodes; the library halves the first one."""
    n = degree + 1
    angles = [math.pi * (k + 0.5) / n for k in range(n)]
    return [2 / n * sum(root(math.cos(t)) * math.cos(i * t) for t in angles) for i in range(n)]


def seal_operations(log_n, first, levels, scale, _digits):
    import tenseal as ts

    chain = [first] + [scale] * levels + [60]
    context = ts.context(ts.SCHEME_TYPE.CKKS, 1 << log_n, coeff_mod_bit_sizes=chain)
    context.global_scale = 2.0**scale
    rng = random.Random(1)
    x, y = ([rng.uniform(-1, 1) for _ in range(1 << (log_n - 1))] for _ in range(2))
    a, b = ts.ckks_vector(context, x), ts.ckks_vector(context, y)
    return {
        "add": (lambda: a + b, lambda c: mean_bits(c.decrypt(), [u + v for u, v in zip(x, y)])),
        "mul": (lambda: a * b, lambda c: mean_bits(c.decrypt(), [u * v for u, v in zip(x, y)])),
    }


# Libraries, by the module that is imported.
PEERS = {"openfhe": openfhe_operations, "tenseal": seal_operations}
# Timed by our own program.
YARDSTICK, YARDSTICK_OPERATION = "tfhe-ntt", "ntt_tfhe"


class Ours:
    """The peer program, one operation at a time."""

    def __init__(self, binary, label, threads, kernel=None):
        pipe = subprocess.PIPE
        env = dict(os.environ, RNS_KERNEL=kernel) if kernel else None
        self.process = subprocess.Popen([binary, label, str(threads)], stdin=pipe, stdout=pipe, text=True, env=env)
        self.kernel, *self.names = self.process.stdout.readline().split()

    def run(self, name):
        print(name, file=self.process.stdin, flush=True)
        seconds, bits = self.process.stdout.readline().split()
        return float(seconds), float(bits)


def interval(pairs):
    """Median ratio with the 2.5th and 97.5th percentile of resampled ones."""
    rng = random.Random(1)
    ratio = lambda sample: median(t for t, _ in sample) / median(o for _, o in sample)
    ratios = sorted(ratio(rng.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    return ratio(pairs), ratios[RESAMPLES * 25 // 1000], ratios[RESAMPLES * 975 // 1000]


def timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def rivals(peer, label, ours):
    """Operation, seconds of one call of the peer's, its bits."""
    if peer == YARDSTICK:
        for name in ours.names:
            if name != YARDSTICK_OPERATION:
                yield name, lambda: ours.run(YARDSTICK_OPERATION)[0], math.nan
        return
    for name, (call, judge) in PEERS[peer](*SETS[label]).items():
        if name in ours.names:
            yield name, lambda call=call: timed(call), judge(call()) if judge else math.nan


def warm(call, seconds):
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        call()
    return call()


def compare(peer, label, args):
    ours = [Ours(args.binary, label, args.threads, kernel) for kernel in args.kernels]
    for name, theirs, their_bits in rivals(peer, label, ours[0]):
        if args.operations and name not in args.operations:
            continue
        bits = [our.run(name)[1] for our in ours]
        # Each finds its threads awake and its caches warm: what was called before does not count.
        last = lambda our: [our.run(f"{name} warm")[0] for _ in range(args.warm)][-1]
        turns = [(warm(theirs, args.warm * 0.02), [last(our) for our in ours]) for _ in range(args.samples)]
        for i, our in enumerate(ours):
            pairs = [(t, all_of_ours[i]) for t, all_of_ours in turns]
            row = [peer, label, args.threads, name, args.samples, median(t for t, _ in pairs), median(o for _, o in pairs)]
            row += [*interval(pairs), their_bits, bits[i], our.kernel]
            yield [f"{v:.6g}" if isinstance(v, float) else v for v in row]


def importable(peer):
    try:
        importlib.import_module(peer)
    except ImportError:
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["C", "A"], choices=list(SETS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--samples", type=int, default=15)
    parser.add_argument("--kernels", nargs="+", default=[None], choices=["avx512", "avx2", "neon", "scalar"])
    parser.add_argument("--warm", type=int, default=1, help="how often 20 ms of calls come before the one that counts")
    parser.add_argument("--operations", nargs="+", help="those to compare; default: all")
    known = [*PEERS, YARDSTICK]
    parser.add_argument("--peers", nargs="+", default=known, choices=known)
    parser.add_argument("--out", type=pathlib.Path)
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    parser.add_argument("--binary", default=f"{target}/release/examples/peer")
    args = parser.parse_args()

    found = [p for p in args.peers if p == YARDSTICK or importable(p)]
    if absent := [p for p in args.peers if p not in found]:
        print("Cannot be imported:", ", ".join(absent), file=sys.stderr)
        print("OpenFHE: pip install openfhe (its wheel is for one version of Python); SEAL: pip install tenseal.", file=sys.stderr)
        if not any(p != YARDSTICK for p in found):
            sys.exit("There is nothing to compare with.")
    if not os.path.exists(args.binary):
        sys.exit(f"{args.binary} is missing: cargo build --release --example peer")
    if "OMP_NUM_THREADS" not in os.environ:
        # Read when the library is loaded.
        env = dict(os.environ, OMP_NUM_THREADS=str(args.threads))
        sys.exit(subprocess.call([sys.executable, *sys.argv], env=env))

    head = "peer,set,threads,operation,samples,peer_seconds,our_seconds,ratio,low,high,peer_bits,our_bits,kernel"
    rows = [head.split(",")]
    print(head)
    for peer in found:
        for label in args.sets:
            for row in compare(peer, label, args):
                rows.append(row)
                print(*row, sep=",", flush=True)
    if args.out:
        with args.out.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
