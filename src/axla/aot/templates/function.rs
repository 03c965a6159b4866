/// FILL_NAME
pub mod FILL_SYMBOL {
    use super::*;

    pub const WORKSPACE_SIZE: usize = FILL_WORKSPACE;
    #[repr(C)]
    struct Args {
        FILL_ARGS
    }
    #[repr(C)]
    struct Results {
        FILL_RESULTS
    }
    extern "C" {
        fn FILL_SYMBOL_run(args: *const Args, results: *const Results, FILL_MEMORY)
            -> i32;
    }

    /// Scratch memory of one run at a time.
    pub struct Workspace(Vec<Block>);

    impl Workspace {
        pub fn new() -> Workspace {
            Workspace(blocks(WORKSPACE_SIZE))
        }
    }

    FILL_ABOUT
    pub fn run(
        workspace: &mut Workspace,
        FILL_PARAMETERS
    ) -> Result<(), Error> {
        let args = Args { FILL_GIVEN };
        let results = Results { FILL_MADE };
        let scratch = workspace.0.as_mut_ptr() as *mut c_void;
        // Arrays have the sizes that the code was compiled for; what it writes is borrowed alone.
        let code = unsafe { FILL_SYMBOL_run(&args, &results, FILL_SCRATCH) };
        if code == 0 {
            Ok(())
        } else {
            Err(Error::of(code, &[FILL_MESSAGES]))
        }
    }
}
