// moe_steps.cu - a tiny MoE decoder on a real GPU, for tests/gpu/check.sh
//
// Launches kernels with the names and the argument order of vLLM's Triton path,
// eagerly and from a captured graph, with one ids buffer for all layers as
// PyTorch would give.  Every step draws new experts.  Which ones is a function
// of (step, layer, token) that check.py computes again, so the sampled rows
// can be compared exactly.
//
// moe_steps eager|graph|late|told STEPS [AGENT]: prints "step N start_ns end_ns"
// of each step, CLOCK_MONOTONIC of the host.  "late" loads AGENT itself after the
// capture, as an injector would.  "told" obeys lines on its standard input
// between two steps: "capture" puts a new graph in place of the old and answers
// "captured", "memory" answers "memory FREE_BYTES", "quit" ends it.  Ends with
// "steps N mean_ns": host time per step after the first tenth.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <poll.h>
#include <unistd.h>

#define CHECK(call)                                        \
	do {                                               \
		cudaError_t e_ = (call);                   \
		if (e_ != cudaSuccess) {                   \
			fprintf(stderr, "%s: %s\n", #call, \
				cudaGetErrorString(e_));   \
			exit(1);                           \
		}                                          \
	} while (0)

enum { LAYERS = 24, TOKENS = 13, PADDED = 16, K = 8, EXPERTS = 128 };

// The j-th expert of a token: distinct in a token since 17 and 128 are coprime.
__host__ __device__ static int expert(uint32_t step, int layer, int token,
				      int j)
{
	uint32_t h = step * 2654435761u ^ (uint32_t)layer * 40503u ^
		     (uint32_t)token * 2246822519u;

	return (int)((h >> 7) + 17u * (uint32_t)j) % EXPERTS;
}

__device__ static void spin(int ns)
{
	long long start = clock64(), ticks = (long long)ns * 14 / 10;

	while (clock64() - start < ticks)
		;
}

namespace vllm
{
namespace moe
{
// in, finished, weights, num_rows, indices, source_rows, k, start_expert,
// end_expert, renormalize, bias, scaling, is_padding
template <int VPT, int NUM, typename Ind>
__global__ void
topkGating(const float *in, const bool *finished, float *weights, int rows,
	   Ind *ids, int *source, int k, int first, int end, bool renorm,
	   const float *bias, double scaling, const bool *padding)
{
	const uint32_t *step = (const uint32_t *)in;
	int layer = (int)(size_t)finished;

	for (int i = threadIdx.x; i < rows * k; i += blockDim.x) {
		int token = i / k;

		ids[i] = token < TOKENS ? expert(*step, layer, token, i % k)
					: -1;
	}
	spin(3000);
}

template <typename T>
__global__ void
moe_align_block_size_kernel(const T *ids, int *sorted, int *expert_ids,
			    int *post_pad, int *map, int experts, int padded,
			    int per_warp, int block, size_t numel, int *cumsum,
			    int max, int topk, bool has_map)
{
	spin(3000);
}

template <typename T> __global__ void moe_sum_kernel(T *out, const T *in, int n)
{
	spin(3000);
}
} // namespace moe

template <typename T> __global__ void act_and_mul_kernel(T *out, const T *in)
{
	spin(3000);
}
template <typename T> __global__ void rms_norm_kernel(T *out, const T *in)
{
	spin(3000);
}
} // namespace vllm

extern "C" __global__ void fused_moe_kernel(const void *a, const void *b,
					    void *c)
{
	spin(20000);
}
extern "C" __global__ void kernel_unified_attention(const void *q, void *out)
{
	spin(8000);
}
extern "C" __global__ void triton_poi_fused_embedding_0(uint32_t *step)
{
	*step += 1;
	spin(2000);
}
extern "C" __global__ void nvjet_head(const void *in)
{
	spin(5000);
}

struct buffers {
	uint32_t *step;
	int *ids, *other;
	float *data;
};

