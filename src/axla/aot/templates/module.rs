//! FILL_NAME, compiled by axla for FILL_TARGET. In a crate with the build.rs:
//!
//!     #[path = "FILL_PREFIX.rs"]
//!     mod FILL_MODULE;
//!
//! Arrays are row-major. f16, bf16 and smaller floats are their bits, complex numbers [re, im].
#![allow(dead_code, non_snake_case, non_upper_case_globals, clippy::all)]

use std::ffi::c_void;

/// What a run ended with, when it did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error {
    pub code: i32,
    pub message: &'static str,
}

impl Error {
    fn of(code: i32, own: &[&'static str]) -> Error {
        let message = match code {
            FILL_ERRORS
            _ => {
                let own = usize::try_from(code - FILL_FIRST).ok().and_then(|k| own.get(k));
                own.copied().unwrap_or("unknown error")
            }
        };
        Error { code, message }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)
    }
}

impl std::error::Error for Error {}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Block([u8; 64]);

fn blocks(bytes: usize) -> Vec<Block> {
    vec![Block([0; 64]); bytes.div_ceil(64)]
}
