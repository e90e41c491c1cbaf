//! Buffers and row selection: exact by definition.

use crate::data::{POISON, assert_bits};
use crate::device::Trial;
use crate::properties;
use isentrope_kernels::{Buffer, Kind, Linear, Role};

properties!(
    buffers_hold_what_is_written,
    memory_that_there_is_not_is_refused,
    rows_are_copied_and_scattered,
    rows_are_stored_in_slots,
    rows_scattered_to_one_place_are_added_in_order,
    rows_are_scaled,
    first_rows_are_added,
    gradients_are_multiplied_when_all_tokens_are_in,
    buffers_are_added_number_by_number,
    gradients_that_travel_as_numbers_add_up_as_on_the_device
);

fn buffers_hold_what_is_written(trial: &Trial) {
    let device = trial.device();
    let role = Role::Activation(500, 2);
    let data = device.noise(role, 1);
    let mut a = device.upload(role, &data);
    device.write(&mut a, 499, &[7.0, 8.0]);
    let mut tail = [0.0; 4];
    device.read(&a, 498, &mut tail);
    assert_bits("tail", &tail, &[data[996], data[997], 7.0, 8.0]);
    let mut b = device.blank(Role::Activation(5, 2));
    device.copy_first_rows(&a, &mut b, 4);
    let b = device.download(Role::Activation(5, 2), &b);
    assert_bits("copied", &b, &[&data[..8], &[POISON, POISON][..]].concat());
    drop(a);
    // Recycled memory is not taken for zeros.
    let zeros = device.zeros(role);
    let mut read = vec![POISON; 1000];
    device.read(&zeros, 0, &mut read);
    assert_bits("zeros", &read, &[0.0; 1000]);
    device.trim();
}

fn memory_that_there_is_not_is_refused(trial: &Trial) {
    let device = trial.device();
    let absurd = Linear { inputs: usize::MAX / 2, outputs: usize::MAX - 3 };
    let role = Role::Weight(Kind::Matrix(absurd));
    assert_eq!(device.bytes(role), usize::MAX);
    let refused = device.allocate(role).err().unwrap();
    assert_eq!(refused.asked, usize::MAX);
    assert!(
        refused.to_string().starts_with("cannot allocate 17592186044416 MiB of memory: "),
        "{refused}"
    );
}

fn rows_are_copied_and_scattered(trial: &Trial) {
    let device = trial.device();
    for features in [1, 7, 16, 65, 1000] {
        let role = |rows| Role::Activation(rows, features);
        let from = device.noise(role(90), 1);
        let rows: Vec<u32> = (0..90).filter(|r| r % 3 != 1 && !(20..40).contains(r)).collect();
        let (mut copied, index) = (device.blank(role(rows.len())), device.upload_index(&rows));
        device.copy_rows(&device.upload(role(90), &from), &index, &mut copied);
        let mut want: Vec<f32> = Vec::new();
        rows.iter().for_each(|&r| want.extend(&from[r as usize * features..][..features]));
        assert_bits("copied", &device.download(role(rows.len()), &copied), &want);

        let mut scattered = device.blank(role(90));
        device.scatter_rows(&copied, &index, &mut scattered, 90);
        let want: Vec<f32> = (0..90 * features)
            .map(|i| if rows.contains(&((i / features) as u32)) { from[i] } else { 0.0 })
            .collect();
        assert_bits("scattered", &device.download(role(90), &scattered), &want);
    }
}

fn rows_are_stored_in_slots(trial: &Trial) {
    for device in trial.devices() {
        for features in [1, 7, 16, 65, 1000] {
            let role = |rows| Role::Activation(rows, features);
            let from = device.noise(role(90), 1);
            let rows: Vec<u32> = (0..90).filter(|r| r % 4 != 1).collect();
            let slots: Vec<u32> = rows.iter().map(|r| (r * 37 + 5) % 101).collect();
            let mut stored = device.blank(role(101));
            let (from_rows, to_slots) = (device.upload_index(&rows), device.upload_index(&slots));
            device.store_rows(&device.upload(role(90), &from), &from_rows, &mut stored, &to_slots);
            let mut want = vec![POISON; 101 * features];
            for (&row, &slot) in rows.iter().zip(&slots) {
                want[slot as usize * features..][..features]
                    .copy_from_slice(&from[row as usize * features..][..features]);
            }
            assert_bits("stored", &device.download(role(101), &stored), &want);
        }
    }
    let (device, role) = (trial.device(), |rows| Role::Activation(rows, 20));
    let from = device.noise(role(3), 2);
    let (device_from, none) = (device.upload(role(3), &from), device.upload_index(&[]));
    let mut stored = device.blank(role(2));
    device.store_rows(&device_from, &none, &mut stored, &none);
    device.store_rows(
        &device_from,
        &device.upload_index(&[0, 2]),
        &mut stored,
        &device.upload_index(&[1, 1]),
    );
    assert_bits("the last one stays", &device.download(role(2), &stored)[20..], &from[40..]);
}

fn rows_scattered_to_one_place_are_added_in_order(trial: &Trial) {
    let (device, role) = (trial.device(), |rows| Role::Activation(rows, 20));
    let from = device.noise(role(3), 2);
    let mut scattered = device.blank(role(2));
    device.scatter_rows(
        &device.upload(role(3), &from),
        &device.upload_index(&[1, 1, 1]),
        &mut scattered,
        2,
    );
    let sum = |i: usize| if i < 20 { 0.0 } else { from[i - 20] + from[i] + from[i + 20] };
    let want = device.seen(role(2), (0..40).map(sum).collect());
    assert_bits("sums", &device.download(role(2), &scattered), &want);
}

