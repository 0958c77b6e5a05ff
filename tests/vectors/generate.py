"""Makes the known answers in tests/vectors/v1 without any code of this project.

    pip install tenseal==0.3.18 mpmath==1.3.0 blake3==1.0.11
    python tests/vectors/generate.py

- encode_seal.json: plaintexts encoded by Microsoft SEAL (through TenSEAL's sealapi). SEAL's slot i is the value at
  zeta^(3^i), ours at zeta^(5^j). Each pair of conjugate roots has one exponent 5^j, and 3^i or -3^i is the same
  exponent, so our slot j is SEAL's slot i, conjugated in the second case: the file holds the values in our order.
- encode_mpmath.json: the definition of the embedding, summed term by term with 60 digits.
- uniform.json: residues that a seed stands for.
- frame_*.json: frames written from the format's description alone, with primes, roots of unity, scales, fingerprint,
  masks and an encryption made here in Python integers; the *_bad_* ones are one fault away from a good one.

Everything is drawn from fixed seeds; run twice, it writes the same bytes.
"""

import cmath, importlib.metadata, json, math, os, random, struct

import blake3
import mpmath
import tenseal.sealapi as seal

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "v1")


def version(package):
    return f"{package} {importlib.metadata.version(package)}"


def write(name, value):
    with open(os.path.join(OUT, name), "w") as f:
        json.dump(value, f, separators=(",", ":"))
        f.write("\n")


# Values on a grid of 2^-20, so that JSON holds them exactly.
def values(rng, count):
    return [complex(*(rng.randrange(-(2**20), 2**20 + 1) / 2**20 for _ in "ri")) for _ in range(count)]


def pairs(v):
    return [[z.real, z.imag] for z in v]


# ---- modular arithmetic ----


