//! A device's memory, whose type only its backend knows, so that a model can hold the memory of any
//! backend.

use std::any::Any;

macro_rules! erased {
    ($($(#[$doc:meta])* $name:ident: $($bound:ident)+;)*) => {$(
        $(#[$doc])*
        pub struct $name(Box<dyn Any $(+ $bound)+>);

        impl $name {
            /// Wraps a value of a backend.
            pub fn new(own: impl Any $(+ $bound)+) -> Self {
                Self(Box::new(own))
            }

            /// The value, as the type of the backend that made it.
            ///
            /// # Panics
            /// When another backend made it.
            #[track_caller]
            pub fn of<T: Any>(&self) -> &T {
                self.0.downcast_ref().unwrap_or_else(|| another_backend(stringify!($name)))
            }

            /// The value, mutable.
            #[track_caller]
            pub fn of_mut<T: Any>(&mut self) -> &mut T {
                self.0.downcast_mut().unwrap_or_else(|| another_backend(stringify!($name)))
            }

            /// Unwraps the value.
            #[track_caller]
            pub fn into_own<T: Any>(self) -> T {
                *self.0.downcast().unwrap_or_else(|_| another_backend(stringify!($name)))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )*};
}

erased! {
    /// Memory on the device, which knows its [`Role`](crate::Role).
    Buffer: Send Sync;
    /// An uploaded [`HostBatch`](crate::HostBatch).
    DeviceBatch: Send Sync;
    /// Uploaded numbers: of rows, of slots, of tokens.
    DeviceIndex: Send Sync;
    /// A choice of experts for some tokens: see [`Routing`](crate::Routing).
    DeviceRoutes: Send Sync;
    /// Statistics that [`head`](crate::Backend::head) computes for its rows.
    HeadStatistics: Send Sync;
    /// Draws that [`begin_draw`](crate::Backend::begin_draw) has begun.
    QueuedDraws: Send;
    /// The tokens of [`QueuedDraws`], which can be fed to a step.
    DrawnTokens: Send Sync;
}

#[cold]
#[track_caller]
fn another_backend(what: &str) -> ! {
    panic!("a {what} goes to the backend that made it")
}
