#ifndef AXLA_FILL_PREFIX_PROGRAM_SHAPE
#define AXLA_FILL_PREFIX_PROGRAM_SHAPE
/* The function's xla.ProgramShapeProto, serialized: in the object of --out_metadata_object. */
#define FILL_PREFIX_program_shape_SIZE FILL_SIZEu
extern "C" const unsigned char FILL_PREFIX_program_shape[];
#endif
