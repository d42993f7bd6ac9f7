#include "cupti/subscribe.h"

#include <string.h>

static struct {
	struct cupti_v2 call;
	void *subscriber;
	cupti_buffer_requested requested;
	cupti_buffer_completed completed;
	struct cupti_api alone; /* what was there before; zero: nothing */
} v2;

/* ---- a V2 subscriber behind the older calls --------------------------------- */

static int v2_enable(int kind)
{
	return v2.call.enable(v2.subscriber, kind, NULL);
}

static int v2_disable(int kind)
{
	return v2.call.disable(v2.subscriber, kind, NULL);
}

static int v2_next_record(uint8_t *buffer, size_t valid_bytes, void **record)
{
	return v2.call.next_record(v2.subscriber, buffer, valid_bytes, record);
}

static int v2_dropped(void *context, uint32_t stream, size_t *dropped)
{
	return v2.call.dropped(v2.subscriber, context, stream, dropped);
}

static int v2_set_attribute(int attr, size_t *bytes, void *value)
{
	return v2.call.set_attribute(v2.subscriber, attr, bytes, value);
}

static int v2_timestamp(uint64_t *ns)
{
	return v2.call.timestamp(v2.subscriber, ns);
}

/* Flushes are for all clients: a forced one would end the others' records that
 * are not complete, without times. */
static int v2_flush_all(uint32_t forced)
{
	(void)forced;
	return v2.alone.flush_all(0);
}

static void v2_requested(uint8_t **buffer, size_t *bytes, size_t *max_records,
			 struct cupti_buffer_info *info)
{
	(void)info;
	v2.requested(buffer, bytes, max_records);
}

static void v2_completed(uint8_t *buffer, size_t bytes, size_t valid_bytes,
			 struct cupti_buffer_info *info)
{
	(void)info;
	v2.completed(NULL, 0, buffer, bytes, valid_bytes);
}

static int v2_register_callbacks(cupti_buffer_requested requested,
				 cupti_buffer_completed completed)
{
	v2.requested = requested;
	v2.completed = completed;
	return v2.call.register_callbacks(v2.subscriber, v2_requested,
					  v2_completed);
}

/* ---- choice ------------------------------------------------------------------ */

static bool complete(const struct cupti_v2 *c)
{
	return c->subscribe && c->register_callbacks && c->enable &&
	       c->disable && c->next_record && c->dropped && c->set_attribute &&
	       c->timestamp;
}

static void act_for(struct cupti_api *api, void *subscriber)
{
	v2.call = api->v2;
	v2.subscriber = subscriber;
	v2.alone = *api;
	api->register_callbacks = v2_register_callbacks;
	api->enable = v2_enable;
	api->disable = v2_disable;
	api->next_record = v2_next_record;
	api->dropped = v2_dropped;
	api->set_attribute = v2_set_attribute;
	api->timestamp = v2_timestamp;
	api->flush_all = v2_flush_all;
}

static void act_alone(struct cupti_api *api)
{
	if (api->enable != v2_enable)
		return;
	api->register_callbacks = v2.alone.register_callbacks;
	api->enable = v2.alone.enable;
	api->disable = v2.alone.disable;
	api->next_record = v2.alone.next_record;
	api->dropped = v2.alone.dropped;
	api->set_attribute = v2.alone.set_attribute;
	api->timestamp = v2.alone.timestamp;
	api->flush_all = v2.alone.flush_all;
}

int cupti_subscribe(struct cupti_api *api, bool share, cupti_callback callback,
		    void *userdata, void **subscriber, bool *shared,
		    char other[CUPTI_NAME_BYTES])
{
	struct cupti_subscriber_params p = {
		.struct_size = sizeof(p),
		.name = "moetop",
		.old_name = other,
		.old_name_bytes = CUPTI_NAME_BYTES,
		.allow_multiple = 1,
	};
	void *handle = NULL;
	int err;

	memset(other, 0, CUPTI_NAME_BYTES);
	act_alone(api);
	if (share && complete(&api->v2) &&
	    api->v2.subscribe(&handle, callback, userdata, &p) == CUPTI_OK) {
		other[0] = '\0'; /* the first of several: in nobody's way */
		act_for(api, handle);
		*subscriber = handle;
		*shared = true;
		return CUPTI_OK;
	}
	other[CUPTI_NAME_BYTES - 1] = '\0';
	err = api->subscribe(&handle, callback, userdata);
	if (err)
		return err;
	*subscriber = handle;
	*shared = false;
	return CUPTI_OK;
}
