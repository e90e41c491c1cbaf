//! Declares kernels in Rust, and launches them.
//!
//! The type of a [`Kernel`] is the only list of its parameters in Rust. The compiler compares
//! launches with it, and a test compares it with the signature in the `.cu` file.
//!
//! ```ignore
//! static NORM: Source = Source { file: "norm.cu", text: include_str!("../kernels/norm.cu") };
//! /// x, weight, y, features, rows, eps.
//! static RMS_NORM_F32: Kernel<(Pointer, Pointer, Pointer, usize, usize, f32)> =
//!     Kernel::new("rms_norm_f32", &NORM);
//!
//! let grid = Grid::line(rows.div_ceil(8), 128);
//! RMS_NORM_F32.launch(&device, grid, (x, weight, y, features, rows, eps));
//! ```

use crate::device::{Device, Memory};
use std::marker::PhantomData;

/// A file of kernels in `kernels/`.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// The file's name in the folder `kernels`, such as `norm.cu`.
    pub file: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// The files that kernels may include.
pub static HEADERS: &[Source] = &[
    Source { file: "device.h", text: include_str!("../kernels/device.h") },
    Source { file: "numbers.h", text: include_str!("../kernels/numbers.h") },
    Source { file: "ahead.h", text: include_str!("../kernels/ahead.h") },
    Source { file: "delta_rule.h", text: include_str!("../kernels/delta_rule.h") },
    Source { file: "parts.h", text: include_str!("../kernels/parts.h") },
    Source { file: "tiles.h", text: include_str!("../kernels/tiles.h") },
    Source { file: "splits.h", text: include_str!("../kernels/splits.h") },
];

/// A kernel with the parameters `P`: a tuple of [`Pointer`], `usize`, `bool`, `u32`, `u64` and
/// `f32`. `usize`, `bool` and `u32` are `unsigned` in the kernel.
#[derive(Debug)]
pub struct Kernel<P> {
    function: Function,
    parameters: PhantomData<fn(P)>,
}

impl<P: Arguments> Kernel<P> {
    /// The kernel that is called `name` in `source`.
    pub const fn new(name: &'static str, source: &'static Source) -> Self {
        Self { function: Function { name, source, parameters: P::KINDS }, parameters: PhantomData }
    }

    /// The kernel without its type.
    pub const fn function(&self) -> &Function {
        &self.function
    }

    /// Launches it. See [`Device::launch`].
    ///
    /// # Panics
    /// When the grid is more than the device's limits allow.
    pub fn launch(&self, device: &impl Launch, grid: Grid, arguments: P) {
        arguments.with(|arguments| device.launch(&self.function, grid, arguments));
    }
}

/// Launches kernels at once, as a device does, or in order behind other calls, as a stream does.
pub trait Launch {
    /// As [`Device::launch`].
    fn launch(&self, function: &Function, grid: Grid, arguments: &[Argument]);
}

impl<D: Device> Launch for D {
    fn launch(&self, function: &Function, grid: Grid, arguments: &[Argument]) {
        Device::launch(self, function, grid, arguments);
    }
}

/// A kernel without the types of its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name in C.
    pub name: &'static str,
    /// Its source.
    pub source: &'static Source,
    /// Its parameters.
    pub parameters: &'static [ArgumentKind],
}

impl Function {
    /// Compares arguments with the parameters.
    ///
    /// # Panics
    /// When they differ in number or kind.
    pub fn check(&self, arguments: &[Argument]) {
        let given: Vec<ArgumentKind> = arguments.iter().map(|argument| argument.kind()).collect();
        assert!(
            given == self.parameters,
            "the kernel {} takes {:?}, but is given {given:?}",
            self.name,
            self.parameters
        );
    }
}

/// An address on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer(pub u64);

impl Pointer {
    /// No address.
    pub const NULL: Self = Self(0);

    /// The address of a memory.
    pub fn of(memory: &Memory) -> Self {
        Self(memory.address())
    }

    /// The address `offset` bytes into a memory, up to its end.
    ///
    /// # Panics
    /// When that is beyond its end.
    pub fn at(memory: &Memory, offset: usize) -> Self {
        assert!(
            offset <= memory.bytes(),
            "offset {offset} of a memory of {} bytes",
            memory.bytes()
        );
        Self(memory.address() + offset as u64)
    }
}

/// The kind of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// An address, 8 bytes.
    Pointer,
    /// `unsigned`.
    U32,
    /// `unsigned long long`.
    U64,
    /// `float`.
    F32,
}

