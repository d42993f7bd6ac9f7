/*
 * cupti_played.h - the CUPTI release that the simulated library plays
 *
 * MOETOP_SIM_CUPTI=13.4 chooses a toolkit of cupti/abi_releases.def, the default
 * is 13.0; one newer than the table is the newest with longer records.
 */
#ifndef MOETOP_SIM_GPU_CUPTI_PLAYED_H
#define MOETOP_SIM_GPU_CUPTI_PLAYED_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

bool cupti_plays(int least); /* that toolkit (13040: 13.4) or a newer one */
uint32_t cupti_played_version(void);
uint32_t cupti_played_bytes(uint32_t kind); /* of a record; 0: no such kind */
/* That domain, and that call or event in it; that attribute. */
bool cupti_has(int domain, uint32_t cbid);
bool cupti_has_attribute(int attr);
/* Subscribers that live side by side: needs the driver too. */
bool cupti_has_v2(void);

#pragma GCC visibility pop

#endif