/// Ranks exchange gradients as elements, in pieces, and add them on the host. The sums are the
/// device's own.
fn gradients_that_travel_as_numbers_add_up_as_on_the_device(trial: &Trial) {
    let device = trial.device();
    for kind in [Kind::Vector(37), Kind::Matrix(Linear { inputs: 20, outputs: 33 })] {
        let role = Role::Gradient(kind);
        let [a, b] = [1, 2].map(|seed| {
            let mut gradient = device.zeros(role);
            device.pack(kind, 0, &device.noise(role, seed), &mut gradient);
            gradient
        });
        let numbers = |of: &_| -> Vec<f32> {
            let mut numbers = vec![POISON; device.element_count(kind)];
            let pieces = numbers.chunks_mut(100).enumerate();
            pieces.for_each(|(i, piece)| device.read_elements(of, 100 * i, piece));
            numbers
        };
        let sums: Vec<f32> =
            numbers(&a).iter().zip(numbers(&b)).map(|(a, b)| (0.0 + a) + b).collect();
        let mut travelled = device.zeros(role);
        for (i, piece) in sums.chunks(77).enumerate() {
            device.write_elements(&mut travelled, 77 * i, piece);
        }
        let mut added = device.zeros(role);
        device.add(&a, &mut added);
        device.add(&b, &mut added);
        let values = |of| {
            let mut values = device.noise(role, 3);
            device.unpack(kind, 0, of, &mut values);
            values
        };
        assert_bits("sums", &values(&travelled), &values(&added));
        assert_bits("with what pads them", &numbers(&travelled), &numbers(&added));
    }
}

/// Each column by its factor; later rows stay.
fn rows_are_scaled(trial: &Trial) {
    for device in trial.devices() {
        for features in [1, 7, 16, 65, 1000] {
            let (role, of_factors) = (Role::Activation(90, features), Role::Exact(1, features));
            let (x, factors) = (device.noise(role, 1), device.noise(of_factors, 2));
            let mut scaled = device.upload(role, &x);
            device.scale_rows(&device.upload(of_factors, &factors), &mut scaled, 70);
            let scale =
                |i: usize| if i < 70 * features { x[i] * factors[i % features] } else { x[i] };
            let want = device.seen(role, (0..x.len()).map(scale).collect());
            assert_bits("scaled", &device.download(role, &scaled), &want);
        }
    }
}

/// Rows of longer buffers; later rows stay.
fn first_rows_are_added(trial: &Trial) {
    for device in trial.devices() {
        for features in [1, 7, 16, 65, 1000] {
            let [role, longer] = [90, 101].map(|rows| Role::Activation(rows, features));
            let (from, before) = (device.noise(longer, 1), device.noise(role, 2));
            let mut sums = device.upload(role, &before);
            device.add_rows(&device.upload(longer, &from), &mut sums, 70);
            let sum = |i: usize| if i < 70 * features { before[i] + from[i] } else { before[i] };
            let want = device.seen(role, (0..before.len()).map(sum).collect());
            assert_bits("sums", &device.download(role, &sums), &want);
        }
    }
}

/// Tokens that a backend holds back until a gradient is read are multiplied as well.
fn gradients_are_multiplied_when_all_tokens_are_in(trial: &Trial) {
    let shape = Linear { inputs: 20, outputs: 33 };
    for device in trial.devices() {
        for kind in [Kind::Vector(37), Kind::Matrix(shape)] {
            let role = Role::Gradient(kind);
            // Without poison behind them, because whole buffers are multiplied.
            let of_values = |values: &[f32]| {
                let mut gradient = device.zeros(role);
                device.pack(kind, 0, values, &mut gradient);
                gradient
            };
            let accumulated = || {
                let mut gradient = of_values(&device.noise(role, 1));
                if let Kind::Matrix(shape) = kind {
                    let dy = device.upload_noise(Role::Activation(19, shape.outputs), 2);
                    let x = device.upload_noise(Role::Activation(19, shape.inputs), 3);
                    device.linear_backward_weight(shape, &dy, &x, &mut gradient, 19);
                }
                gradient
            };
            let values = |of: &Buffer| {
                let mut values = device.noise(role, 4);
                device.unpack(kind, 0, of, &mut values);
                values
            };
            let factors: Vec<f32> = device.noise(role, 5).iter().map(|x| x.round()).collect();
            let want: Vec<f32> =
                values(&accumulated()).iter().zip(&factors).map(|(x, factor)| x * factor).collect();
            let mut multiplied = accumulated();
            device.multiply(&of_values(&factors), &mut multiplied);
            assert_bits("products", &values(&multiplied), &want);
        }
    }
}

fn buffers_are_added_number_by_number(trial: &Trial) {
    let device = trial.device();
    for len in [1, 17, 100_000] {
        let role = Role::Activation(len, 1);
        let (mut a, mut b) = (device.noise(role, 1), device.noise(role, 2));
        (a[0], b[0]) = (-0.0, 0.0);
        let sums = device.seen(role, a.iter().zip(&b).map(|(a, b)| a + b).collect());
        // Without poison behind them, because the whole buffers are added, and two NaNs may give a
        // third.
        let [from, mut to] = [&b, &a].map(|data| {
            let mut buffer = device.buffer(role);
            device.write(&mut buffer, 0, data);
            buffer
        });
        device.add(&from, &mut to);
        let mut got = vec![POISON; len];
        device.read(&to, 0, &mut got);
        assert_bits("sums", &got, &sums);
    }
}
