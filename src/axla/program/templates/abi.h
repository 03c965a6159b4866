#ifndef AXLA_ABI_H
#define AXLA_ABI_H
#include <stddef.h>
#include <stdint.h>

FILL_FRAME

FILL_STATUS

typedef axla_status XlaCustomCallStatus;
static inline void XlaCustomCallStatusSetSuccess(XlaCustomCallStatus *status) { status->failed = 0; }
static inline void XlaCustomCallStatusSetFailure(XlaCustomCallStatus *status, const char *message,
                                                 size_t length) {
  size_t most = sizeof status->message, count = length < most ? length : most;
  status->failed = 1;
  status->length = count & 0x7FFFFFFFu;
  for (size_t i = 0; i < count; i++) status->message[i] = message[i];
}

#endif
