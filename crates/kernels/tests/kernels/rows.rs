//! Buffers, element-wise sums and row selection: exact by definition.

use crate::support::{POISON, assert_bits, blank, cpu, download, noise, upload};
use isentrope_kernels::Backend;

#[test]
fn buffers_hold_what_is_written() {
    let cpu = cpu();
    let data = noise(1, 1000);
    let mut a = cpu.upload(&data);
    assert_eq!((cpu.len(&a), cpu.len(&cpu.buffer(0))), (1000, 0));
    cpu.write(&mut a, 997, &[7.0, 8.0]);
    let mut tail = [0.0; 4];
    cpu.read(&a, 996, &mut tail);
    assert_bits("tail", &tail, &[data[996], 7.0, 8.0, data[999]]);
    let mut b = blank(cpu, 10);
    cpu.copy(&a, 990, &mut b, 2, 8);
    let b = download(cpu, &b, 10);
    assert_bits("copied", &b, &[&[POISON, POISON][..], &data[990..997], &[7.0]].concat());
    drop(a);
    // Recycled memory is not taken for zeros.
    cpu.with_host(&cpu.zeros(1000), 1000, |x| assert_bits("zeros", x, &[0.0; 1000]));
    cpu.trim();
}

#[test]
fn rows_are_gathered_and_scattered() {
    let cpu = cpu();
    for features in [1, 7, 16, 65, 1000] {
        let from = noise(1, 90 * features);
        let rows: Vec<u32> = (0..90).filter(|r| r % 3 != 1 && !(20..40).contains(r)).collect();
        let mut gathered = blank(cpu, rows.len() * features);
        cpu.gather_rows(features, &upload(cpu, &from), &rows, &mut gathered);
        let mut want: Vec<f32> = Vec::new();
        rows.iter().for_each(|&r| want.extend(&from[r as usize * features..][..features]));
        assert_bits("gathered", &download(cpu, &gathered, want.len()), &want);

        let mut scattered = blank(cpu, 90 * features);
        cpu.scatter_rows(features, &gathered, &rows, &mut scattered, 90);
        let want: Vec<f32> = (0..90 * features)
            .map(|i| if rows.contains(&((i / features) as u32)) { from[i] } else { 0.0 })
            .collect();
        assert_bits("scattered", &download(cpu, &scattered, want.len()), &want);
    }
}

#[test]
#[should_panic(expected = "rows must ascend")]
fn rows_that_do_not_ascend_are_refused() {
    let cpu = cpu();
    cpu.scatter_rows(2, &cpu.zeros(4), &[1, 0], &mut cpu.zeros(8), 4);
}

#[test]
fn tasks_run_once_each() {
    let cpu = cpu();
    let counts: Vec<_> = (0..100).map(|_| std::sync::atomic::AtomicUsize::new(0)).collect();
    let order = std::sync::atomic::Ordering::Relaxed;
    cpu.parallel(100, |i| {
        counts[i].fetch_add(1, order);
    });
    assert!(counts.iter().all(|c| c.load(order) == 1));
}