static void layer(const buffers &b, int l, cudaStream_t s)
{
	const bool *tag = (const bool *)(size_t)l;

	vllm::rms_norm_kernel<float><<<16, 128, 0, s>>>(b.data, b.data);
	kernel_unified_attention<<<32, 128, 0, s>>>(b.data, b.data);
	vllm::moe::topkGating<4, 128, int><<<1, 128, 0, s>>>(
		(const float *)b.step, tag, b.data, PADDED, b.ids, b.other, K,
		0, EXPERTS, true, nullptr, 1.0, nullptr);
	vllm::moe::moe_align_block_size_kernel<int><<<1, 128, 0, s>>>(
		b.ids, b.other, b.other, b.other, nullptr, EXPERTS, EXPERTS, 4,
		16, (size_t)PADDED * K, b.other, 1 << 16, K, false);
	fused_moe_kernel<<<64, 128, 0, s>>>(b.data, b.data, b.data);
	vllm::act_and_mul_kernel<float><<<16, 128, 0, s>>>(b.data, b.data);
	fused_moe_kernel<<<64, 128, 0, s>>>(b.data, b.data, b.data);
	vllm::moe::moe_sum_kernel<float><<<16, 128, 0, s>>>(b.data, b.data, 0);
}

static void body(const buffers &b, cudaStream_t s)
{
	triton_poi_fused_embedding_0<<<1, 1, 0, s>>>(b.step);
	for (int l = 0; l < LAYERS; l++)
		layer(b, l, s);
	nvjet_head<<<16, 128, 0, s>>>(b.data);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static cudaGraphExec_t capture(const buffers &b, cudaStream_t s)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	body(b, s);
	CHECK(cudaStreamEndCapture(s, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	// As PyTorch does: only the executable graph lives on.
	CHECK(cudaGraphDestroy(graph));
	return exec;
}

static bool load_agent(const char *path)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int (*start)(void) =
		lib ? (int (*)(void))dlsym(lib, "InitializeInjection")
		    : nullptr;

	if (!start)
		fprintf(stderr, "%s: %s\n", path, dlerror());
	return start && start() == 1;
}

// Obey what has come; false: to quit.
static bool obey(cudaGraphExec_t *exec, const buffers &b, cudaStream_t s)
{
	struct pollfd in = { 0, POLLIN, 0 };
	char line[64] = "";
	size_t available, total;

	for (size_t n = 0; poll(&in, 1, n ? 1000 : 0) > 0; n++) {
		if (n + 1 == sizeof(line) || read(0, line + n, 1) != 1)
			return false;
		if (line[n] == '\n')
			break;
	}
	if (!strcmp(line, "capture\n")) {
		CHECK(cudaGraphExecDestroy(*exec));
		*exec = capture(b, s);
		printf("captured\n");
	} else if (!strcmp(line, "memory\n")) {
		CHECK(cudaMemGetInfo(&available, &total));
		printf("memory %llu\n", (unsigned long long)available);
	}
	return strcmp(line, "quit\n") != 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "graph";
	int steps = argc > 2 ? atoi(argv[2]) : 1000;
	bool told = !strcmp(mode, "told");
	cudaGraphExec_t exec = nullptr;
	cudaStream_t s;
	buffers b;
	uint64_t start = 0;

	CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	CHECK(cudaMalloc(&b.step, 64));
	CHECK(cudaMalloc(&b.ids, PADDED * K * sizeof(int)));
	CHECK(cudaMalloc(&b.other, 1 << 20));
	CHECK(cudaMalloc(&b.data, 1 << 20));
	CHECK(cudaMemset(b.step, 0, 64));
	body(b, s); // warm-up, as engines do
	CHECK(cudaStreamSynchronize(s));
	CHECK(cudaMemset(b.step, 0, 64));
	// The stream does not wait for the one of the memset.
	CHECK(cudaDeviceSynchronize());
	// Engines have minutes between their first kernel and the capture.
	usleep(100000);
	if (strcmp(mode, "eager"))
		exec = capture(b, s);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	if (!strcmp(mode, "late") && !load_agent(argc > 3 ? argv[3] : ""))
		return 1;
	for (int i = 1; i <= steps; i++) {
		uint64_t t = now_ns();

		if (i == steps / 10 + 1)
			start = t;
		if (exec)
			CHECK(cudaGraphLaunch(exec, s));
		else
			body(b, s);
		CHECK(cudaStreamSynchronize(s));
		printf("step %d %llu %llu\n", i, (unsigned long long)t,
		       (unsigned long long)now_ns());
		if (told)
			fflush(stdout);
		if (told && !obey(&exec, b, s))
			steps = i;
	}
	printf("steps %d %llu\n", steps,
	       (unsigned long long)((now_ns() - start) /
				    (uint64_t)(steps - steps / 10)));
	return 0;
}
