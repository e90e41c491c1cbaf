//! Functions of a library that was opened by its path.
//!
//! cudarc opens libraries by name. It may find another copy than the search has chosen, and it
//! panics if there is no copy or if it lacks a function. So only cudarc's types are used here, and
//! functions are looked up in the chosen copy.

use libloading::Library;
use std::path::Path;

/// Opens a library, which stays until the process ends: its functions are called through pointers
/// without a lifetime.
///
/// # Errors
/// The loader's reason.
pub(super) fn open(path: &Path) -> Result<&'static Library, String> {
    // SAFETY: the library runs its own initialisers when it is loaded. They are sound if it is
    // NVIDIA's, which follows from its name and the searched directories, or from the user who has
    // named it.
    match unsafe { Library::new(path) } {
        Ok(library) => Ok(Box::leak(Box::new(library))),
        Err(error) => Err(match std::error::Error::source(&error) {
            Some(source) => source.to_string(),
            None => error.to_string(),
        }),
    }
}

/// Declares a table of functions with C's calling convention, and fills it from a library.
macro_rules! functions {
    ($(#[$doc:meta])* $visibility:vis struct $table:ident {
        $($name:ident($($argument:ty),* $(,)?) -> $result:ty;)*
    }) => {
        $(#[$doc])*
        #[allow(non_snake_case, reason = "names of the library")]
        #[derive(Clone, Copy)]
        $visibility struct $table {
            $($visibility $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl $table {
            /// Their names.
            #[cfg(test)]
            #[allow(dead_code, reason = "not every table's names are of use")]
            const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Looks all functions up; the error names the first missing one.
            pub(super) fn load(library: &'static libloading::Library) -> Result<Self, String> {
                Ok(Self { $($name: {
                    // SAFETY: NVIDIA's headers since CUDA 12 give the function this type.
                    let symbol = unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) -> $result>(
                            stringify!($name)
                        )
                    };
                    *symbol.map_err(|_| format!("it has no function {}", stringify!($name)))?
                },)* })
            }
        }
    };
}

pub(super) use functions;
