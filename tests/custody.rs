//! Servers cannot name a secret key: `ckks-secret` is on no dependency path of theirs, on any platform, with
//! any features. Devices compile no circuit of the server: messages and protocol are all that both share.
//!
//! Answered from the manifests of the workspace alone: these crates are published nowhere, so that only
//! members of the workspace can depend on them, and nothing has to be downloaded.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Workspace members that each member depends on, to build or to run it: optional ones and those of other
/// platforms too, those of tests not.
fn graph() -> BTreeMap<String, BTreeSet<String>> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let out = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let metadata: Value = serde_json::from_slice(&out.stdout).unwrap();
    let name = |package: &Value| package["name"].as_str().unwrap().to_string();
    let packages = metadata["packages"].as_array().unwrap();
    let members: BTreeSet<String> = packages.iter().map(name).collect();
    let of = |package: &Value| {
        let used = package["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"] != "dev");
        used.map(name).filter(|name| members.contains(name)).collect()
    };
    packages.iter().map(|package| (name(package), of(package))).collect()
}

/// A path from `from` to `to`, if there is one.
fn path(graph: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &str) -> Option<Vec<String>> {
    let mut paths = vec![vec![from.to_string()]];
    let mut seen = BTreeSet::new();
    while let Some(path) = paths.pop() {
        let last = &path[path.len() - 1];
        if last == to {
            return Some(path);
        }
        if seen.insert(last.clone()) {
            let longer = |next: &String| path.iter().chain([next]).cloned().collect();
            paths.extend(graph[last].iter().map(longer));
        }
    }
    None
}

#[test]
fn no_server_reaches_a_secret_key() {
    let graph = graph();
    for server in ["helba-server", "secure-sum"] {
        if let Some(path) = path(&graph, server, "ckks-secret") {
            panic!("{server} can name a secret key: {}", path.join(" → "));
        }
    }
}

/// The packages of a workspace as cargo describes them, without those from elsewhere.
fn packages(manifest: &str) -> Vec<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path", manifest]);
    let out = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let metadata: Value = serde_json::from_slice(&out.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// What a server of bootstraps would link depends on no secret half: key generation is a crate beside it. The
/// crate `tfhe` itself has types of secret keys (docs/argmax-by-bootstrapping.md). No package here uses it.
#[test]
fn bootstraps_of_a_server_reach_no_secret_half() {
    let used = |manifest: &str| {
        let packages = packages(manifest);
        move |name: &str| -> BTreeSet<String> {
            let package = packages.iter().find(|package| package["name"] == name).unwrap();
            let used = package["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"] != "dev");
            used.map(|d| d["name"].as_str().unwrap().to_string()).collect()
        }
    };
    let (here, there) = (used("Cargo.toml"), used("tfhe-argmax/Cargo.toml"));
    let graph = graph();
    for name in there("tfhe-argmax").iter().filter(|name| graph.contains_key(*name)) {
        assert!(path(&graph, name, "ckks-secret").is_none(), "{name} can name a secret key");
    }
    assert!(
        !there("tfhe-argmax").contains("ckks-secret") && !there("tfhe-argmax").contains("tfhe-argmax-secret")
    );
    assert!(there("tfhe-argmax-secret").contains("ckks-secret"), "the control");
    let named = graph.keys().flat_map(|name| here(name)).find(|name| name.starts_with("tfhe-argmax"));
    assert_eq!(named, None);
}

/// What a committee computes on shares is computed by its members alone, and neither they nor its devices
/// have a lattice.
#[test]
fn shares_are_computed_on_by_members_alone() {
    let graph = graph();
    for from in ["helba-server", "secure-sum", "keygen", "user-client", "helba-agent", "sum-authority"] {
        if let Some(path) = path(&graph, from, "committee") {
            panic!("{from} can compute with a share: {}", path.join(" → "));
        }
    }
    assert!(path(&graph, "helba-member", "committee").is_some(), "the control");
    assert!(path(&graph, "committee", "rns").is_none() && path(&graph, "committee", "shares").is_some());
    assert!(path(&graph, "shares", "ckks-secret").is_none());
}

