use ckks::{LOGN15_LOGQP864_DEPTH21,GaloisElement,EvaluationKeys,Evaluator,Plaintext}; use ckks_secret::{SecretKey,relin_key,galois_key,encrypt}; use num_complex::Complex64; use rand::SeedableRng; use std::{sync::Arc,time::Instant};
fn main(){ if std::env::args().count()>1 {only();return;} ntt();
 let p=LOGN15_LOGQP864_DEPTH21.validate().unwrap(); let mut r=rand_chacha::ChaCha20Rng::seed_from_u64(1);
 println!("logqp {:.1} digit limbs {} digits {}",p.log_qp(),p.digit_limbs(),p.digits(21));
 let s=SecretKey::generate(&p,&mut r);
 let t=Instant::now(); let rk=relin_key(&s,21,&mut r); println!("relin keygen {:?}",t.elapsed());
 let g=GaloisElement::rotation(&p,1);
 let mut keys=EvaluationKeys{relin:Some(Arc::new(rk)),..Default::default()};
 keys.galois.insert(g,Arc::new(galois_key(&s,g,21,&mut r)));
 println!("key bytes {}",keys.bytes()/2);
 let e=Evaluator::new(p.clone(),keys);
 let v=vec![Complex64::new(0.5,0.1);1024];
 for l in [21,19,14,8,3]{
  let t=Instant::now(); let m=Plaintext::encode(&p,&v,l).unwrap(); let te=t.elapsed();
  let t=Instant::now(); let sc=encrypt(&s,&m,&mut r); let ts=t.elapsed();
  let a=sc.expand(&s);
  let med=|f:&dyn Fn()|{let mut x:Vec<_>=(0..9).map(|_|{let t=Instant::now();f();t.elapsed()}).collect();x.sort();x[4]};
  println!("l={l} encode {te:?} enc {ts:?} mul {:?} rot {:?} rescale {:?} add {:?} many4 {:?}",med(&||{e.mul(&a,&a).unwrap();}),med(&||{e.rotate(&a,1).unwrap();}),med(&||{e.rescale(a.clone()).unwrap();}),med(&||{let mut b=a.clone();e.add_assign(&mut b,&a).unwrap();}),med(&||{e.rotate_many(&a,&[1,1,1]).unwrap();}));
 }
}
#[allow(dead_code)]
pub fn ntt(){
 let p=LOGN15_LOGQP864_DEPTH21.validate().unwrap();
 let b=p.qp_basis(21); 
 for i in [0usize,1,21,23]{ let t=&b.tables()[i]; let mut x:Vec<u64>=(0..32768u64).collect(); let s=Instant::now(); for _ in 0..200{t.forward(&mut x);} println!("ntt {} bits {:?}",b.modulus(i).bits(),s.elapsed()/200); let s=Instant::now(); for _ in 0..200{t.inverse(&mut x);} println!("intt {:?}",s.elapsed()/200);}
 let m=b.modulus(3); let xs:Vec<Vec<u64>>=(0..6).map(|k|(0..32768u64).map(|i|i*7+k).collect()).collect(); let v:Vec<&[u64]>=xs.iter().map(|x|&x[..]).collect(); let mut o=vec![0;32768]; let mut o2=vec![0;32768];
 let s=Instant::now(); for _ in 0..1000{rns::combine(m,&mut o,&v[..5],&[1,2,3,4,5]);} println!("combine5 {:?}",s.elapsed()/1000);
 let s=Instant::now(); for _ in 0..1000{rns::inner_products(m,&mut o,&mut o2,&v,&v,&v);} println!("inner6 {:?}",s.elapsed()/1000);
}
fn only(){
 let p=LOGN15_LOGQP864_DEPTH21.validate().unwrap(); let mut r=rand_chacha::ChaCha20Rng::seed_from_u64(1);
 let s=SecretKey::generate(&p,&mut r); let g=GaloisElement::rotation(&p,1);
 let mut keys=EvaluationKeys::default(); keys.galois.insert(g,Arc::new(galois_key(&s,g,21,&mut r)));
 let e=Evaluator::new(p.clone(),keys); let v=vec![Complex64::new(0.5,0.1);1024];
 let a=encrypt(&s,&Plaintext::encode(&p,&v,21).unwrap(),&mut r).expand(&s);
 let t=Instant::now(); for _ in 0..100{ e.rotate(&a,1).unwrap(); } println!("{:?}",t.elapsed()/100);
}
