\
/* What is wanted of a safetensors file, by either name, and where it was found. */
typedef struct axla_wanted {
  const char *name, *label, *dtype;
  const int64_t *dims;
  int32_t rank;
  size_t size, align;
} axla_wanted;

/* The rest of a header; `at` is NULL after an error. Strings are what stands between the quotes. */
typedef struct axla_text { const char *at, *end; } axla_text;
typedef struct axla_string { const char *text; size_t size; } axla_string;

static void axla_spaces(axla_text *t) {
  while (t->at && t->at < t->end && *t->at && strchr(" \t\n\r", *t->at)) ++t->at;
}

/* Whether the next character, spaces left out, is c, which is then taken. */
static int axla_is(axla_text *t, char c) {
  axla_spaces(t);
  if (!t->at || t->at == t->end || *t->at != c) return 0;
  ++t->at;
  return 1;
}

static void axla_want(axla_text *t, char c) {
  if (!axla_is(t, c)) t->at = NULL;
}

static axla_string axla_quoted(axla_text *t) {
  axla_string found = { NULL, 0 };
  axla_want(t, '"');
  if (!t->at) return found;
  found.text = t->at;
  while (t->at < t->end && *t->at != '"' && (unsigned char)*t->at >= 32) {
    if (*t->at == '\\' && ++t->at == t->end) break;
    ++t->at;
  }
  if (t->at == t->end || *t->at != '"') t->at = NULL;
  else found.size = (size_t)(t->at++ - found.text);
  return found;
}

static int axla_same(axla_string s, const char *name) {
  size_t i = 0;
  for (; i < s.size && *name; ++i, ++name) {
    if (s.text[i] == '\\' && s.text[++i] != '"' && s.text[i] != '\\' && s.text[i] != '/') return 0;
    if (s.text[i] != *name) return 0;
  }
  return i == s.size && !*name;
}

static uint64_t axla_number(axla_text *t) {
  uint64_t value = 0;
  const char *first;
  axla_spaces(t);
  for (first = t->at; t->at && t->at < t->end && *t->at >= '0' && *t->at <= '9'; ++t->at) {
    if (value > UINT64_MAX / 10 - 1 || (value == 0 && t->at != first)) t->at = t->end = NULL;
    if (!t->at) return 0;
    value = 10 * value + (uint64_t)(*t->at - '0');
  }
  if (t->at == first) t->at = NULL;
  return value;
}

typedef struct axla_entry {
  axla_string dtype;
  uint64_t dims[64], begin, end;
  int32_t rank;
} axla_entry;

static void axla_read_entry(axla_text *t, axla_entry *e) {
  int seen = 0;
  memset(e, 0, sizeof *e);
  axla_want(t, '{');
  do {
    const axla_string key = axla_quoted(t);
    axla_want(t, ':');
    if (!t->at) return;
    if (!(seen & 1) && axla_same(key, "dtype")) {
      seen |= 1;
      e->dtype = axla_quoted(t);
    } else if (!(seen & 2) && axla_same(key, "shape")) {
      seen |= 2;
      axla_want(t, '[');
      if (axla_is(t, ']')) continue;
      do {
        const uint64_t size = axla_number(t);
        if (e->rank == 64) t->at = NULL;
        else e->dims[e->rank++] = size;
      } while (axla_is(t, ','));
      axla_want(t, ']');
    } else if (!(seen & 4) && axla_same(key, "data_offsets")) {
      seen |= 4;
      axla_want(t, '[');
      e->begin = axla_number(t);
      axla_want(t, ',');
      e->end = axla_number(t);
      axla_want(t, ']');
    } else t->at = NULL;
  } while (axla_is(t, ','));
  axla_want(t, '}');
  if (seen != 7) t->at = NULL;
}

