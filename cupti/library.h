/*
 * library.h - the copies of CUPTI and of the CUDA driver that a process has
 *
 * Nothing is linked: both libraries are found among the loaded objects and
 * opened again by their own path (RTLD_NOLOAD), so that never a second copy
 * comes in.  If the process has no libcupti yet, the one that its CUDA
 * libraries would load is opened: next to the loaded libcuda or libcudart, or
 * where NVIDIA's wheels and toolkits keep it relative to these.
 */
#ifndef MOETOP_CUPTI_LIBRARY_H
#define MOETOP_CUPTI_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

#include "cupti/abi.h"

/* The calls of one subscriber among several, CUPTI 13.3; NULL before. */
struct cupti_v2 {
	int (*subscribe)(void **subscriber, cupti_callback cb, void *userdata,
			 struct cupti_subscriber_params *params);
	int (*register_callbacks)(void *subscriber,
				  cupti_buffer_requested_v2 requested,
				  cupti_buffer_completed_v2 completed);
	int (*enable)(void *subscriber, int kind, void *config);
	int (*disable)(void *subscriber, int kind, void *config);
	int (*next_record)(void *subscriber, uint8_t *buffer,
			   size_t valid_bytes, void **record);
	int (*dropped)(void *subscriber, void *context, uint32_t stream,
		       size_t *dropped);
	int (*set_attribute)(void *subscriber, int attr, size_t *bytes,
			     void *value);
	int (*timestamp)(void *subscriber, uint64_t *ns);
};

/* Once subscribed (cupti/subscribe.h), the members of the first group act for
 * that subscriber. */
struct cupti_api {
	int (*subscribe)(void **subscriber, cupti_callback cb, void *userdata);
	int (*unsubscribe)(void *subscriber);
	int (*enable_callback)(uint32_t enable, void *subscriber, int domain,
			       uint32_t cbid);
	int (*register_callbacks)(cupti_buffer_requested requested,
				  cupti_buffer_completed completed);
	int (*enable)(int kind);
	int (*disable)(int kind);
	int (*next_record)(uint8_t *buffer, size_t valid_bytes, void **record);
	int (*dropped)(void *context, uint32_t stream, size_t *dropped);
	int (*set_attribute)(int attr, size_t *bytes, void *value);
	int (*timestamp)(uint64_t *ns);
	int (*flush_all)(uint32_t forced);

	/* The same for every kind of client. */
	int (*version)(uint32_t *version);
	/* These may be NULL. */
	int (*enable_domain)(uint32_t enable, void *subscriber, int domain);
	int (*finalize)(void);
	int (*graph_id)(void *graph, uint32_t *id);
	int (*graph_exec_id)(void *exec, uint32_t *id); /* from 12.3 on */
	int (*graph_node_id)(void *node, uint64_t *id);
	/* From 13.2 on: the size of a record; version 0: as it is delivered. */
	int (*struct_size)(int kind, uint32_t version, size_t *bytes);
	/* From 13.3 on: does any client have CUPTI up? */
	int (*is_running)(uint8_t *runs);
	struct cupti_v2 v2;
};

/* The driver calls that moetop makes, never from a callback but for those on
 * graphs (agent/exact.h). */
struct cuda_api {
	int (*driver_version)(int *version);
	int (*device_name)(char *name, int bytes, int device);
	int (*ctx_set_current)(void *context);
	int (*ctx_get_device)(int *device);
	int (*mem_host_alloc)(void **p, size_t bytes, unsigned flags);
	int (*mem_free_host)(void *p);
	int (*stream_create)(void **stream, unsigned flags);
	int (*stream_destroy)(void *stream);
	int (*stream_synchronize)(void *stream);
	int (*memcpy_dtoh_async)(void *dst, uint64_t src, size_t bytes,
				 void *stream);
	int (*pointer_attribute)(void *value, int attribute, uint64_t p);
	int (*exchange_capture_mode)(int *mode);
	/* May be NULL: for copies in the host's graphs. */
	int (*mem_alloc)(uint64_t *p, size_t bytes);
	int (*mem_free)(uint64_t p);
	int (*memset_d8)(uint64_t p, unsigned char value, size_t bytes);
	int (*graph_add_copy)(void **node, void *graph, void *const *after,
			      size_t n, const struct cuda_memcpy3d *copy,
			      void *context);
	int (*graph_dependents)(void *node, void **out, size_t *n);
	int (*graph_dependents_v2)(void *node, void **out,
				   struct cuda_edge *edges, size_t *n);
	int (*graph_add_edges)(void *graph, void *const *from, void *const *to,
			       size_t n);
	int (*graph_destroy_node)(void *node);
	/* May be NULL. */
	int (*ctx_synchronize)(void);
	int (*device_count)(int *count);
	int (*primary_ctx_state)(int device, unsigned *flags, int *active);
	/* May be NULL (before 12.4, before 12.4, before 12.3). */
	int (*func_param_info)(void *f, size_t i, size_t *offset,
			       size_t *bytes);
	int (*kernel_param_info)(void *k, size_t i, size_t *offset,
				 size_t *bytes);
	int (*func_name)(const char **name, void *f);
	/* libcudart's, if it is loaded: host stub to CUfunction. */
	int (*func_by_symbol)(void **f, const void *stub);
};

enum {
	CUDA_STREAM_NON_BLOCKING = 1,
	CUDA_HOST_ALLOC_PORTABLE = 1,
	CUDA_CAPTURE_RELAXED = 2,
	CUDA_POINTER_MAPPED = 13,
	CUDA_E_INVALID_VALUE = 1,
	CUDA_E_NOT_INITIALIZED = 3,
};

/*
 * Fill *api from the process's libcupti.  `path` receives the file used (path
 * may be NULL).  0; -ENOENT no libcupti loaded and none to open; -ENOSYS a
 * needed function is missing in it.  *api is unchanged on error.
 */
int cupti_find(struct cupti_api *api, char *path, size_t path_bytes);

/* The same for libcuda, which is never opened anew: -ENOENT not loaded. */
int cuda_find(struct cuda_api *api);

#endif
