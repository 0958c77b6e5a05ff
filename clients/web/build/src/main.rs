//! Compiles the browser's device for WebAssembly, with vectors of 128 bits and without, and writes both
//! modules with the JavaScript that loads them to a folder.
//!
//! ```text
//! cargo run -p pack [-- --seeded] [--out FOLDER]
//! ```

use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use wasm_bindgen_cli_support::Bindgen;

const TARGET: &str = "wasm32-unknown-unknown";
/// The name of each build, and its flags.
const BUILDS: [(&str, &str); 2] = [("simd128", "-Ctarget-feature=+simd128"), ("portable", "")];

fn main() -> Result<()> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the folder of the package")?;
    let (mut out, mut seeded) = (package.join("pkg"), false);
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--seeded") => seeded = true,
            Some("--out") => out = arguments.next().context("--out needs a folder")?.into(),
            _ => bail!("{}: unknown; there are --seeded and --out FOLDER", argument.display()),
        }
    }
    for (name, flags) in BUILDS {
        let module = compile(package, flags, seeded)?;
        let mut bindgen = Bindgen::new();
        bindgen.input_path(&module).web(true)?.typescript(false).omit_default_module_path(true);
        bindgen.remove_name_section(true).remove_producers_section(true);
        bindgen.out_name(name).generate(&out).with_context(|| format!("cannot write {}", out.display()))?;
    }
    println!("{}", out.display());
    Ok(())
}

/// Compiles the device with `flags`, and returns the path of the module.
fn compile(package: &Path, flags: &str, seeded: bool) -> Result<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(package).env("CARGO_ENCODED_RUSTFLAGS", flags);
    cargo.args(["build", "--release", "--locked", "--package", "helba-web", "--target", TARGET]);
    cargo.args(["--message-format", "json-render-diagnostics"]);
    if seeded {
        cargo.args(["--features", "seeded"]);
    }
    let built = cargo.stderr(std::process::Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(
        built.status.success(),
        "the device did not compile for WebAssembly; `rustup target add {TARGET}` adds the target if it is missing"
    );
    let lines = String::from_utf8_lossy(&built.stdout);
    let module = lines.split('"').rfind(|part| part.ends_with("helba_web.wasm"));
    module.map(PathBuf::from).context("cargo named no module")
}