def is_prime(n):
    if n < 2 or any(n % p == 0 and n != p for p in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)):
        return False
    d, s = n - 1, 0
    while d % 2 == 0:
        d, s = d // 2, s + 1
    for a in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        x = pow(a, d, n)
        if a % n == 0 or x in (1, n - 1):
            continue
        for _ in range(s - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


def bit_reverse(i, bits):
    return int(format(i, f"0{bits}b")[::-1], 2)


def smallest_root(q, two_n):
    """The smallest primitive two_n-th root of unity: SEAL's choice."""
    g = next(r for x in range(2, 1000) if pow(r := pow(x, (q - 1) // two_n, q), two_n // 2, q) == q - 1)
    return min(pow(g, k, q) for k in range(1, two_n, 2))


def tonelli_root(q, two_n):
    """Square roots of -1, repeated, by Tonelli and Shanks with the smallest non-residue: the root of the format."""
    odd, s = q - 1, 0
    while odd % 2 == 0:
        odd, s = odd // 2, s + 1
    z = next(z for z in range(2, 1000) if pow(z, (q - 1) // 2, q) == q - 1)

    def sqrt(n):
        m, c, t, r = s, pow(z, odd, q), pow(n, odd, q), pow(n, (odd + 1) // 2, q)
        while t != 1:
            i, power = 0, t
            while power != 1:
                power, i = power * power % q, i + 1
            b = pow(c, 1 << (m - i - 1), q)
            m, c, t, r = i, b * b % q, t * b * b % q, r * b % q
        return r

    root = q - 1
    for _ in range(two_n.bit_length() - 2):
        root = sqrt(root)
    assert pow(root, two_n // 2, q) == q - 1
    return root


def transform(a, q, psi):
    """Value i is the polynomial at psi^(2 bitrev(i) + 1), by the recursive definition."""
    n, bits = len(a), len(a).bit_length() - 1

    def cyclic(a, w):
        if len(a) == 1:
            return a
        even, odd = cyclic(a[::2], w * w % q), cyclic(a[1::2], w * w % q)
        out, power = [0] * len(a), 1
        for k in range(len(a) // 2):
            t = power * odd[k]
            out[k], out[k + len(a) // 2] = (even[k] + t) % q, (even[k] - t) % q
            power = power * w % q
        return out

    y = cyclic([x * pow(psi, i, q) % q for i, x in enumerate(a)], psi * psi % q)
    return [y[bit_reverse(i, bits)] for i in range(n)]


def inverse_transform(v, q, psi):
    """Undoes `transform`: the transposed sum, with the inverse root."""
    n, bits = len(v), len(v).bit_length() - 1
    y = [v[bit_reverse(i, bits)] for i in range(n)]
    w, inverse = pow(psi, -2, q), pow(psi, -1, q)

    def cyclic(a, w):
        if len(a) == 1:
            return a
        even, odd = cyclic(a[::2], w * w % q), cyclic(a[1::2], w * w % q)
        out, power = [0] * len(a), 1
        for k in range(len(a) // 2):
            t = power * odd[k]
            out[k], out[k + len(a) // 2] = (even[k] + t) % q, (even[k] - t) % q
            power = power * w % q
        return out

    scale = pow(n, -1, q)
    return [x * pow(inverse, i, q) * scale % q for i, x in enumerate(cyclic(y, w))]


def centred(x, q):
    return x - q if x > q // 2 else x


# ---- encoders ----


def encode_seal():
    cases, rng = [], random.Random(1)
    for log_n, log_scale in ((10, 32), (11, 30)):
        n = 1 << log_n
        parms = seal.EncryptionParameters(seal.SCHEME_TYPE.CKKS)
        parms.set_poly_modulus_degree(n)
        parms.set_coeff_modulus(seal.CoeffModulus.Create(n, [50, 50]))
        context = seal.SEALContext(parms, True, seal.SEC_LEVEL_TYPE.NONE)
        q = parms.coeff_modulus()[0].value()
        psi = smallest_root(q, 2 * n)
        theirs = values(rng, n // 2)
        plain = seal.Plaintext()
        seal.CKKSEncoder(context).encode(theirs, 2.0**log_scale, plain)
        data = [plain.data(i) for i in range(n)]
        integers = [centred(x, q) for x in inverse_transform(data, q, psi)]
        # A wrong root would give numbers of the size of q.
        assert max(map(abs, integers)) < 2 ** (log_scale + 2)
        place = {}
        for i in range(n // 2):
            e = pow(3, i, 2 * n)
            place[e], place[2 * n - e] = theirs[i], theirs[i].conjugate()
        ours = [place[pow(5, j, 2 * n)] for j in range(n // 2)]
        cases.append({"log_n": log_n, "log_scale": log_scale, "slots": pairs(ours), "integers": integers})
    maker = f"Microsoft SEAL CKKSEncoder through {version('tenseal')}"
    write("encode_seal.json", {"maker": maker, "cases": cases})


def encode_exactly(slots, log_n, scale):
    """round(scale * (2/N) sum_j Re(z_j zeta^(-k 5^j))), the slots repeated to N/2, with 60 digits."""
    n, two_n = 1 << log_n, 2 << log_n
    mpmath.mp.dps = 60
    cos = [mpmath.cos(mpmath.pi * k / n) for k in range(two_n)]
    sin = [mpmath.sin(mpmath.pi * k / n) for k in range(two_n)]
    size = len(slots)
    # Only powers of X^(N/2size) occur, and the sum over one period is enough.
    gap, out = n // 2 // size, [0] * n
    parts = [(mpmath.mpf(z.real), mpmath.mpf(z.imag), pow(5, j, two_n)) for j, z in enumerate(slots)]
    for k in range(0, n, gap):
        total = mpmath.mpf(0)
        for re, im, power in parts:
            angle = power * k % two_n
            total += re * cos[angle] + im * sin[angle]
        out[k] = int(mpmath.nint(total * scale / size))
    return out


def encode_mpmath():
    cases, rng = [], random.Random(2)
    for log_n, size, log_scale in ((10, 1, 32), (10, 2, 40), (10, 16, 32), (10, 128, 30), (12, 64, 32)):
        slots = values(rng, size)
        integers = encode_exactly(slots, log_n, mpmath.mpf(2) ** log_scale)
        # The polynomial is one in X^gap: the other coefficients are zero and are left out.
        gap = (1 << log_n) // 2 // size
        case = {"log_n": log_n, "log_scale": log_scale, "slots": pairs(slots), "gap": gap}
        cases.append({**case, "integers": integers[::gap]})
    write("encode_mpmath.json", {"maker": version("mpmath"), "cases": cases})


# ---- frames ----


def largest_prime(bits, two_n, used=()):
    candidates = range((2**bits - 2) // two_n * two_n + 1, 2 ** (bits - 1), -two_n)
    return next(c for c in candidates if is_prime(c) and c not in used)


class Params:
    """The smallest ring, two levels: what `spec` in the JSON says, derived again from its description."""

    log_n, log_q0, depth, log_scale, log_p = 10, 35, 2, 25, [42]

    def __init__(self):
        self.n, two_n = 1 << self.log_n, 2 << self.log_n
        q0 = largest_prime(self.log_q0, two_n)
        special = []
        for bits in self.log_p:
            special.append(largest_prime(bits, two_n, [q0] + special))
        taken, chain, delta = [q0] + special, [], 2.0**self.log_scale * (1 - 2.0**-8)
        self.scales = [delta]
        for _ in range(self.depth):
            scale = self.scales[0]
            target = scale * scale / delta
            centre = round(target / two_n) * two_n + 1
            candidates = (c for k in range(10000) for c in (centre - k * two_n, centre + k * two_n))
            q = next(c for c in candidates if is_prime(c) and c not in taken)
            taken.append(q)
            chain.insert(0, q)
            self.scales.insert(0, scale * scale / q)
        self.q, self.p = [q0] + chain, special
        self.roots = {q: tonelli_root(q, two_n) for q in self.q + self.p}
        text = b"ckks parameters v2" + struct.pack("<4Q", self.log_n, self.depth, self.log_scale, 0)
        text += b"".join(struct.pack("<Q", q) for q in self.q + self.p) + struct.pack("<d", 3.2)
        # Limbs of a digit: the most whose product stays six bits below P, or below P and the least prime above q0.
        log = lambda primes: sum(map(math.log2, primes))
        for room in (log(special), log(special + [min(chain)])):
            fits = lambda k: all(log(self.q[i : i + k]) <= room - 6 for i in range(0, len(self.q), k))
            text += struct.pack("<Q", max(k for k in range(1, len(self.q) + 1) if fits(k)))
        self.fingerprint = blake3.blake3(text).digest()[:16]

    def spec(self):
        return {k: getattr(self, k) for k in ("log_n", "log_q0", "depth", "log_scale", "log_p")}


def uniform(q, n, seed, stream):
    """What BLAKE3 keyed with the seed gives for the stream's number, in words of as many bytes as q has, masked to its size; those not
    below q are skipped."""
    width = (q.bit_length() + 7) // 8
    drawn = blake3.blake3(struct.pack("<Q", stream), key=seed).digest(length=3 * n * width)
    words = (int.from_bytes(drawn[i : i + width], "little") for i in range(0, len(drawn), width))
    out = [word for word in (word & (2 ** q.bit_length() - 1) for word in words) if word < q]
    return out[:n]


def limb(q, n, seed, stream):
    residues = uniform(q, n, seed, stream)
    digest = blake3.blake3(b"".join(struct.pack("<Q", x) for x in residues)).hexdigest()
    return {"prime": q, "stream": stream, "first": residues[:4], "digest": digest}


def pack(limbs):
    """limbs: (bits, residues) each; a limb's residues as one little-endian integer."""
    out = b""
    for bits, residues in limbs:
        out += sum(x << (bits * i) for i, x in enumerate(residues)).to_bytes(bits * len(residues) // 8, "little")
    return out


def frame(
    params, payload, *, magic=b"CKKS", version=2, kind=1, zero=0, fingerprint=None, key=b"\x11" * 16,
          level=0, parts=1, element=0, scale=0.0):
    body = magic + struct.pack("<HBB", version, kind, zero) + (fingerprint or params.fingerprint) + key
    body += struct.pack("<HHId", level, parts, element, scale) + payload
    return body + blake3.blake3(body).digest()


def frames():
    params, rng = Params(), random.Random(3)
    n, key, level = params.n, b"\x11" * 16, 1
    seed = bytes(rng.randrange(256) for _ in range(32))
    secret = [rng.randrange(-1, 2) for _ in range(n)]
    slots = values(rng, 8)
    scale = params.scales[level]
    message = encode_exactly(slots, params.log_n, mpmath.mpf(scale))
    error = [round(rng.gauss(0, 3.2)) for _ in range(n)]
    c0, c1 = [], []
    for i, q in enumerate(params.q[: level + 1]):
        psi = params.roots[q]
        a = uniform(q, n, seed, i)
        s = transform([x % q for x in secret], q, psi)
        m = transform([(x + e) % q for x, e in zip(message, error)], q, psi)
        c1.append((q.bit_length(), a))
        c0.append((q.bit_length(), [(x - y * z) % q for x, y, z in zip(m, a, s)]))
    secret_payload = bytes(
        sum((secret[4 * i + k] + 1) << (2 * k) for k in range(4)) for i in range(n // 4)
    )
    seeded_payload = seed + pack(c0)
    common = dict(kind=2, key=key, level=level, scale=scale)
    good = frame(params, seeded_payload, **common)
    full = frame(params, pack(c0) + pack(c1), **{**common, "kind": 1, "parts": 2})
    maker = ", ".join(map(version, ("blake3", "mpmath"))) + " and Python integers"
    head = {"maker": maker, "spec": params.spec(), "key": key.hex(), "level": level}
    write(
        "frame_good.json",
        {
            **head,
            "primes": params.q + params.p,
            "scales": params.scales,
            "fingerprint": params.fingerprint.hex(),
            "slots": pairs(slots),
            "secret": frame(params, secret_payload, kind=5, key=key).hex(),
            "seeded": good.hex(),
            "full_digest": full[-32:].hex(),
        },
    )

    def with_residue(i, value):
        limbs = [(bits, list(r)) for bits, r in c0]
        limbs[i][1][5] = value
        return seed + pack(limbs)

    flipped = bytearray(good)
    flipped[200] ^= 4
    other_scale = struct.unpack("<d", struct.pack("<Q", struct.unpack("<Q", struct.pack("<d", scale))[0] + 1))[0]
    bad = [
        ("truncated", good[:-1], "BadFrame"),
        ("truncated in the payload, digest made again", frame(params, seeded_payload[:-8], **common), "BadFrame"),
        ("header only", good[:56], "BadFrame"),
        ("empty", b"", "BadFrame"),
        ("trailing byte", good + b"\0", "BadFrame"),
        ("trailing byte in the payload, digest made again", frame(params, seeded_payload + b"\0", **common), "BadFrame"),
        ("wrong magic", frame(params, seeded_payload, **common, magic=b"CKKT"), "BadFrame"),
        ("wrong version", frame(params, seeded_payload, **common, version=1), "Version"),
        ("reserved byte not zero", frame(params, seeded_payload, **common, zero=1), "BadFrame"),
        ("wrong fingerprint", frame(params, seeded_payload, **common, fingerprint=b"\x22" * 16), "WrongParams"),
        ("kind of a public key", frame(params, seeded_payload, **{**common, "kind": 3}), "BadFrame"),
        ("unknown kind", frame(params, seeded_payload, **{**common, "kind": 200}), "BadFrame"),
        ("seeded body called a full ciphertext", frame(params, seeded_payload, **{**common, "kind": 1, "parts": 2}), "BadFrame"),
        ("wrong key", frame(params, seeded_payload, **{**common, "key": b"\x12" * 16}), "WrongKey"),
        ("level one lower", frame(params, seeded_payload, **{**common, "level": 0}), "WrongLevel"),
        ("level above the top", frame(params, seeded_payload, **{**common, "level": 3}), "BadFrame"),
        ("scale one unit in the last place off", frame(params, seeded_payload, **{**common, "scale": other_scale}), "WrongLevel"),
        ("scale not a number", frame(params, seeded_payload, **{**common, "scale": math.nan}), "WrongLevel"),
        ("two parts in a seeded ciphertext", frame(params, seeded_payload, **common, parts=2), "BadFrame"),
        ("a Galois element in a ciphertext", frame(params, seeded_payload, **common, element=5), "BadFrame"),
        ("residue equal to its prime, limb 0", frame(params, with_residue(0, params.q[0]), **common), "ResidueTooLarge"),
        ("residue all ones, limb 1", frame(params, with_residue(1, 2 ** params.q[1].bit_length() - 1), **common), "ResidueTooLarge"),
        ("one bit of the payload flipped", bytes(flipped), "BadFrame"),
        ("digest of another frame", good[:-32] + full[-32:], "BadFrame"),
    ]
    # Each differs from the good frame in a few places. Only those are stored: cut or extend the good frame to `length`
    # (with zeros), then put each patch at its offset.
    def patches(b):
        base, out = good[: len(b)].ljust(len(b), b"\0"), []
        for i, (x, y) in enumerate(zip(base, b)):
            if x != y and out and i <= out[-1][0] + len(out[-1][1]) + 8:
                out[-1][1] += b[out[-1][0] + len(out[-1][1]) : i + 1]
            elif x != y:
                out.append([i, b[i : i + 1]])
        return [[offset, part.hex()] for offset, part in out]

    cases = [{"name": name, "error": error, "length": len(b), "patches": patches(b)} for name, b, error in bad]
    write("frame_bad_ciphertexts.json", {**head, "good": good.hex(), "cases": cases})

    b = pack([(q.bit_length(), uniform(q, n, b"\5" * 32, i)) for i, q in enumerate(params.q)])
    text = b"ckks public key v1" + params.fingerprint + seed
    for i, q in enumerate(params.q):
        text += b"".join(struct.pack("<Q", x) for x in uniform(q, n, b"\5" * 32, i))
    key_id = blake3.blake3(text).digest()[:16]
    common = dict(kind=3, key=key_id, level=params.depth, parts=1)
    head = {**head, "key": key_id.hex(), "level": params.depth}
    write("frame_good_public_key.json", {**head, "frame": frame(params, seed + b, **common).hex()})
    bad = [
        ("id of another key", {"key": b"\x12" * 16}, "WrongKey"),
        ("level below the top", {"level": params.depth - 1}, "BadFrame"),
        ("two parts", {"parts": 2}, "BadFrame"),
        ("no parts", {"parts": 0}, "BadFrame"),
        ("a Galois element", {"element": 5}, "BadFrame"),
        ("a scale", {"scale": 1.0}, "BadFrame"),
        ("minus zero for a scale", {"scale": -0.0}, "BadFrame"),
    ]
    # The payload is that of the good key: only header and digest are stored.
    write(
        "uniform.json",
        {
            **head,
            "seed": seed.hex(),
            # The first residues modulo primes of every size in bytes, and a digest of all; streams as numbered.
            "limbs": [limb(largest_prime(bits, 2 * n), n, seed, stream) for stream, bits in enumerate((20, 31, 32, 33, 42, 48, 50))],
            # a of each digit of a key-switch key at the top, limb by limb over Q then P: stream 256 digit + limb.
            "masks": [
                [limb(q, n, seed, 256 * digit + i)["digest"] for i, q in enumerate(params.q + params.p)] for digit in range(2)
            ],
        },
    )

    cases = []
    for name, change, error in bad:
        f = frame(params, seed + b, **{**common, **change})
        cases.append({"name": name, "error": error, "header": f[:56].hex(), "digest": f[-32:].hex()})
    write("frame_bad_public_keys.json", {**head, "cases": cases})


def truncated_frames():
    """A ciphertext of which some coefficients of c0 are sent, as residues and not as values of the transform, and all of c1."""
    params, rng = Params(), random.Random(4)
    n, key, level, count = params.n, b"\x11" * 16, 1, 5
    seed, primes = b"\6" * 32, params.q[:2]
    c0 = [[rng.randrange(q) for _ in range(count)] for q in primes]
    c1 = pack([(q.bit_length(), uniform(q, n, seed, i)) for i, q in enumerate(primes)])

    def coefficients(c0, spare=0):
        out = b""
        for q, residues in zip(primes, c0):
            bits = q.bit_length()
            word = sum(x << (bits * k) for k, x in enumerate(residues)) | spare << (bits * count)
            out += word.to_bytes((bits * count + 7) // 8, "little")
        return out

    common = dict(kind=8, key=key, level=level, parts=2, element=count, scale=params.scales[level])
    good = frame(params, c1 + coefficients(c0), **common)
    large = [[q] + residues[1:] for q, residues in zip(primes, c0)]
    all_ones = (2 ** primes[0].bit_length() - 1).to_bytes(8, "little")
    bad = [
        ("kind of a partial ciphertext", c1 + coefficients(c0), {"kind": 6}, "BadFrame"),
        ("one part", c1 + coefficients(c0), {"parts": 1}, "BadFrame"),
        ("another number of coefficients", c1 + coefficients(c0), {"element": count + 1}, "BadFrame"),
        ("another level", c1 + coefficients(c0), {"level": 0}, "WrongLevel"),
        ("another scale", c1 + coefficients(c0), {"scale": 1.0}, "WrongLevel"),
        ("another key", c1 + coefficients(c0), {"key": b"\x12" * 16}, "WrongKey"),
        ("a coefficient equal to its prime", c1 + coefficients(large), {}, "ResidueTooLarge"),
        ("a value of c1 of all ones", all_ones[:4] + b"\xff" + c1[5:] + coefficients(c0), {}, "ResidueTooLarge"),
        ("bits behind the last coefficient", c1 + coefficients(c0, spare=1), {}, "BadFrame"),
        ("a byte less", c1 + coefficients(c0)[:-1], {}, "BadFrame"),
        ("a byte more", c1 + coefficients(c0) + b"\0", {}, "BadFrame"),
    ]
    sums = []
    for name, log_n, log_q in (("logn10-logq25-sum", 10, 25), ("logn11-logq50-sum", 11, 50)):
        q = largest_prime(log_q, 2 << log_n)
        # Ring degree, no level above 0, bits of primes there, security; the prime; sigma; one digit of one prime, twice; scale 2^0.
        text = b"ckks parameters v2" + struct.pack("<4QQd2Q", log_n, 0, 20, 128, q, 3.2, 1, 1)
        text += b"unrescaled" + struct.pack("<I", 0)
        sums.append({"name": name, "prime": q, "fingerprint": blake3.blake3(text).digest()[:16].hex()})
    write(
        "frame_truncated.json",
        {
            "maker": version("blake3") + " and Python integers",
            "sums": sums,
            "spec": params.spec(),
            "key": key.hex(),
            "level": level,
            "seed": seed.hex(),
            "c0": c0,
            "good": good.hex(),
            # The payload of c1 is that of the good frame but for its first eight bytes: what stands behind it is stored.
            "cases": [
                {"name": name, "error": error, "header": f[:56].hex(), "first": f[56:64].hex(), "rest": f[56 + len(c1) :].hex()}
                for name, payload, change, error in bad
                for f in [frame(params, payload, **{**common, **change})]
            ],
        },
    )


if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    encode_seal()
    encode_mpmath()
    frames()
    truncated_frames()
