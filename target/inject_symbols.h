/*
 * inject_symbols.h - functions of a library as it lies in another process
 *
 * Read from the memory of the process, not from the file: it is the same for
 * containers, deleted files and changed roots.  The memory is hostile input:
 * every table is bounded.
 */
#ifndef MOETOP_TARGET_INJECT_SYMBOLS_H
#define MOETOP_TARGET_INJECT_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads exactly `bytes` at `address` of the process; false: it cannot. */
struct symbols_memory {
	bool (*read)(void *cls, uint64_t address, void *out, size_t bytes);
	void *cls;
};

struct symbols {
	struct symbols_memory memory;
	uint64_t base; /* of the ELF file in memory */
	uint64_t symbols, strings, versions, hash;
};

/* The library whose ELF header lies at base.  0, -ENOEXEC no library of this
 * machine, -ENOENT without symbols or GNU hash table, -EFAULT. */
int symbols_open(struct symbols *s, const struct symbols_memory *memory,
		 uint64_t base);

/* Address of a defined function in its default version (else any), 0 none.
 * Indirect functions are none. */
uint64_t symbols_find(const struct symbols *s, const char *name);

/* Memory of a process through process_vm_readv; cls points to its pid_t. */
bool symbols_read_process(void *pid, uint64_t address, void *out, size_t bytes);

#endif
