//! The machine code of what computes with decrypted values has no division: a processor takes longer for some
//! operands of a division than for others, and the functions that divide 128-bit integers branch on them.
//! Disassembled is this test program, which `objdump` of binutils reads.

use ckks_secret::Private;
use rand::{TryCryptoRng, TryRng};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::hint::black_box;
use std::process::Command;

/// A generator that returns one number, so that the code of a function which draws from it has no cipher.
struct FixedRng(u64);

impl TryRng for FixedRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.0 as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0)
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        out.fill(self.0 as u8);
        Ok(())
    }
}

impl TryCryptoRng for FixedRng {}

/// The search must find the divisions of this function and of the next two.
#[inline(never)]
fn control_remainder_of_128_bits(x: i128, modulus: i128) -> i128 {
    x % modulus
}

#[inline(never)]
fn control_quotient_of_64_bits(x: u64, modulus: u64) -> u64 {
    x / modulus
}

/// Calls a division, and has none of its own.
#[inline(never)]
fn control_caller(x: u64, modulus: u64) -> u64 {
    control_quotient_of_64_bits(black_box(x), modulus) + 1
}

/// The threshold question on a decrypted residue divides nowhere, neither in its own code nor in what that
/// calls. The same search finds the divisions of the controls.
#[test]
fn attack_the_threshold_of_a_decrypted_value_takes_no_division() {
    // A function that a pointer names is in the program, for all arguments.
    black_box(
        Private::<u64>::at_least::<FixedRng> as fn(&Private<u64>, u64, u64, u32, &mut FixedRng) -> bool,
    );
    black_box(control_remainder_of_128_bits as fn(i128, i128) -> i128);
    black_box(control_quotient_of_64_bits as fn(u64, u64) -> u64);
    black_box(control_caller as fn(u64, u64) -> u64);
    let program = Disassembly::read();
    let found = |name: &str| program.divisions(&program.named(name));
    assert_ne!(found("control_remainder_of_128_bits"), [""; 0]);
    assert_ne!(found("control_quotient_of_64_bits"), [""; 0]);
    assert_ne!(found("control_caller"), [""; 0], "a division one call away");
    assert_eq!(found("8at_least"), [""; 0]);
}

/// The functions of this test program.
struct Disassembly {
    path: std::path::PathBuf,
    /// First address, and the address behind the last, by mangled name.
    functions: BTreeMap<String, [u64; 2]>,
    /// Functions by their first address.
    names: BTreeMap<u64, String>,
    /// What the loader writes to addresses of tables: the address of a function of this program.
    slots: BTreeMap<u64, u64>,
}

impl Disassembly {
    fn read() -> Self {
        let path = std::env::current_exe().unwrap();
        let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
        // address flags section size name, with `F` among the flags of a function.
        let symbols = objdump(&["-t".as_ref(), path.as_ref()]);
        let function = |line: &str| {
            let (left, right) = line.split_once('\t')?;
            let (address, flags) = left.split_once(' ')?;
            let (size, name) = right.trim().split_once(char::is_whitespace)?;
            let name = name.trim().trim_start_matches(".hidden ");
            let start = number(address)?;
            let range = [start, start + number(size)?];
            flags.split(' ').any(|flag| flag == "F").then(|| (name.to_string(), range))
        };
        let functions: BTreeMap<String, [u64; 2]> = symbols.lines().filter_map(function).collect();
        // slot R_X86_64_RELATIVE *ABS*+0xaddress
        let relocations = objdump(&["-R".as_ref(), path.as_ref()]);
        let slot = |line: &str| {
            let (slot, target) = (line.split_once(' ')?.0, line.rsplit_once("*ABS*+0x")?.1);
            Some((number(slot)?, number(target)?))
        };
        let slots = relocations.lines().filter_map(slot).collect();
        let names = functions.iter().map(|(name, [start, _])| (*start, name.clone())).collect();
        Disassembly { path, functions, names, slots }
    }

    /// The names of the functions whose name contains `part`: at least one.
    fn named(&self, part: &str) -> Vec<String> {
        let names: Vec<String> = self.functions.keys().filter(|name| name.contains(part)).cloned().collect();
        assert!(!names.is_empty(), "{part} is not in the symbol table");
        names
    }

    /// The divisions in these functions and in all that they call or jump to, whatever the depth, but for
    /// functions that panic: one line of code each, behind the name of its function.
    ///
    /// # Panics
    /// If a call or a jump has an unknown target: the content of a register, or a function of a library.
    fn divisions(&self, names: &[String]) -> Vec<String> {
        let (mut open, mut seen, mut found) = (names.to_vec(), BTreeSet::new(), Vec::new());
        while let Some(name) = open.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            for line in self.code(&name) {
                let (mnemonic, operands) = line.split_once(char::is_whitespace).unwrap_or((&line, ""));
                let divides = |to: &str| to.starts_with("__") && (to.contains("div") || to.contains("mod"));
                let leaves = mnemonic.starts_with("call") || mnemonic.starts_with('j');
                if mnemonic.contains("div") || leaves && self.target(operands).is_some_and(divides) {
                    found.push(format!("{name}: {line}"));
                } else if leaves {
                    let to = self.target(operands).unwrap_or_else(|| panic!("{name}: {line}: where to?"));
                    open.extend((!to.contains("panic")).then(|| to.to_string()));
                }
            }
        }
        found
    }

    /// The function that a call or jump with these operands enters.
    fn target(&self, operands: &str) -> Option<&str> {
        let operands = operands.trim_start();
        let name = match operands.starts_with('*') {
            // call *0x37c19e(%rip)  # 4dcdf8 <…>
            true => {
                let (_, slot) = operands.split_once("(%rip)")?;
                let slot = slot.trim_start_matches([' ', '#']).split(' ').next()?;
                self.names.get(self.slots.get(&u64::from_str_radix(slot, 16).ok()?)?)?
            }
            // call 160c80 <function>, je 160ce0 <function+0x60>
            false => operands.split_once('<')?.1.trim_end_matches('>').split('+').next()?,
        };
        self.functions.get_key_value(name).map(|(name, _)| name.as_str())
    }

    /// The instructions of a function, without addresses.
    fn code(&self, name: &str) -> Vec<String> {
        let [start, stop] = self.functions[name];
        let (start, stop) = (format!("--start-address={start:#x}"), format!("--stop-address={stop:#x}"));
        let options = ["-d", "--no-show-raw-insn", &start, &stop].map(AsRef::as_ref);
        let text = objdump(&[&options[..], &[self.path.as_ref()]].concat());
        // A call through a table that the linker made direct has a prefix, to keep its length.
        let code =
            |line: &str| Some(line.split_once(":\t")?.1.trim().trim_start_matches("addr32 ").to_string());
        let lines: Vec<String> = text.lines().filter_map(code).collect();
        assert!(!lines.is_empty(), "no code of {name}");
        lines
    }
}

/// What objdump prints for these arguments.
fn objdump(args: &[&std::ffi::OsStr]) -> String {
    let output =
        Command::new("objdump").args(args).output().expect("objdump (package binutils) is on the path");
    assert!(output.status.success(), "objdump: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
