// The build script of a crate whose folder has FILL_PREFIX.a; elsewhere, change `folder`.
fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rustc-link-lib=static:+verbatim=FILL_PREFIX.a");
    println!("cargo:rerun-if-changed=FILL_PREFIX.a");
}
