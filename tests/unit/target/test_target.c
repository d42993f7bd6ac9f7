/*
 * A stand-in server: this program runs itself under the command line of a
 * server, with a listening socket, a worker that maps a libcuda.so and, on
 * request, an agent's ring.
 */
#include "target/proc.h"
#include "target/target.h"

#include "wire/ring.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define STAND_IN "MOETOP_TEST_STAND_IN"
#define MIXTRAL                                                 \
	"{\"model_type\":\"mixtral\",\"num_local_experts\":8,"  \
	"\"num_experts_per_tok\":2,\"num_hidden_layers\":32,"   \
	"\"hidden_size\":4096,\"intermediate_size\":14336,"     \
	"\"num_attention_heads\":32,\"num_key_value_heads\":8," \
	"\"vocab_size\":32000,\"torch_dtype\":\"bfloat16\","    \
	"\"architectures\":[\"MixtralForCausalLM\"]}"

static char dir[64];

struct server {
	pid_t pid, worker;
	uint16_t port;
	int to, from;
};

/* ---- the stand-in's side ------------------------------------------------ */

/* As setproctitle does it: over the arguments, which lie in a row. */
static void change_title(char **argv, const char *title)
{
	char *last = argv[0];

	for (int i = 0; argv[i]; i++)
		last = argv[i] + strlen(argv[i]);
	memset(argv[0], 0, (size_t)(last - argv[0]));
	memcpy(argv[0], title, strlen(title));
}

/* 'r': have a ring, 't': become a worker by title. */
static void worker(int commands, char **argv)
{
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(commands, &c, 1) == 1) {
		if (c == 'r' && memfd_create(RING_NAME, MFD_CLOEXEC) < 0)
			_exit(1);
		if (c == 't')
			change_title(argv, "VLLM::EngineCore");
	}
	_exit(0);
}

static uint16_t listen_any(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (struct sockaddr *)&a, n) || listen(fd, 1) ||
	    getsockname(fd, (struct sockaddr *)&a, &n))
		_exit(1);
	return ntohs(a.sin_port);
}

/* Commands: 'l' listen and tell the port, others go to the worker. */
static void stand_in(char **argv)
{
	int fd = open(getenv(STAND_IN), O_RDONLY | O_CLOEXEC), commands[2];
	uint16_t port = 0;
	pid_t pid;
	char c;

	if (pipe(commands))
		_exit(1);
	pid = fork();
	if (pid == 0) {
		if (mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) ==
		    MAP_FAILED)
			_exit(1);
		close(commands[1]);
		pid = getpid(); /* told once all of it is there to be seen */
		if (write(1, &pid, sizeof(pid)) != sizeof(pid))
			_exit(1);
		worker(commands[0], argv);
	}
	close(fd);
	while (read(0, &c, 1) == 1) {
		if (c == 'l')
			port = listen_any();
		else if (write(commands[1], &c, 1) != 1)
			_exit(1);
		if (write(1, &port, sizeof(port)) != sizeof(port))
			_exit(1);
	}
	kill(pid, SIGKILL);
	_exit(0);
}

/* ---- the test's side ---------------------------------------------------- */

static int make_dir(void **state)
{
	char path[128];
	FILE *f;

	(void)state;
	strcpy(dir, "/tmp/moetop-test-XXXXXX");
	if (!mkdtemp(dir) || prctl(PR_SET_CHILD_SUBREAPER, 1))
		return -1;
	snprintf(path, sizeof(path), "%s/libcuda.so.1", dir);
	f = fopen(path, "w");
	fprintf(f, "%4096s", "");
	fclose(f);
	snprintf(path, sizeof(path), "%s/config.json", dir);
	f = fopen(path, "w");
	fputs(MIXTRAL, f);
	return fclose(f);
}