/// One argument of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument {
    /// An address.
    Pointer(u64),
    /// `unsigned`.
    U32(u32),
    /// `unsigned long long`.
    U64(u64),
    /// `float`.
    F32(f32),
}

impl Argument {
    /// Its kind.
    pub fn kind(self) -> ArgumentKind {
        match self {
            Self::Pointer(_) => ArgumentKind::Pointer,
            Self::U32(_) => ArgumentKind::U32,
            Self::U64(_) => ArgumentKind::U64,
            Self::F32(_) => ArgumentKind::F32,
        }
    }

    /// The argument's bytes as the device reads them, lowest first.
    pub fn bits(self) -> u64 {
        match self {
            Self::Pointer(v) | Self::U64(v) => v,
            Self::U32(v) => u64::from(v),
            Self::F32(v) => u64::from(v.to_bits()),
        }
    }
}

/// One value as an argument.
trait Value: Copy {
    const KIND: ArgumentKind;
    fn argument(self) -> Argument;
}

impl Value for Pointer {
    const KIND: ArgumentKind = ArgumentKind::Pointer;
    fn argument(self) -> Argument {
        Argument::Pointer(self.0)
    }
}

/// A size or a count, as `unsigned`.
///
/// # Panics
/// When it does not fit.
impl Value for usize {
    const KIND: ArgumentKind = ArgumentKind::U32;
    fn argument(self) -> Argument {
        Argument::U32(word(self))
    }
}

/// A flag, as `unsigned`: 0 or 1.
impl Value for bool {
    const KIND: ArgumentKind = ArgumentKind::U32;
    fn argument(self) -> Argument {
        Argument::U32(u32::from(self))
    }
}

/// A size or a count as the 32 bits that kernels take.
///
/// # Panics
/// When it does not fit.
pub(crate) fn word(n: usize) -> u32 {
    u32::try_from(n).expect("a dimension of an operation fits 32 bits")
}

macro_rules! value {
    ($($rust:ty: $kind:ident;)*) => {$(
        impl Value for $rust {
            const KIND: ArgumentKind = ArgumentKind::$kind;
            fn argument(self) -> Argument {
                Argument::$kind(self)
            }
        }
    )*};
}
value! {
    u32: U32;
    u64: U64;
    f32: F32;
}

/// Tuples of arguments.
pub trait Arguments {
    /// Their kinds.
    const KINDS: &'static [ArgumentKind];
    /// Calls `f` with the arguments.
    fn with<R>(self, f: impl FnOnce(&[Argument]) -> R) -> R;
}

/// Implements the trait for tuples of this length and of all shorter ones.
macro_rules! arguments {
    ($first:ident $($rest:ident)*) => {
        arguments!(@ $first $($rest)*);
        arguments!($($rest)*);
    };
    () => {};
    (@ $($T:ident)*) => {
        #[allow(private_bounds, reason = "which types may be arguments is decided above")]
        impl<$($T: Value),*> Arguments for ($($T,)*) {
            const KINDS: &'static [ArgumentKind] = &[$($T::KIND),*];
            #[allow(non_snake_case, reason = "a value is named as its type")]
            fn with<R>(self, f: impl FnOnce(&[Argument]) -> R) -> R {
                let ($($T,)*) = self;
                f(&[$($T.argument()),*])
            }
        }
    };
}
arguments!(A B C D E F G H I J K L M N O P Q S T U);

/// Numbers along x, y and z.
pub type Dim = [u32; 3];

/// The blocks of a launch, and their threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The number of blocks in each dimension.
    pub blocks: Dim,
    /// Threads of a block: a multiple of 32, in one row.
    pub threads: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
}

impl Grid {
    /// Blocks in a row.
    ///
    /// # Panics
    /// When there are 2^31 or more of them.
    pub fn line(blocks: usize, threads: u32) -> Self {
        Self::new([blocks, 1, 1], threads)
    }

    /// Blocks in up to three dimensions.
    ///
    /// # Panics
    /// When there are 2^31 or more of them in one of these.
    pub fn new(blocks: [usize; 3], threads: u32) -> Self {
        let blocks = blocks.map(|n| {
            let whole = u32::try_from(n).ok().filter(|&n| n < 1 << 31);
            whole.unwrap_or_else(|| panic!("a launch of {n} blocks in one dimension"))
        });
        Self { blocks, threads, shared: 0 }
    }

    /// This grid with `shared` bytes of dynamic shared memory a block.
    pub fn with_shared(self, shared: u32) -> Self {
        Self { shared, ..self }
    }
}
