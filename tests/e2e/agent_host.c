/*
 * agent_host.c - a small CUDA program that does as it is told
 *
 * agent_host LIBRARY...: opens the libraries in this order, libcuda first, then
 * reads one command a line and answers each with one line, "ok" or what went
 * wrong.
 *
 *	init		cuInit and the primary context, a stream, memory
 *	inject PATH	open an agent and call its InitializeInjection
 *	capture		a CUDA graph of LAYERS MoE layers in place of the last
 *	hold, release	begin a capture and leave it open; end it
 *	replay N	N steps by the graph, eager N: N steps without it
 *	run, stop	steps by the graph all the time, in another thread
 *	fork		go on in a child; the parent waits for its end
 *	quit		exit(0)
 *
 * Every layer routes ROWS tokens to K experts of its own: ROWS x K rows, twice
 * each of 2 K experts.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/gpu/cuda_api.h"
#include "sim/gpu/simgpu.h"

#define LAYERS 6
#define ROWS 4
#define K 2
#define EXPERTS 16

/* The driver's calls, by name, from the library that was named. */
static void *libcuda;
#define CALL(name) ((__typeof__(&name))dlsym(libcuda, #name))

static CUcontext context;
static CUstream stream;
static CUdeviceptr memory;
static CUgraphExec exec;
static CUfunction functions[5];
static _Atomic bool running;
static pthread_t runner;

/* ---- device code -------------------------------------------------------------- */

static void (*store)(struct simgpu_launch *, void *, const void *, size_t);

static void plain(struct simgpu_launch *l, void **params,
		  struct simgpu_cost *cost)
{
	(void)l;
	(void)params;
	cost->duration_ns = 20000;
}

static void top_k(struct simgpu_launch *l, void **params,
		  struct simgpu_cost *cost)
{
	int layer = (int)*(int64_t *)params[0];
	int ids[ROWS][K];

	for (int r = 0; r < ROWS; r++)
		for (int j = 0; j < K; j++)
			ids[r][j] = (layer + 5 * j + r % 2) % EXPERTS;
	store(l, *(void **)params[4], ids, sizeof(ids));
	cost->duration_ns = 10000;
}

enum { EMBED, TOP_K, ALIGN, EXPERT, HEAD };

static const struct {
	const char *name;
	simgpu_kernel code;
	uint8_t bytes[14];
} kernels[] = {
	[EMBED] = { "triton_poi_fused_embedding_0", plain, { 8, 0 } },
	[TOP_K] = { "_ZN4vllm3moe10topkGatingILi4ELi128ELi4ELi16ELi32Ei13__nv",
		    top_k,
		    { 8, 8, 8, 4, 8, 8, 4, 4, 4, 1, 8, 8, 8, 0 } },
	[ALIGN] = { "_ZN4vllm3moe27moe_align_block_size_kernelIiEEvPKT_PiS5_",
		    plain,
		    { 8, 8, 8, 8, 8, 4, 4, 4, 4, 8, 8, 4, 4, 0 } },
	[EXPERT] = { "fused_moe_kernel", plain, { 8, 0 } },
	[HEAD] = { "nvjet_head", plain, { 8, 0 } },
};
#define KERNELS (sizeof(kernels) / sizeof(kernels[0]))

/* ---- the program --------------------------------------------------------------- */

static const char *init(void)
{
	int (*add)(const char *, simgpu_kernel, const uint8_t *) =
		CALL(simgpu_register);
	static CUmodule module;

	store = CALL(simgpu_store);
	for (size_t i = 0; i < KERNELS; i++)
		if (add(kernels[i].name, kernels[i].code, kernels[i].bytes))
			return "simgpu_register";
	if (CALL(cuInit)(0) || CALL(cuDevicePrimaryCtxRetain)(&context, 0) ||
	    CALL(cuCtxSetCurrent)(context) ||
	    CALL(cuStreamCreate)(&stream, 1) ||
	    CALL(cuMemAlloc_v2)(&memory, 1 << 16) ||
	    CALL(cuModuleLoadData)(&module, ""))
		return "CUDA does not start";
	for (size_t i = 0; i < KERNELS; i++)
		if (CALL(cuModuleGetFunction)(&functions[i], module,
					      kernels[i].name))
			return "cuModuleGetFunction";
	return NULL;
}

static CUresult launch(int kernel, void **params)
{
	return CALL(cuLaunchKernel)(functions[kernel], 1, 1, 1, 128, 1, 1, 0,
				    stream, params, NULL);
}

