//! Buffers, element-wise sums and row selection: exact by definition.

use crate::support::{POISON, assert_bits, blank, cpu, download, noise, upload};
use isentrope_kernels::{Backend, Cpu, Isa};

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
fn rows_are_stored_in_slots() {
    for threads in [1, 3] {
        let cpu = Cpu::new(Isa::available()[0], threads).unwrap();
        for features in [1, 7, 16, 65, 1000] {
            let from = noise(1, 90 * features);
            let rows: Vec<u32> = (0..90).filter(|r| r % 4 != 1).collect();
            let slots: Vec<u32> = rows.iter().map(|r| (r * 37 + 5) % 101).collect();
            let mut stored = blank(&cpu, 101 * features);
            cpu.store_rows(features, &upload(&cpu, &from), &rows, &mut stored, &slots);
            let mut want = vec![POISON; 101 * features];
            for (&row, &slot) in rows.iter().zip(&slots) {
                want[slot as usize * features..][..features]
                    .copy_from_slice(&from[row as usize * features..][..features]);
            }
            assert_bits("stored", &download(&cpu, &stored, want.len()), &want);
        }
    }
    let (cpu, mut stored) = (cpu(), blank(cpu(), 40));
    cpu.store_rows(20, &upload(cpu, &noise(2, 60)), &[], &mut stored, &[]);
    cpu.store_rows(20, &upload(cpu, &noise(2, 60)), &[0, 2], &mut stored, &[1, 1]);
    assert_bits("the last one stays", &download(cpu, &stored, 40)[20..], &noise(2, 60)[40..]);
}

#[test]
#[should_panic(expected = "a slot beyond the end")]
fn rows_are_not_stored_beyond_the_end() {
    let cpu = cpu();
    cpu.store_rows(20, &cpu.buffer(60), &[0], &mut cpu.buffer(59), &[2]);
}

#[test]
fn rows_scattered_to_one_place_are_added_in_order() {
    let (cpu, from) = (cpu(), noise(2, 3 * 20));
    let mut scattered = blank(cpu, 2 * 20);
    cpu.scatter_rows(20, &upload(cpu, &from), &[1, 1, 1], &mut scattered, 2);
    let want: Vec<f32> =
        (0..40).map(|i| if i < 20 { 0.0 } else { from[i - 20] + from[i] + from[i + 20] }).collect();
    assert_bits("sums", &download(cpu, &scattered, 40), &want);
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
