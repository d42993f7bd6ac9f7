#include "sim/server/http_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void http_send_text(struct evhttp_request *peer, int status, const char *reason,
		    const char *type, const char *text, size_t bytes)
{
	struct evbuffer *body = evbuffer_new();

	if (type)
		evhttp_add_header(evhttp_request_get_output_headers(peer),
				  "Content-Type", type);
	if (body)
		evbuffer_add(body, text, bytes);
	evhttp_send_reply(peer, status, reason, body);
	if (body)
		evbuffer_free(body);
}

void http_send_error(struct evhttp_request *peer, int status,
		     const char *reason, const char *message)
{
	char text[1024];
	size_t n = api_error(status, message, text, sizeof(text));

	http_send_text(peer, status, reason, "application/json", text, n);
}

/* ---- the engine's metrics ------------------------------------------------ */

struct metric {
	const char *name, *type, *help;
	double value;
};

static void add_metrics(struct evbuffer *b, const char *prefix,
			const char *labels, const struct metric *m, size_t n)
{
	for (size_t i = 0; i < n; i++)
		evbuffer_add_printf(b,
				    "# HELP %s%s %s\n# TYPE %s%s %s\n"
				    "%s%s{%s} %.15g\n",
				    prefix, m[i].name, m[i].help, prefix,
				    m[i].name, m[i].type, prefix, m[i].name,
				    labels, m[i].value);
}

static double kv_share(const struct http *h, const struct engine_stats *s)
{
	if (!h->o.kv_capacity)
		return 0;
	return (double)s->kv_tokens / (double)h->o.kv_capacity;
}

#define CACHE_BLOCK_TOKENS 16u

static void add_cache_info(const struct http *h, struct evbuffer *b)
{
	if (!h->o.kv_capacity)
		return;
	evbuffer_add_printf(
		b,
		"# HELP vllm:cache_config_info Information of the LLMEngine "
		"CacheConfig\n"
		"# TYPE vllm:cache_config_info gauge\n"
		"vllm:cache_config_info{block_size=\"%u\",engine=\"0\","
		"num_gpu_blocks=\"%llu\"} 1\n",
		CACHE_BLOCK_TOKENS,
		(unsigned long long)h->o.kv_capacity / CACHE_BLOCK_TOKENS);
}

/*
 * As the engines estimate them, of one GPU: every token reads experts of its
 * own, as long as there are any.
 */
static void add_estimates(struct http *h, const struct engine_stats *s,
			  const char *labels, struct evbuffer *b)
{
	const struct arch *a = h->o.arch;
	double gpus = h->o.tp > h->o.ep ? h->o.tp : h->o.ep;
	double steps = (double)s->steps, tokens = (double)s->step_tokens;
	double experts;

	if (!a)
		return;
	experts = fmin(tokens * a->top_k, steps * a->experts);
	add_metrics(b, "vllm:", labels,
		    (const struct metric[]){
			    { "estimated_flops_per_gpu_total", "counter",
			      "Estimated number of floating point operations "
			      "per GPU.",
			      tokens * arch_flops_per_token(a) / gpus },
			    { "estimated_read_bytes_per_gpu_total", "counter",
			      "Estimated number of bytes read per GPU.",
			      (steps * a->dense_bytes +
			       a->moe_layers * experts * a->expert_bytes) /
				      gpus },
			    { "estimated_write_bytes_per_gpu_total", "counter",
			      "Estimated number of bytes written per GPU.",
			      tokens * a->kv_bytes_per_token / gpus },
		    },
		    3);
}

