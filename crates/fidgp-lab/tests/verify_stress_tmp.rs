//! tmp
use fidgp_lab::verify::*;
#[test]
fn stress() {
    for p in [Precision::F64, Precision::F32] {
        let mut sum=(0,0);
        let mut worst: Vec<(f64,String)> = vec![];
        for i in 1..=200 {
            let Ok(f) = std::fs::read_to_string(format!("/tmp/stress/{i}.json")) else { continue };
            let rows = verify(&f, p, tch::Device::Cpu).unwrap();
            for r in &rows { if let Verdict::Failed(w) = &r.verdict { println!("{p:?} {i} {} {} {:?} {w}", r.case, r.quantity, r.rel_error); }
              if let (Some(e),Some(b)) = (r.rel_error,r.bound) { if b>0.0 && !r.quantity.contains("mc") { worst.push((e/b, format!("{i} {} {} {e:e}", r.case, r.quantity))); } } }
            let s = Summary::of(&rows); sum.0+=s.passed; sum.1+=s.failed;
        }
        worst.sort_by(|a,b| b.0.total_cmp(&a.0));
        for w in worst.iter().take(12) { println!("{w:?}"); }
        println!("{p:?} {sum:?}");
    }
}
