#include "cupti/buffers.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static void push(struct buffers *b, _Atomic uint64_t *stack, uint32_t i)
{
	uint64_t old = atomic_load_explicit(stack, memory_order_relaxed);
	uint64_t new;

	do {
		atomic_store_explicit(&b->next[i], (uint32_t)old,
				      memory_order_relaxed);
		new = ((old >> 32) + 1) << 32 | (i + 1);
	} while (!atomic_compare_exchange_weak_explicit(
		stack, &old, new, memory_order_release, memory_order_relaxed));
}

/* Index + 1, or 0.  The tag in the high half defeats a pop that was overtaken
 * by another pop and push of the same buffer. */
static uint32_t pop(struct buffers *b, _Atomic uint64_t *stack)
{
	uint64_t old = atomic_load_explicit(stack, memory_order_acquire);
	uint64_t new;

	do {
		uint32_t i = (uint32_t)old;

		if (!i)
			return 0;
		new = ((old >> 32) + 1) << 32 |
		      atomic_load_explicit(&b->next[i - 1],
					   memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(
		stack, &old, new, memory_order_acquire, memory_order_acquire));
	return (uint32_t)old;
}

int buffers_init(struct buffers *b, uint32_t count, size_t bytes)
{
	size_t all = (count + 1) * bytes;
	void *p;

	if (!count || count > BUFFERS_MAX || bytes < 4096 || bytes % 8)
		return -EINVAL;
	p = mmap(NULL, all, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	*b = (struct buffers){ .memory = p,
			       .bytes = bytes,
			       .count = count,
			       .discard = (uint8_t *)p + count * bytes };
	for (uint32_t i = count; i > 0; i--)
		push(b, &b->free, i - 1);
	return 0;
}

void buffers_fini(struct buffers *b)
{
	if (b->memory)
		munmap(b->memory, (b->count + 1) * b->bytes);
	*b = (struct buffers){ 0 };
}

static uint32_t index_of(const struct buffers *b, const uint8_t *buffer)
{
	return (uint32_t)((size_t)(buffer - b->memory) / b->bytes);
}

uint8_t *buffers_request(struct buffers *b, size_t *bytes)
{
	uint32_t i = pop(b, &b->free);

	*bytes = b->bytes;
	if (!i)
		return b->discard;
	atomic_store_explicit(&b->out[i - 1], true, memory_order_relaxed);
	return b->memory + (i - 1) * b->bytes;
}

static void refuse(struct buffers *b)
{
	atomic_fetch_add_explicit(&b->refused, 1, memory_order_relaxed);
}

static bool is_one(const struct buffers *b, const uint8_t *buffer)
{
	return b->memory && buffer >= b->memory && buffer < b->discard &&
	       (size_t)(buffer - b->memory) % b->bytes == 0;
}

void buffers_complete(struct buffers *b, uint8_t *buffer, size_t valid)
{
	uint32_t i;

	if (b->memory && valid > b->bytes) {
		refuse(b);
		valid = 0;
	}
	if (b->memory && buffer == b->discard) {
		atomic_fetch_add_explicit(&b->discarded_bytes, valid,
					  memory_order_relaxed);
		return;
	}
	i = is_one(b, buffer) ? index_of(b, buffer) : BUFFERS_MAX;
	if (i == BUFFERS_MAX ||
	    !atomic_exchange_explicit(&b->out[i], false,
				      memory_order_relaxed)) {
		refuse(b);
		return;
	}
	atomic_store_explicit(&b->valid[i], valid, memory_order_relaxed);
	push(b, &b->done, i);
}

/* Empty the stack of returned buffers at once and turn it round. */
static void take_all(struct buffers *b)
{
	uint64_t old = atomic_load_explicit(&b->done, memory_order_acquire);
	uint32_t n = 0;

	while (!atomic_compare_exchange_weak_explicit(
		&b->done, &old, ((old >> 32) + 1) << 32, memory_order_acquire,
		memory_order_acquire))
		;
	for (uint32_t i = (uint32_t)old; i && n < b->count;
	     i = atomic_load_explicit(&b->next[i - 1], memory_order_relaxed))
		b->order[n++] = i - 1;
	for (uint32_t k = 0; k < n / 2; k++) {
		uint32_t swap = b->order[k];

		b->order[k] = b->order[n - 1 - k];
		b->order[n - 1 - k] = swap;
	}
	b->taken = n;
	b->given = 0;
}

uint8_t *buffers_take(struct buffers *b, size_t *valid)
{
	uint32_t i;

	if (b->given == b->taken)
		take_all(b);
	if (b->given == b->taken)
		return NULL;
	i = b->order[b->given++];
	*valid = atomic_load_explicit(&b->valid[i], memory_order_relaxed);
	return b->memory + i * b->bytes;
}

void buffers_give(struct buffers *b, uint8_t *buffer)
{
	push(b, &b->free, index_of(b, buffer));
}