static int axla_fits(const axla_entry *e, const axla_wanted *wanted) {
  int32_t k;
  if (!axla_same(e->dtype, wanted->dtype) || e->rank != wanted->rank) return 0;
  for (k = 0; k < e->rank; ++k)
    if (e->dims[k] != (uint64_t)wanted->dims[k]) return 0;
  return e->end - e->begin == wanted->size;
}

static void axla_skip_metadata(axla_text *t) {
  axla_want(t, '{');
  if (axla_is(t, '}')) return;
  do {
    axla_quoted(t);
    axla_want(t, ':');
    axla_quoted(t);
  } while (axla_is(t, ','));
  axla_want(t, '}');
}

/* Where the wanted arrays are in a file; all of the header is checked. */
static int32_t axla_find(const axla_file *file, const axla_wanted *wanted, int32_t count, void **found) {
  unsigned char *data = (unsigned char *)file->start;
  uint64_t length = 0, size;
  axla_text t;
  axla_entry e;
  int32_t k;
  for (k = 0; k < count; ++k) found[k] = NULL;
  if (file->size < 8) return AXLA_DAMAGED_FILE;
  for (k = 8; k-- > 0;) length = length << 8 | data[k];
  if (length > file->size - 8) return AXLA_DAMAGED_FILE;
  t.at = (const char *)data + 8;
  t.end = t.at + length;
  data += 8 + length;
  size = file->size - 8 - length;
  axla_want(&t, '{');
  if (!axla_is(&t, '}')) {
    do {
      const axla_string name = axla_quoted(&t);
      axla_want(&t, ':');
      if (t.at && axla_same(name, "__metadata__")) {
        axla_skip_metadata(&t);
        continue;
      }
      axla_read_entry(&t, &e);
      if (!t.at || e.begin > e.end || e.end > size) return AXLA_DAMAGED_FILE;
      for (k = 0; k < count; ++k) {
        if (!axla_same(name, wanted[k].name) && !axla_same(name, wanted[k].label)) continue;
        if (found[k] || !axla_fits(&e, &wanted[k])) return AXLA_OTHER_FILE;
        found[k] = data + e.begin;
      }
    } while (axla_is(&t, ','));
    axla_want(&t, '}');
  }
  axla_spaces(&t);
  if (!t.at || t.at != t.end) return AXLA_DAMAGED_FILE;
  for (k = 0; k < count; ++k)
    if (!found[k]) return AXLA_OTHER_FILE;
  return AXLA_OK;
}

/* Copies those arrays that are not aligned to their elements. */
static int32_t axla_align(axla_file *file, const axla_wanted *wanted, int32_t count, void **found) {
  size_t total = 0;
  char *at;
  int32_t k;
  for (k = 0; k < count; ++k)
    if ((uintptr_t)found[k] % wanted[k].align) total += (wanted[k].size + 63) / 64 * 64;
  if (total == 0) return AXLA_OK;
  at = (char *)malloc(total);
  file->copies = at;
  if (at == NULL) return AXLA_NO_FILE;
  for (k = 0; k < count; ++k) {
    if ((uintptr_t)found[k] % wanted[k].align == 0) continue;
    memcpy(at, found[k], wanted[k].size);
    found[k] = at;
    at += (wanted[k].size + 63) / 64 * 64;
  }
  return AXLA_OK;
}

/* Files have the lowest byte of a number first: turns the numbers where the machine has it last. */
static void axla_turn(const axla_wanted *wanted, int32_t count, void **found) {
  const uint16_t one = 1;
  int32_t k;
  if (*(const unsigned char *)&one) return;
  for (k = 0; k < count; ++k) {
    unsigned char *at = (unsigned char *)found[k], *end = at + wanted[k].size;
    const size_t width = wanted[k].align;
    for (; at < end; at += width) {
      size_t i;
      for (i = 0; i < width / 2; ++i) {
        const unsigned char low = at[i];
        at[i] = at[width - 1 - i];
        at[width - 1 - i] = low;
      }
    }
  }
}
