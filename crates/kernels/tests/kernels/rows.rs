//! Buffers, element-wise sums and row selection: exact by definition.

use crate::support::{POISON, assert_bits, blank, cpu, download, noise, upload, zeros};
use isentrope_kernels::{Attention, Backend, Cpu, Isa, Kind, Linear, Role};

#[test]
fn buffers_hold_what_is_written() {
    let cpu = cpu();
    let data = noise(1, 1000);
    let mut a = upload(cpu, 2, &data);
    cpu.write(&mut a, 499, &[7.0, 8.0]);
    let mut tail = [0.0; 4];
    cpu.read(&a, 498, &mut tail);
    assert_bits("tail", &tail, &[data[996], data[997], 7.0, 8.0]);
    let mut b = blank(cpu, 5, 2);
    cpu.copy(&a, &mut b, 4);
    let b = download(&b, 10);
    assert_bits("copied", &b, &[&data[..8], &[POISON, POISON][..]].concat());
    drop(a);
    // Recycled memory is not taken for zeros.
    assert_bits("zeros", &zeros(cpu, 500, 2), &[0.0; 1000]);
    cpu.trim();
}

#[test]
fn buffers_take_the_bytes_that_are_told() {
    let (cpu, matrix) = (cpu(), Kind::Matrix(Linear { inputs: 3, outputs: 61 }));
    let shape = Attention { heads: 4, kv_heads: 2, head_dim: 10, window: None, scale: 1.0 };
    for (role, floats) in [
        (Role::Activation(5, 7), 35),
        (Role::Exact(0, 7), 0),
        (Role::Weight(Kind::Vector(61)), 61),
        (Role::Gradient(matrix), 3 * 64),
        (Role::Moment(matrix), 3 * 64),
        (Role::Cache { shape, layers: 3, pages: 5 }, 3 * 5 * 2 * 16 * (10 + 16)),
    ] {
        assert_eq!((cpu.bytes(role), cpu.allocate(role).unwrap().len()), (4 * floats, floats), "{role:?}");
    }
    let absurd = Kind::Matrix(Linear { inputs: usize::MAX / 2, outputs: usize::MAX - 3 });
    assert_eq!(cpu.bytes(Role::Weight(absurd)), usize::MAX);
    let refused = cpu.allocate(Role::Weight(absurd)).err().unwrap();
    assert_eq!(refused.asked, usize::MAX);
    assert!(refused.to_string().starts_with("cannot allocate 17592186044416 MiB of memory: "), "{refused}");
}

#[test]
fn rows_are_gathered_and_scattered() {
    let cpu = cpu();
    for features in [1, 7, 16, 65, 1000] {
        let from = noise(1, 90 * features);
        let rows: Vec<u32> = (0..90).filter(|r| r % 3 != 1 && !(20..40).contains(r)).collect();
        let (mut gathered, index) = (blank(cpu, rows.len(), features), cpu.index(&rows));
        cpu.gather_rows(&upload(cpu, features, &from), &index, &mut gathered);
        let mut want: Vec<f32> = Vec::new();
        rows.iter().for_each(|&r| want.extend(&from[r as usize * features..][..features]));
        assert_bits("gathered", &download(&gathered, want.len()), &want);

        let mut scattered = blank(cpu, 90, features);
        cpu.scatter_rows(&gathered, &index, &mut scattered, 90);
        let want: Vec<f32> = (0..90 * features)
            .map(|i| if rows.contains(&((i / features) as u32)) { from[i] } else { 0.0 })
            .collect();
        assert_bits("scattered", &download(&scattered, want.len()), &want);
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
            let mut stored = blank(&cpu, 101, features);
            let (from_rows, to_slots) = (cpu.index(&rows), cpu.index(&slots));
            cpu.store_rows(&upload(&cpu, features, &from), &from_rows, &mut stored, &to_slots);
            let mut want = vec![POISON; 101 * features];
            for (&row, &slot) in rows.iter().zip(&slots) {
                want[slot as usize * features..][..features]
                    .copy_from_slice(&from[row as usize * features..][..features]);
            }
            assert_bits("stored", &download(&stored, want.len()), &want);
        }
    }
    let (cpu, mut stored) = (cpu(), blank(cpu(), 2, 20));
    let (from, none) = (upload(cpu, 20, &noise(2, 60)), cpu.index(&[]));
    cpu.store_rows(&from, &none, &mut stored, &none);
    cpu.store_rows(&from, &cpu.index(&[0, 2]), &mut stored, &cpu.index(&[1, 1]));
    assert_bits("the last one stays", &download(&stored, 40)[20..], &noise(2, 60)[40..]);
}

#[test]
#[should_panic(expected = "a slot beyond the end")]
fn rows_are_not_stored_beyond_the_end() {
    let cpu = cpu();
    cpu.store_rows(&zeros(cpu, 3, 20), &cpu.index(&[0]), &mut zeros(cpu, 2, 20), &cpu.index(&[2]));
}

#[test]
fn rows_scattered_to_one_place_are_added_in_order() {
    let (cpu, from) = (cpu(), noise(2, 3 * 20));
    let mut scattered = blank(cpu, 2, 20);
    cpu.scatter_rows(&upload(cpu, 20, &from), &cpu.index(&[1, 1, 1]), &mut scattered, 2);
    let want: Vec<f32> =
        (0..40).map(|i| if i < 20 { 0.0 } else { from[i - 20] + from[i] + from[i + 20] }).collect();
    assert_bits("sums", &download(&scattered, 40), &want);
}