static void vllm_metrics(struct http *h, const struct engine_stats *s,
			 struct evbuffer *b)
{
	const struct metric m[] = {
		{ "num_requests_running", "gauge",
		  "Number of requests in model execution batches.",
		  (double)s->running },
		{ "num_requests_waiting", "gauge",
		  "Number of requests waiting to be processed.",
		  (double)s->waiting },
		{ "kv_cache_usage_perc", "gauge",
		  "KV-cache usage. 1 means 100 percent usage.",
		  kv_share(h, s) },
		{ "prompt_tokens_total", "counter",
		  "Number of prefill tokens processed.",
		  (double)s->prompt_tokens },
		{ "generation_tokens_total", "counter",
		  "Number of generation tokens processed.",
		  (double)s->generation_tokens },
		{ "num_preemptions_total", "counter",
		  "Cumulative number of preemptions from the engine.", 0 },
	};
	char labels[320];

	snprintf(labels, sizeof(labels), "engine=\"0\",model_name=\"%s\"",
		 h->model);
	add_metrics(b, "vllm:", labels, m, sizeof(m) / sizeof(m[0]));
	add_estimates(h, s, labels, b);
	add_cache_info(h, b);
	evbuffer_add_printf(b,
			    "# HELP vllm:iteration_tokens_total Number of "
			    "tokens per engine step.\n"
			    "# TYPE vllm:iteration_tokens_total histogram\n"
			    "vllm:iteration_tokens_total_bucket{%s,"
			    "le=\"+Inf\"} %llu\n"
			    "vllm:iteration_tokens_total_sum{%s} %llu\n"
			    "vllm:iteration_tokens_total_count{%s} %llu\n",
			    labels, (unsigned long long)s->steps, labels,
			    (unsigned long long)s->step_tokens, labels,
			    (unsigned long long)s->steps);
}

static void sglang_metrics(struct http *h, const struct engine_stats *s,
			   struct evbuffer *b)
{
	const struct metric m[] = {
		{ "num_running_reqs", "gauge",
		  "The number of running requests.", (double)s->running },
		{ "num_queue_reqs", "gauge",
		  "The number of requests in the waiting queue.",
		  (double)s->waiting },
		{ "num_used_tokens", "gauge", "The number of used tokens.",
		  (double)s->kv_tokens },
		{ "token_usage", "gauge", "The token usage.", kv_share(h, s) },
		{ "prompt_tokens_total", "counter",
		  "Number of prefill tokens processed.",
		  (double)s->prompt_tokens },
		{ "generation_tokens_total", "counter",
		  "Number of generation tokens processed.",
		  (double)s->generation_tokens },
	};
	char labels[384];

	snprintf(labels, sizeof(labels),
		 "engine_type=\"unified\",model_name=\"%s\",pp_rank=\"0\","
		 "tp_rank=\"0\"",
		 h->model);
	add_metrics(b, "sglang:", labels, m, sizeof(m) / sizeof(m[0]));
	evbuffer_add_printf(b,
			    "# HELP sglang:realtime_tokens_total Total number "
			    "of tokens processed.\n"
			    "# TYPE sglang:realtime_tokens_total counter\n"
			    "sglang:realtime_tokens_total{mode=\"decode\",%s} "
			    "%llu\n",
			    labels, (unsigned long long)s->generation_tokens);
}

static void send_metrics(struct http *h, struct evhttp_request *peer)
{
	struct evbuffer *b = evbuffer_new();
	struct engine_stats s;

	if (!b) {
		http_send_error(peer, 503, "Service Unavailable",
				"out of memory");
		return;
	}
	engine_stats(h->o.engine, &s);
	if (h->o.flavour == KERNELS_SGLANG)
		sglang_metrics(h, &s, b);
	else
		vllm_metrics(h, &s, b);
	evhttp_add_header(evhttp_request_get_output_headers(peer),
			  "Content-Type",
			  "text/plain; version=0.0.4; charset=utf-8");
	evhttp_send_reply(peer, 200, "OK", b);
	evbuffer_free(b);
}

/* ---- the rest ------------------------------------------------------------ */