/// The question above can be answered with yes: whoever may hold a secret key reaches it, servers reach
/// public ones.
#[test]
fn holders_reach_secret_keys_and_servers_public_ones() {
    let graph = graph();
    for (from, to) in [
        ("keygen", "ckks-secret"),
        ("user-client", "ckks-secret"),
        ("helba-agent", "ckks-secret"),
        ("sum-authority", "ckks-secret"),
        ("helba-server", "ckks"),
        ("secure-sum", "ckks"),
    ] {
        assert!(path(&graph, from, to).is_some(), "no path from {from} to {to}");
    }
}

/// A device checks a server's word by the formulas in `protocol`, and what it links is small enough to be
/// read.
#[test]
fn devices_reach_no_circuit_of_the_server() {
    let graph = graph();
    for circuits in ["helba", "circuits", "helba-server"] {
        for from in ["helba-agent", "user-client", "wire", "protocol"] {
            if let Some(path) = path(&graph, from, circuits) {
                panic!("{from} compiles the server's circuits: {}", path.join(" → "));
            }
        }
    }
    // The control: the server reaches them, and both reach the protocol.
    for (from, to) in [
        ("helba-server", "helba"),
        ("helba-server", "circuits"),
        ("helba-server", "protocol"),
        ("user-client", "protocol"),
    ] {
        assert!(path(&graph, from, to).is_some(), "no path from {from} to {to}");
    }
}

/// Devices outside of the workspace, in Python and in browsers, compile no circuit of the server either.
#[test]
fn devices_outside_of_the_workspace_reach_no_circuit_of_the_server() {
    let graph = graph();
    for manifest in ["clients/python/Cargo.toml", "clients/web/Cargo.toml"] {
        let packages = packages(manifest);
        let used = packages.iter().flat_map(|package| package["dependencies"].as_array().unwrap());
        let used: BTreeSet<&str> =
            used.filter(|d| d["kind"] != "dev").map(|d| d["name"].as_str().unwrap()).collect();
        let members: Vec<&str> = used.into_iter().filter(|name| graph.contains_key(*name)).collect();
        for circuits in ["helba", "circuits", "helba-server", "testkit"] {
            for from in &members {
                if let Some(path) = path(&graph, from, circuits) {
                    panic!("{manifest} compiles the server's circuits: {}", path.join(" → "));
                }
            }
        }
        assert!(members.contains(&"user-client"), "the control: {manifest} has {members:?}");
    }
}

/// A page of a committee's user loads nothing of encrypted bandits: its device compiles no ciphertexts and no
/// other device.
#[test]
fn the_browser_of_a_committee_reaches_no_ciphertext() {
    let (graph, packages) = (graph(), packages("clients/web/Cargo.toml"));
    let reaches = |device: &str, what: &str| {
        let package = packages.iter().find(|package| package["name"] == device).unwrap();
        let used = package["dependencies"].as_array().unwrap().iter().map(|d| d["name"].as_str().unwrap());
        used.filter(|name| graph.contains_key(*name)).any(|name| path(&graph, name, what).is_some())
    };
    for other in ["ckks", "helba", "user-client", "wire"] {
        assert!(!reaches("helba-web-committee", other), "{other}");
    }
    assert!(reaches("helba-web-committee", "shares") && reaches("helba-web", "ckks"), "the control");
}

/// Fixtures hold secret keys and fixed seeds: nothing but tests and benches may name them.
#[test]
fn nothing_is_built_with_fixtures() {
    let graph = graph();
    for (member, _) in graph.iter().filter(|(member, _)| *member != "testkit") {
        if let Some(path) = path(&graph, member, "testkit") {
            panic!("{member} is built with fixtures: {}", path.join(" → "));
        }
    }
    assert!(path(&graph, "testkit", "ckks-secret").is_some(), "the control");
}
