//! What the kernels in double precision ask of an instruction set: vectors of 64-bit lanes that hold doubles
//! or integers, and a fused multiply-add.

/// A register size of an instruction set. A value of this type can be made only where the CPU has the
/// instructions, which is what makes the functions below sound.
pub(super) trait Vector: Copy + Send + Sync + 'static {
    /// A register of doubles.
    type Doubles: Copy;
    /// A register of 64-bit integers.
    type Integers: Copy;
    /// As many 32-bit integers as a register has 64-bit lanes.
    type Halves: Copy;
    /// What [`Self::load_encrypted`] needs to know of the width of a word.
    type Packing: Copy;

    /// Entries of a register, at most eight.
    const LANES: usize;
    /// Registers in which the last stages of a transform are computed, a multiple of `LANES` and at most
    /// eight.
    const GROUP: usize;

    /// Runs `operation`, compiled for this instruction set as a function of its own.
    fn call<O: Operation<Self>>(self, operation: O);

    /// x in all lanes.
    fn splat(self, x: f64) -> Self::Doubles;
    /// a + b.
    fn add(self, a: Self::Doubles, b: Self::Doubles) -> Self::Doubles;
    /// a − b.
    fn sub(self, a: Self::Doubles, b: Self::Doubles) -> Self::Doubles;
    /// a·b.
    fn mul(self, a: Self::Doubles, b: Self::Doubles) -> Self::Doubles;
    /// a·b + c, rounded once.
    fn mul_add(self, a: Self::Doubles, b: Self::Doubles, c: Self::Doubles) -> Self::Doubles;
    /// c − a·b, rounded once.
    fn mul_sub_from(self, a: Self::Doubles, b: Self::Doubles, c: Self::Doubles) -> Self::Doubles;
    /// x rounded towards zero.
    fn truncate(self, x: Self::Doubles) -> Self::Doubles;
    /// `then` in the lanes in which a > b, else 0.
    fn if_greater(self, a: Self::Doubles, b: Self::Doubles, then: Self::Doubles) -> Self::Doubles;
    /// The doubles as bits.
    fn bits(self, x: Self::Doubles) -> Self::Integers;
    /// Doubles from their bits.
    fn with_bits(self, x: Self::Integers) -> Self::Doubles;
    /// Integers below 2⁵² as doubles.
    fn to_doubles(self, x: Self::Integers) -> Self::Doubles;
    /// Doubles that hold integers from 0 to 2⁵² − 1 as integers.
    fn to_integers(self, x: Self::Doubles) -> Self::Integers;

    /// x in all lanes.
    fn splat_integer(self, x: u64) -> Self::Integers;
    /// a + b modulo 2⁶⁴.
    fn add_integers(self, a: Self::Integers, b: Self::Integers) -> Self::Integers;
    /// a − b modulo 2⁶⁴.
    fn sub_integers(self, a: Self::Integers, b: Self::Integers) -> Self::Integers;
    /// The bits that are set in a and in b.
    fn and(self, a: Self::Integers, b: Self::Integers) -> Self::Integers;
    /// The bits that are set in a or in b.
    fn or(self, a: Self::Integers, b: Self::Integers) -> Self::Integers;
    /// x·2ⁿ modulo 2⁶⁴, for n < 64.
    fn shift_left(self, x: Self::Integers, n: u32) -> Self::Integers;
    /// ⌊x/2ⁿ⌋, for n < 64.
    fn shift_right(self, x: Self::Integers, n: u32) -> Self::Integers;

    /// x in all lanes.
    fn splat_half(self, x: u32) -> Self::Halves;
    /// The integers modulo 2³².
    fn halves(self, x: Self::Integers) -> Self::Halves;
    /// a·b.
    fn mul_halves(self, a: Self::Halves, b: Self::Halves) -> Self::Integers;

    /// SAFETY: `i + LANES <= x.len()`.
    unsafe fn load(self, x: &[u64], i: usize) -> Self::Integers;
    /// SAFETY: `i + LANES <= x.len()`.
    unsafe fn store(self, x: &mut [u64], i: usize, v: Self::Integers);
    /// SAFETY: `i + LANES <= x.len()`.
    unsafe fn load_f64(self, x: &[f64], i: usize) -> Self::Doubles;
    /// Loads LANES little-endian words of 32 bits.
    ///
    /// SAFETY: 4·LANES bytes from `bytes` on must be readable.
    unsafe fn load_halves(self, bytes: *const u8) -> Self::Halves;
    /// Loads LANES little-endian words of 32 bits as 64-bit integers.
    ///
    /// SAFETY: 4·LANES bytes from `bytes` on must be readable.
    unsafe fn load_widened(self, bytes: *const u8) -> Self::Integers;
    /// Lane l of the result is entry (i + l)/stride.
    ///
    /// SAFETY: (i + LANES − 1)/stride < `x.len()`, stride is a power of two, and i is a multiple of LANES.
    unsafe fn load_repeated(self, x: &[u64], i: usize, stride: usize) -> Self::Integers;

    /// The packing of words of `width` bytes, 1 to 7.
    fn packing(self, width: usize) -> Self::Packing;
    /// Loads LANES little-endian words of the packing's width that stand one after the other.
    ///
    /// SAFETY: [`PACKED`] bytes from `bytes` on must be readable.
    unsafe fn load_encrypted(self, bytes: *const u8, packing: Self::Packing) -> Self::Integers;

    /// Replaces the eight entries in the first 8/LANES registers by entry `indices[i] % 8` for each i.
    fn permute(self, block: &mut [Self::Integers; 4], indices: &[u32; 8]);
    /// Transposes every LANES registers: register i of the result has entry i of each of them.
    fn transpose(self, v: &mut [Self::Doubles; 8]);

    /// The doubles of integers below 2⁵².
    ///
    /// SAFETY: `i + LANES <= x.len()`.
    #[inline(always)]
    unsafe fn load_doubles(self, x: &[u64], i: usize) -> Self::Doubles {
        // SAFETY: by the caller's promise.
        self.to_doubles(unsafe { self.load(x, i) })
    }
}

/// The bytes that [`Vector::load_encrypted`] may read: those of eight words, and a register more.
pub(super) const PACKED: usize = 64;

/// A function that [`Vector::call`] compiles for an instruction set.
pub(super) trait Operation<V> {
    /// Must be `#[inline(always)]`, as everything that it calls with registers.
    fn run(self, v: V);
}
