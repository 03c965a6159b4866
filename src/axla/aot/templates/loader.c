#if (defined(__unix__) || defined(__APPLE__)) && !defined(AXLA_NO_MMAP)
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#define AXLA_MMAP 1
#endif
#include "FILL_PREFIX_loader.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The whole file: mapped, so that it is read when it is used; writing does not change it. Else a copy. */
static int32_t axla_map(const char *path, axla_file *file) {
#ifdef AXLA_MMAP
  struct stat about;
  const int handle = open(path, O_RDONLY);
  memset(file, 0, sizeof *file);
  if (handle < 0) return AXLA_NO_FILE;
  if (fstat(handle, &about) == 0 && about.st_size > 0 && (uint64_t)about.st_size <= SIZE_MAX / 2) {
    file->size = (size_t)about.st_size;
    file->base = mmap(NULL, file->size, PROT_READ | PROT_WRITE, MAP_PRIVATE, handle, 0);
    file->mapped = file->base != MAP_FAILED;
  }
  close(handle);
  file->data = file->start = file->base;
  return file->mapped ? AXLA_OK : AXLA_NO_FILE;
#else
  FILE *handle = fopen(path, "rb");
  long size = -1;
  memset(file, 0, sizeof *file);
  if (handle == NULL) return AXLA_NO_FILE;
  if (fseek(handle, 0, SEEK_END) == 0) size = ftell(handle);
  if (size > 0 && fseek(handle, 0, SEEK_SET) == 0 && (file->base = malloc((size_t)size + 64)) != NULL) {
    char *at = (char *)file->base + (64 - (uintptr_t)file->base % 64) % 64;
    file->data = file->start = at;
    file->size = fread(at, 1, (size_t)size, handle);
  }
  fclose(handle);
  return size > 0 && file->size == (size_t)size ? AXLA_OK : AXLA_NO_FILE;
#endif
}

void FILL_PREFIX_weights_close(FILL_PREFIX_weights *file) {
#ifdef AXLA_MMAP
  if (file->mapped) munmap(file->base, file->size);
#else
  free(file->base);
#endif
  free(file->copies);
  memset(file, 0, sizeof *file);
}
