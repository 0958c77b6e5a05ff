//! Time and bytes of encrypted sums: `cargo run --release -p sum-authority --example encrypted_sum -- 1000`.

use secure_sum::encrypted::{Adder, SumRing, encrypt};
use std::time::Instant;
use sum_authority::Authority;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let users: u32 = std::env::args().nth(1).map_or(Ok(1000), |n| n.parse())?;
    let mut rng = host::os_rng()?;
    let ring = SumRing::for_users(users)?;
    let authority = Authority::generate(ring, &mut rng);
    let key = authority.public_key();
    let mut adder = Adder::new(ring, key.id(ring.params()));
    let (mut encrypting, mut adding, mut bytes) = (0.0, 0.0, 0);
    for user in 0..users {
        let begin = Instant::now();
        let value = encrypt(ring, key, i128::from(user), &mut rng)?;
        encrypting += begin.elapsed().as_secs_f64();
        bytes += value.len();
        let begin = Instant::now();
        adder.add(&value)?;
        adding += begin.elapsed().as_secs_f64();
    }
    let begin = Instant::now();
    let sum = authority.open(&adder.to_bytes(), users)?;
    let opening = begin.elapsed().as_secs_f64();
    assert_eq!(sum.total, i128::from(users) * (i128::from(users) - 1) / 2);
    let each = 1e6 / f64::from(users);
    println!("what,value,unit");
    println!("ciphertexts: users,{users},users");
    println!("ciphertexts: payload a user,{},B", bytes / users as usize);
    println!("ciphertexts: encrypting a user,{:.0},us", encrypting * each);
    println!("ciphertexts: reading and adding a user,{:.0},us", adding * each);
    println!("ciphertexts: opening a sum,{:.0},us", opening * 1e6);
    Ok(())
}
