//! Operations on ciphertexts for every ring degree in use, at the top level, in the middle and near the
//! bottom.
//!
//! Ids: `ckks/OPERATION/set=SET/n=2^15/l=LEVEL/threads=T`, the level before the operation. Bits of precision
//! are measured against the clear message and printed beside the time.

mod support;

use criterion::{Criterion, criterion_group, criterion_main};
use support::Bench;
use support::operations::Fixture;

fn operations(c: &mut Criterion) {
    let mut bench = Bench::new(c);
    for (label, spec) in support::sets() {
        let mut fixture = Fixture::new(spec);
        let top = fixture.params.max_level();
        let mut levels = vec![top, top / 2, 2];
        levels.dedup();
        for level in levels {
            for mut op in fixture.operations(level) {
                let id = format!("ckks/{}/set={label}/n=2^{}/l={level}", op.name, spec.log_n);
                let fact = op.judge();
                bench.time(&id, true, fact, || op.run());
            }
        }
    }
}

criterion_group! {
    name = benches;
    config = support::config();
    targets = operations
}
criterion_main!(benches);