static int remove_dir(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static void serve(struct server *s, char *const *argv)
{
	int in[2], out[2];
	char lib[128];

	snprintf(lib, sizeof(lib), "%s/libcuda.so.1", dir);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	s->pid = fork();
	assert_true(s->pid >= 0);
	if (s->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setenv(STAND_IN, lib, 1);
		dup2(in[0], 0);
		dup2(out[1], 1);
		execv("/proc/self/exe", argv);
		_exit(1);
	}
	close(in[0]);
	close(out[1]);
	s->to = in[1];
	s->from = out[0];
	assert_int_equal(read(s->from, &s->worker, sizeof(pid_t)),
			 sizeof(pid_t));
}

static void tell(struct server *s, char command)
{
	assert_int_equal(write(s->to, &command, 1), 1);
	assert_int_equal(read(s->from, &s->port, 2), 2);
}

static void stop(struct server *s)
{
	close(s->to);
	close(s->from);
	waitpid(s->pid, NULL, 0);
	/* a dying worker still looks like one to the next test */
	waitpid(s->worker, NULL, 0);
}

static void *tell_tid(void *fd)
{
	pid_t tid = gettid();

	if (write(*(int *)fd, &tid, sizeof(tid)) == sizeof(tid))
		pause();
	return NULL;
}

static void a_server_and_its_worker(void **state)
{
	char *argv[] = { "vllm", "serve",    dir, "--tensor-parallel-size",
			 "2",    "--port=0", NULL };
	struct server s;
	struct target t;
	char why[256];

	(void)state;
	serve(&s, argv);
	tell(&s, 'l');
	assert_int_equal(target_open(&t, s.pid, NULL, why, sizeof(why)), 0);
	assert_string_equal(t.arch_error, "");
	assert_int_equal(t.pid, s.pid);
	assert_int_equal(t.n_pids, 2);
	assert_int_equal(t.pids[1], s.worker);
	assert_string_equal(t.engine, "vllm");
	assert_int_equal(t.tp, 2);
	assert_int_equal(t.n_ports, 1);
	assert_int_equal(t.ports[0], s.port);
	assert_false(t.ports_guessed);
	assert_int_not_equal(t.netns, 0);
	assert_int_equal(t.n_ranks, 1);
	assert_int_equal(t.ranks[0].pid, s.worker);
	assert_true(t.ranks[0].has_cuda);
	assert_string_equal(t.ranks[0].agent_ring, "");
	assert_true(t.have_arch);
	assert_int_equal(t.arch.experts, 8);
	assert_string_equal(t.config_origin, "model path of the server");
	assert_false(t.denied);
	stop(&s);
}

static void refresh_sees_ring_port_and_end(void **state)
{
	char *argv[] = { "sglang", "serve", "--model-path", "/no/such", NULL };
	char ring[64], why[256];
	struct server s;
	struct target t;

	(void)state;
	serve(&s, argv);
	assert_int_equal(target_open(&t, s.pid, NULL, why, sizeof(why)), 0);
	assert_non_null(strstr(t.arch_error, "/no/such"));
	assert_false(t.have_arch);
	assert_string_equal(t.engine, "sglang");
	assert_true(t.ports_guessed);
	assert_int_equal(t.ports[0], 30000);
	assert_int_equal(target_refresh(&t), 0);
	tell(&s, 'r');
	snprintf(ring, sizeof(ring), "/proc/%d/fd/", (int)s.worker);
	for (int i = 0; i < 60000 && target_refresh(&t) == 0; i++)
		usleep(1000);
	assert_memory_equal(t.ranks[0].agent_ring, ring, strlen(ring));
	assert_int_equal(target_refresh(&t), 0);
	stop(&s);
	assert_int_equal(target_refresh(&t), -ESRCH);
	assert_string_equal(t.engine, "sglang");
}

static void a_model_that_the_server_names(void **state)
{
	char *argv[] = { "vllm", "serve", "--port=0", NULL };
	struct server s;
	struct target t;
	char why[256];

	(void)state;
	serve(&s, argv);
	assert_int_equal(target_open(&t, s.pid, NULL, why, sizeof(why)), 0);
	assert_false(t.have_arch);
	assert_string_equal(t.model, "");
	assert_int_equal(target_learn(&t, "", "/v1/models"), 0);
	assert_int_equal(target_learn(&t, dir, "/v1/models"), 1);
	assert_true(t.have_arch);
	assert_string_equal(t.model, dir + strlen("/tmp/"));
	assert_string_equal(t.config_origin,
			    "model path of the server, named by /v1/models");
	assert_int_equal(target_learn(&t, "other", "/v1/models"), 0);
	t.looks = 29; /* the next look is at everything */
	target_refresh(&t);
	assert_string_equal(t.model, dir + strlen("/tmp/"));
	stop(&s);
}

static bool is_titled(pid_t pid)
{
	char title[64] = "";

	return proc_read(pid, "cmdline", title, sizeof(title)) > 0 &&
	       strcmp(title, "VLLM::EngineCore") == 0;
}

/* The worker's own arguments are gone; its ancestor's tell the engine. */
static void a_worker_means_its_server(void **state)
{
	char *argv[] = { "vllm", "serve", "org/a-name-that-is-long", NULL };
	struct server s;
	struct target t;
	char why[256];

	(void)state;
	serve(&s, argv);
	assert_int_equal(target_open(&t, s.worker, NULL, why, sizeof(why)), 0);
	assert_int_equal(t.n_pids, 2); /* by the arguments of a fork */
	tell(&s, 't');
	for (int i = 0; i < 60000 && !is_titled(s.worker); i++)
		usleep(1000);
	assert_int_equal(target_open(&t, s.worker, NULL, why, sizeof(why)), 0);
	assert_int_equal(t.n_pids, 2);
	assert_int_equal(t.pid, s.worker);
	assert_int_equal(t.pids[0], s.worker);
	assert_int_equal(t.pids[1], s.pid);
	assert_string_equal(t.engine, "vllm");
	assert_string_equal(t.model, "org/a-name-that-is-long");
	stop(&s);
}

static void a_worker_without_its_server_is_left_over(void **state)
{
	char *argv[] = { "VLLM::Worker_TP0", NULL };
	struct server s;
	struct target t;
	char why[256];

	(void)state;
	serve(&s, argv);
	assert_int_equal(target_open(&t, s.pid, NULL, why, sizeof(why)), 0);
	assert_true(t.left_over);
	assert_non_null(strstr(t.note, "its server is gone"));
	assert_int_equal(t.n_ports, 0);
	stop(&s);
}

static void a_reused_pid_is_another_process(void **state)
{
	struct target t;
	char why[256];

	(void)state;
	assert_int_equal(target_open(&t, getpid(), NULL, why, sizeof(why)), 0);
	t.start_ticks--;
	assert_int_equal(target_refresh(&t), -ESRCH);
}

static void any_server_is_a_target(void **state)
{
	char *argv[] = { "my-own-server", NULL };
	struct server s;
	struct target t;
	char why[256];

	(void)state;
	serve(&s, argv);
	tell(&s, 'l');
	tell(&s, 'l');
	assert_int_equal(target_open(&t, s.pid, NULL, why, sizeof(why)), 0);
	assert_string_equal(t.engine, "");
	assert_int_equal(t.n_ports, 2);
	assert_int_equal(t.tp, 1);
	stop(&s);
}

static void more_ports_than_are_followed(void **state)
{
	char *argv[] = { "my-own-server", NULL };
	const unsigned more = 3;
	struct server s;
	struct target t;
	char why[256];

	(void)state;
	serve(&s, argv);
	for (unsigned i = 0; i < TARGET_PORTS_MAX; i++)
		tell(&s, 'l');
	assert_int_equal(target_open(&t, s.pid, NULL, why, sizeof(why)), 0);
	assert_int_equal(t.n_ports, TARGET_PORTS_MAX);
	assert_int_equal(t.unfollowed, 0);
	for (unsigned i = 0; i < more; i++)
		tell(&s, 'l');
	t.look_at_sockets = true;
	assert_int_equal(target_refresh(&t), 1);
	assert_int_equal(t.n_ports, TARGET_PORTS_MAX);
	assert_int_equal(t.unfollowed, more);
	stop(&s);
}

static void option_ports(void **state)
{
	char port[16], why[256];
	char *argv[] = { "vllm", "serve", dir, "--port", port, NULL };
	char *uds[] = { "vllm", "serve", dir, "--uds", "/tmp/x", NULL };
	struct server s;
	struct target t;

	(void)state;
	strcpy(port, "1");
	serve(&s, argv);
	tell(&s, 'l');
	assert_int_equal(target_open(&t, s.pid, NULL, why, sizeof(why)), 0);
	assert_int_equal(t.n_ports, 1);
	assert_int_equal(t.ports[0], 1);
	assert_true(t.ports_guessed);
	stop(&s);
	serve(&s, uds);
	tell(&s, 'l');
	assert_int_equal(target_open(&t, s.pid, NULL, why, sizeof(why)), 0);
	assert_int_equal(t.n_ports, 0);
	stop(&s);
}

/* Another user sees the command line, and that the rest is denied. */
static void without_permission(void **state)
{
	char *argv[] = { "vllm", "serve", "/no/such", NULL };
	struct server s;
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	serve(&s, argv);
	pid = fork();
	if (pid == 0) {
		struct target t;
		char why[256];

		if (setgid(65534) || setuid(65534) ||
		    target_open(&t, s.pid, NULL, why, sizeof(why)))
			_exit(1);
		_exit(t.denied && t.ports_guessed && t.n_ports == 1 &&
				      t.ports[0] == 8000 && t.n_pids == 2 &&
				      !strcmp(t.engine, "vllm")
			      ? 0
			      : 2);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	stop(&s);
}

static void a_thread_means_its_process(void **state)
{
	struct target t;
	char why[256], path[64];
	pid_t tid = 0;
	int gate[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(gate), 0);
	pid = fork();
	if (pid == 0) { /* a process whose second thread outlives the test */
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (pthread_create(&thread, NULL, tell_tid, &gate[1]))
			_exit(1);
		pause();
	}
	assert_int_equal(read(gate[0], &tid, sizeof(tid)), sizeof(tid));
	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)pid, (int)tid);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(target_open(&t, tid, NULL, why, sizeof(why)), 0);
	assert_int_equal(t.pid, pid);
	assert_int_not_equal(target_refresh(&t), -ESRCH);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(gate[0]);
	close(gate[1]);
}

