#include "sim/gpu/common_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)
#define OLDEST_DRIVER 13000

static const struct sim_gpu_type types[SIM_GPU_COUNT] = {
	{ .name = "H100",
	  .product = "NVIDIA H100 80GB HBM3",
	  .bandwidth = 3352e9,
	  .bf16 = 989.4e12,
	  .fp8 = 1978.9e12,
	  .mem_clock_mhz = 2619,
	  .bus_bits = 5120,
	  .sm_clock_mhz = 1980,
	  .sms = 132,
	  .cc_major = 9,
	  .memory_bytes = 81559 * MIB,
	  .l2_bytes = 50 * MIB },
	{ .name = "H200",
	  .product = "NVIDIA H200",
	  .bandwidth = 4800e9,
	  .bf16 = 989.4e12,
	  .fp8 = 1978.9e12,
	  .mem_clock_mhz = 3125,
	  .bus_bits = 6144,
	  .sm_clock_mhz = 1980,
	  .sms = 132,
	  .cc_major = 9,
	  .memory_bytes = 143771 * MIB,
	  .l2_bytes = 50 * MIB },
	{ .name = "B200",
	  .product = "NVIDIA B200",
	  .bandwidth = 8000e9,
	  .bf16 = 2250e12,
	  .fp8 = 4500e12,
	  .fp4 = 9000e12,
	  .mem_clock_mhz = 3906,
	  .bus_bits = 8192,
	  .sm_clock_mhz = 1965,
	  .sms = 148,
	  .cc_major = 10,
	  .memory_bytes = 183359 * MIB,
	  .l2_bytes = 126 * MIB },
	{ .name = "A100",
	  .product = "NVIDIA A100-SXM4-80GB",
	  .bandwidth = 2039e9,
	  .bf16 = 312e12,
	  .mem_clock_mhz = 1593,
	  .bus_bits = 5120,
	  .sm_clock_mhz = 1410,
	  .sms = 108,
	  .cc_major = 8,
	  .memory_bytes = 81920 * MIB,
	  .l2_bytes = 40 * MIB },
};

const struct sim_gpu_type *sim_gpu_find(const char *name)
{
	for (unsigned i = 0; i < SIM_GPU_COUNT; i++)
		if (strcmp(types[i].name, name) == 0)
			return &types[i];
	return NULL;
}

const struct sim_gpu_type *sim_gpu_at(unsigned i)
{
	return i < SIM_GPU_COUNT ? &types[i] : NULL;
}

unsigned sim_gpu_position(const struct sim_gpu_type *t)
{
	return (unsigned)(t - types);
}

void sim_gpu_uuid(unsigned index, uint8_t out[16])
{
	uint64_t h = UINT64_C(0x6d6f65746f70) + index;

	for (int i = 0; i < 16; i++) {
		h = h * UINT64_C(6364136223846793005) + 1442695040888963407u;
		out[i] = (uint8_t)(h >> 56);
	}
}

void sim_gpu_uuid_text(unsigned index, char out[41])
{
	uint8_t u[16];

	sim_gpu_uuid(index, u);
	snprintf(out, 41,
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
		 "%02x%02x%02x%02x%02x%02x",
		 u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9],
		 u[10], u[11], u[12], u[13], u[14], u[15]);
}

static int toolkit_in(const char *variable)
{
	const char *s = getenv(variable);
	int major, minor;

	if (!s || sscanf(s, "%d.%d", &major, &minor) != 2 || major < 11 ||
	    major > 99 || minor < 0 || minor > 99)
		return 0;
	return 1000 * major + 10 * minor;
}

int sim_driver_version(void)
{
	int driver = toolkit_in("MOETOP_SIM_DRIVER");
	int cupti = toolkit_in("MOETOP_SIM_CUPTI");

	if (driver)
		return driver;
	return cupti > OLDEST_DRIVER ? cupti : OLDEST_DRIVER;
}

int sim_fault(const char *name, uint64_t *n)
{
	const char *s = getenv("MOETOP_SIM_FAULT");
	size_t len = strlen(name);

	while (s && *s) {
		if (strncmp(s, name, len) == 0 &&
		    strchr("=,", s[len]) != NULL) { /* "" ends match too */
			if (n)
				*n = s[len] == '='
					     ? strtoull(s + len + 1, NULL, 10)
					     : 0;
			return 1;
		}
		s = strchr(s, ',');
		s = s ? s + 1 : NULL;
	}
	return 0;
}