static CUresult layer(int64_t n)
{
	CUdeviceptr p = memory, ids = memory + 4096;
	int rows = ROWS, k = K, first = 0, experts = EXPERTS, block = 16;
	uint64_t none = 0, slots = ROWS * K;
	bool on = true;
	void *gate[] = { &n,     &p,       &p,  &rows, &ids,  &p,   &k,
			 &first, &experts, &on, &none, &none, &none };
	void *align[] = { &ids, &p,     &p,     &p, &none,  &experts, &experts,
			  &k,   &block, &slots, &p, &block, &k };
	void *plain_args[] = { &p };
	CUresult e = launch(TOP_K, gate);

	if (!e)
		e = launch(ALIGN, align);
	for (int i = 0; i < 2 && !e; i++)
		e = launch(EXPERT, plain_args);
	return e;
}

static CUresult body(void)
{
	void *args[] = { &memory };
	CUresult e = launch(EMBED, args);

	for (int n = 0; n < LAYERS && !e; n++)
		e = layer(n);
	return e ? e : launch(HEAD, args);
}

static const char *capture(void)
{
	CUgraph graph;

	if (exec)
		CALL(cuGraphExecDestroy)(exec);
	exec = NULL;
	if (CALL(cuStreamBeginCapture_v2)(stream, 0) || body() ||
	    CALL(cuStreamEndCapture)(stream, &graph) ||
	    CALL(cuGraphInstantiateWithFlags)(&exec, graph, 0) ||
	    CALL(cuGraphDestroy)(graph))
		return "the capture failed";
	return NULL;
}

static const char *hold(void)
{
	return CALL(cuStreamBeginCapture_v2)(stream, 0) ? "no capture" : NULL;
}

static const char *release(void)
{
	CUgraph graph;

	if (body() || CALL(cuStreamEndCapture)(stream, &graph) ||
	    CALL(cuGraphDestroy)(graph))
		return "the capture was spoilt";
	return NULL;
}

static const char *steps(const char *count, bool eager)
{
	if (!eager && !exec)
		return "no graph";
	for (int i = atoi(count); i > 0; i--)
		if ((eager ? body() : CALL(cuGraphLaunch)(exec, stream)) ||
		    CALL(cuStreamSynchronize)(stream))
			return "a step failed";
	return NULL;
}

static void *run_main(void *arg)
{
	const char **error = arg;

	CALL(cuCtxSetCurrent)(context);
	while (running && !*error)
		*error = steps("1", false);
	return NULL;
}

static const char *run(void)
{
	static const char *error;

	if (running) {
		running = false;
		pthread_join(runner, NULL);
		return error;
	}
	error = NULL;
	running = true;
	return pthread_create(&runner, NULL, run_main, &error) ? "no thread"
							       : NULL;
}

static const char *inject(const char *path)
{
	void *agent = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int (*start)(void) = NULL;

	if (agent)
		*(void **)&start = dlsym(agent, "InitializeInjection");
	return start && start() == 1 ? NULL : "no agent";
}

static const char *go_on_in_child(void)
{
	static char answer[32];
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		printf("child %d\n", (int)getpid());
		return NULL;
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return "fork";
	snprintf(answer, sizeof(answer), "child ended with %d", status);
	return answer;
}

static const char *obey(char *line)
{
	char *arg = strchr(line, ' ');

	if (arg)
		*arg++ = '\0';
	if (!strcmp(line, "init"))
		return init();
	if (!strcmp(line, "inject") && arg)
		return inject(arg);
	if (!strcmp(line, "capture"))
		return capture();
	if (!strcmp(line, "hold"))
		return hold();
	if (!strcmp(line, "release"))
		return release();
	if (!strcmp(line, "replay") && arg)
		return steps(arg, false);
	if (!strcmp(line, "eager") && arg)
		return steps(arg, true);
	if (!strcmp(line, "run") || !strcmp(line, "stop"))
		return run();
	if (!strcmp(line, "fork"))
		return go_on_in_child();
	return "unknown command";
}

int main(int argc, char **argv)
{
	char line[4096];

	setvbuf(stdout, NULL, _IOLBF, 0);
	/* A child reads on where its parent stopped. */
	setvbuf(stdin, NULL, _IONBF, 0);
	for (int i = 1; i < argc; i++) {
		void *lib = dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL);

		if (!lib) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		if (!libcuda)
			libcuda = lib;
	}
	while (fgets(line, sizeof(line), stdin)) {
		const char *error;

		line[strcspn(line, "\n")] = '\0';
		if (!strcmp(line, "quit"))
			return 0;
		error = obey(line);
		printf("%s\n", error ? error : "ok");
	}
	return 0;
}