static void the_users_config_overrules(void **state)
{
	/* it was read by somebody with fewer rights: what has its name now may
	 * be another file, and is not opened */
	const struct target_model given = { .path = "/nonexistent/config.json",
					    .arch = { .experts = 77 } };
	struct target t = { .pid = 42 };
	char why[256];

	(void)state;
	assert_int_equal(target_open(&t, getpid(), &given, why, sizeof(why)),
			 0);
	assert_true(t.have_arch);
	assert_int_equal(t.arch.experts, 77);
	assert_string_equal(t.config_origin, "--model");
	assert_string_equal(t.config_path, given.path);
}

static void no_such_process(void **state)
{
	struct target t = { .pid = 42 };
	char why[256] = "";

	(void)state;
	assert_int_equal(target_open(&t, 0x7ffffffe, NULL, why, sizeof(why)),
			 -ESRCH);
	assert_non_null(strstr(why, "not found"));
	assert_int_equal(t.pid, 42);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_and_its_worker),
		cmocka_unit_test(refresh_sees_ring_port_and_end),
		cmocka_unit_test(a_worker_means_its_server),
		cmocka_unit_test(a_model_that_the_server_names),
		cmocka_unit_test(a_worker_without_its_server_is_left_over),
		cmocka_unit_test(a_reused_pid_is_another_process),
		cmocka_unit_test(any_server_is_a_target),
		cmocka_unit_test(more_ports_than_are_followed),
		cmocka_unit_test(option_ports),
		cmocka_unit_test(without_permission),
		cmocka_unit_test(a_thread_means_its_process),
		cmocka_unit_test(the_users_config_overrules),
		cmocka_unit_test(no_such_process),
	};

	(void)argc;
	if (getenv(STAND_IN))
		stand_in(argv);
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
