//! Compiles the browser's devices for WebAssembly, and writes the modules with the JavaScript that loads them
//! to a folder: that of encrypted bandits with vectors of 128 bits and without, and that of a committee's
//! users.
//!
//! ```text
//! cargo run -p pack [-- --seeded] [--out FOLDER]
//! ```

use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use wasm_bindgen_cli_support::Bindgen;

const TARGET: &str = "wasm32-unknown-unknown";
const BUILDS: [Build; 3] = [
    Build { name: "simd128", package: DEVICE, profile: "release", flags: "-Ctarget-feature=+simd128" },
    Build { name: "portable", package: DEVICE, profile: "release", flags: "" },
    Build { name: "committee", package: "helba-web-committee", profile: "small", flags: "" },
];
/// The device that can be built with a seed.
const DEVICE: &str = "helba-web";

struct Build {
    name: &'static str,
    package: &'static str,
    profile: &'static str,
    flags: &'static str,
}

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
    for build in BUILDS {
        let module = compile(package, &build, seeded && build.package == DEVICE)?;
        let mut bindgen = Bindgen::new();
        bindgen.input_path(&module).web(true)?.typescript(false).omit_default_module_path(true);
        bindgen.remove_name_section(true).remove_producers_section(true);
        bindgen
            .out_name(build.name)
            .generate(&out)
            .with_context(|| format!("cannot write {}", out.display()))?;
    }
    println!("{}", out.display());
    Ok(())
}

/// Compiles a device, and returns the path of the module.
fn compile(package: &Path, build: &Build, seeded: bool) -> Result<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(package).env("CARGO_ENCODED_RUSTFLAGS", build.flags);
    cargo.args(["build", "--locked", "--profile", build.profile]);
    cargo.args(["--package", build.package, "--target", TARGET]);
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
    let file = format!("{}.wasm", build.package.replace('-', "_"));
    let module = lines.split('"').rfind(|part| part.ends_with(&file));
    module.map(PathBuf::from).context("cargo named no module")
}
