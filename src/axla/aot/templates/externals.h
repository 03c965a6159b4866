/* Functions that the library calls and that you link. `in` has the addresses of the operands,
`out` is the address of the result; of a tuple, of an array with the addresses of its elements. */
#ifdef __cplusplus
extern "C" {
#endif
FILL_EXTERNALS
#ifdef __cplusplus
}
#endif