static void send_models(struct http *h, struct evhttp_request *peer)
{
	char path[1024], text[2048];
	int n;

	api_escape(h->o.model_path, path, sizeof(path));
	n = snprintf(text, sizeof(text),
		     "{\"object\":\"list\",\"data\":[{\"id\":\"%s\","
		     "\"object\":\"model\",\"created\":0,\"owned_by\":\"%s\","
		     "\"root\":\"%s\",\"parent\":null,"
		     "\"max_model_len\":%u}]}",
		     h->model,
		     h->o.flavour == KERNELS_SGLANG ? "sglang" : "vllm", path,
		     h->o.max_model_len);
	http_send_text(peer, 200, "OK", "application/json", text, (size_t)n);
}

static void send_model_info(struct http *h, struct evhttp_request *peer)
{
	char path[1024], text[2048];
	int n;

	api_escape(h->o.model_path, path, sizeof(path));
	n = snprintf(text, sizeof(text),
		     "{\"model_path\":\"%s\",\"served_model_name\":\"%s\","
		     "\"is_generation\":true,\"tp_size\":1,\"ep_size\":1}",
		     path, h->model);
	http_send_text(peer, 200, "OK", "application/json", text, (size_t)n);
}

/* Its arguments, as far as the simulated server has any. */
static void send_server_info(struct http *h, struct evhttp_request *peer)
{
	char path[1024], sizes[512] = "", text[4096];
	size_t used = 0;
	int n;

	for (unsigned i = 0; sched_graph_size(i) && used < sizeof(sizes); i++)
		used += (size_t)snprintf(sizes + used, sizeof(sizes) - used,
					 "%s%u", i ? "," : "",
					 sched_graph_size(i));
	api_escape(h->o.model_path, path, sizeof(path));
	n = snprintf(text, sizeof(text),
		     "{\"model_path\":\"%s\",\"served_model_name\":\"%s\","
		     "\"cuda_graph_bs\":[%s],\"tp_size\":%u,\"ep_size\":%u,"
		     "\"dp_size\":1,"
		     "\"pp_size\":1,\"stream_interval\":%u,"
		     "\"api_key\":null,\"version\":\"moetop-sim\"}",
		     path, h->model, sizes, h->o.tp, h->o.ep,
		     h->o.stream_interval);
	http_send_text(peer, 200, "OK", "application/json", text, (size_t)n);
}

static void send_version(struct http *h, struct evhttp_request *peer)
{
	static const char text[] = "{\"version\":\"moetop-sim\"}";

	(void)h;
	http_send_text(peer, 200, "OK", "application/json", text,
		       sizeof(text) - 1);
}

static void send_health(struct http *h, struct evhttp_request *peer)
{
	(void)h;
	http_send_text(peer, 200, "OK", NULL, "", 0);
}

static const struct page {
	const char *path;
	void (*send)(struct http *h, struct evhttp_request *peer);
	bool sglang, vllm;
} pages[] = {
	{ "/health", send_health, true, true },
	{ "/ping", send_health, false, true },
	{ "/metrics", send_metrics, true, true },
	{ "/v1/models", send_models, true, true },
	{ "/version", send_version, false, true },
	{ "/model_info", send_model_info, true, false },
	{ "/get_model_info", send_model_info, true, false },
	{ "/server_info", send_server_info, true, false },
	{ "/get_server_info", send_server_info, true, false },
};

void http_info(struct evhttp_request *peer, void *arg)
{
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(peer);
	const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
	struct http *h = arg;

	for (size_t i = 0; path && i < sizeof(pages) / sizeof(pages[0]); i++) {
		const struct page *p = &pages[i];

		if (strcmp(path, p->path))
			continue;
		if (h->o.flavour == KERNELS_SGLANG ? !p->sglang : !p->vllm)
			continue;
		if (evhttp_request_get_command(peer) != EVHTTP_REQ_GET)
			http_send_error(peer, 405, "Method Not Allowed",
					"use GET");
		else
			p->send(h, peer);
		return;
	}
	http_send_error(peer, 404, "Not Found", "Not Found");
}
