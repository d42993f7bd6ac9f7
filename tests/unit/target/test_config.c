#include "target/config.h"
#include "target/simulated.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
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

static char dir[64];

/* Write text to DIR/path, with the folders above it. */
static void put(const char *path, const char *text)
{
	char full[512];
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", dir, path);
	for (char *p = full + strlen(dir) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(full, 0755);
		*p = '/';
	}
	f = fopen(full, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int make_dir(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/moetop-test-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

/*
 * A process that stands in for a server: env is one "NAME=value" or NULL.  It
 * gives back what it is sent, once the new program runs with its environment.
 */
static pid_t serve(const char *root, const char *env, int hold[2])
{
	char variable[256], c = '.';
	char *const none[] = { NULL }, *const one[] = { variable, NULL };
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, hold), 0);
	snprintf(variable, sizeof(variable), "%s", env ? env : "");
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (dup2(hold[0], 0) != 0 || dup2(hold[0], 1) != 1 ||
		    chdir(root))
			_exit(1);
		close(hold[0]);
		close(hold[1]);
		execle("/bin/cat", "cat", (char *)NULL, env ? one : none);
		_exit(1);
	}
	close(hold[0]);
	assert_int_equal(write(hold[1], &c, 1), 1);
	assert_int_equal(read(hold[1], &c, 1), 1);
	return pid;
}

static void end(pid_t pid, int hold[2])
{
	close(hold[1]);
	waitpid(pid, NULL, 0);
}

static void check(pid_t pid, const struct cmdline *c, const char *json,
		  const char *origin)
{
	struct config_file f = { 0 };

	assert_int_equal(config_file_find(pid, c, &f), 0);
	assert_string_equal(f.json, json);
	assert_int_equal(f.json_bytes, strlen(json));
	assert_string_equal(f.origin, origin);
	config_file_free(&f);
}

static void model_directories(void **state)
{
	struct cmdline c = { 0 };
	struct config_file f = { 0 };
	int hold[2];
	pid_t pid = serve(dir, NULL, hold);

	(void)state;
	put("m/config.json", "1");
	put("m/hf_quant_config.json", "2");
	put("x.json", "3");
	snprintf(c.model, sizeof(c.model), "%s/m", dir);
	check(pid, &c, "1", "model path of the server");
	assert_int_equal(config_file_find(pid, &c, &f), 0);
	assert_string_equal(f.quant, "2");
	config_file_free(&f);
	strcpy(c.model, "m"); /* from the working directory */
	check(pid, &c, "1", "model path of the server");
	strcpy(c.model, "x.json");
	check(pid, &c, "3", "model path of the server");
	strcpy(c.overrides, "{\"a\":{\"b\":2}}");
	check(pid, &c, "3",
	      "model path of the server, without the overrides on its command "
	      "line"); /* which is no object */
	put("x.json", "{\"a\":{\"b\":1,\"c\":3},\"d\":4}");
	check(pid, &c, "{\"a\":{\"b\":2,\"c\":3},\"d\":4}",
	      "model path of the server, with the overrides on its command "
	      "line");
	c.overrides_unknown = true;
	c.no_weights = true;
	strcpy(c.overrides, "");
	check(pid, &c, "{\"a\":{\"b\":1,\"c\":3},\"d\":4}",
	      "model path of the server, without the overrides on its command "
	      "line, dummy weights");
	c.overrides_unknown = c.no_weights = false;
	strcpy(c.hf_config_path, "m");
	check(pid, &c, "1", "--hf-config-path of the server");
	end(pid, hold);
}

static void hugging_face_cache(void **state)
{
	static const char hub[] = "Hugging Face cache of the server";
	struct cmdline c = { .model = "Org/Name" };
	char env[128];
	int hold[2];
	pid_t pid;

	(void)state;
	put("hub/models--Org--Name/refs/main", "abc\n");
	put("hub/models--Org--Name/refs/v2", "def");
	put("hub/models--Org--Name/snapshots/abc/config.json", "main");
	put("hub/models--Org--Name/snapshots/def/config.json", "v2");
	put("hub/models--Org--Only/snapshots/fff/config.json", "only");
	snprintf(env, sizeof(env), "HF_HOME=%s", dir);
	pid = serve("/", env, hold);
	check(pid, &c, "main", hub);
	strcpy(c.revision, "v2");
	check(pid, &c, "v2", hub);
	strcpy(c.revision, "def");
	check(pid, &c, "v2", hub);
	c.revision[0] = '\0';
	strcpy(c.model, "Org/Only");
	check(pid, &c, "only", hub);
	end(pid, hold);

	snprintf(env, sizeof(env), "HF_HUB_CACHE=%s/hub", dir);
	pid = serve("/", env, hold);
	check(pid, &c, "only", hub);
	end(pid, hold);
	pid = serve("/", NULL, hold);
	snprintf(c.download_dir, sizeof(c.download_dir), "%s/hub", dir);
	check(pid, &c, "only", hub);
	end(pid, hold);
	snprintf(env, sizeof(env), "HOME=%s/home", dir);
	put("home/.cache/huggingface/hub/models--Org--H/snapshots/1/"
	    "config.json",
	    "home");
	pid = serve("/", env, hold);
	strcpy(c.model, "Org/H");
	check(pid, &c, "home", hub);
	end(pid, hold);
}

static void modelscope_cache(void **state)
{
	struct cmdline c = { .model = "Org/Name-1.5B" };
	char env[128];
	int hold[2];
	pid_t pid;

	(void)state;
	put("ms/hub/models/Org/Name-1___5B/config.json", "ms");
	snprintf(env, sizeof(env), "MODELSCOPE_CACHE=%s/ms", dir);
	pid = serve("/", env, hold);
	check(pid, &c, "ms", "ModelScope cache of the server");
	end(pid, hold);
}

/* The stand-in has no program of ours: its working directory counts. */
static void names_of_the_simulated_server(void **state)
{
	struct cmdline c = { .simulated = true,
			     .engine = "vllm",
			     .config_file = "load" };
	int hold[2];
	pid_t pid;

	(void)state;
	put("sim/models/small.json", "small");
	put("sim/scenarios/load.options",
	    "# a comment\n--model small # and another\n\t--gpu H100\n");
	pid = serve(dir, NULL, hold);
	simulated_settle(pid, &c);
	assert_string_equal(c.gpu, "H100");
	assert_string_equal(c.model, "sim/models/small.json");
	check(pid, &c, "small", "model path of the server");
	strcpy(c.model, "none-such");
	simulated_settle(pid, &c);
	assert_string_equal(c.model, "none-such");
	end(pid, hold);
}

static void not_found(void **state)
{
	static const char *const models[] = { "",  "Org/Missing", "a/b/c",
					      "/", "/no/such",    "../../etc" };
	struct cmdline c = { 0 };
	struct config_file f = { .json_bytes = 7 };
	int hold[2];
	pid_t pid = serve(dir, NULL, hold);

	(void)state;
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		strcpy(c.model, models[i]);
		assert_int_equal(config_file_find(pid, &c, &f), -ENOENT);
	}
	assert_int_equal(f.json_bytes, 7);
	end(pid, hold);
	assert_int_equal(config_file_find(0x7ffffffe, &c, &f), -ESRCH);
}

/* In a chroot, links and ".." end at the server's root. */
static void links_stay_inside_the_servers_root(void **state)
{
	struct cmdline c = { .model = "/m" };
	struct config_file f = { 0 };
	char link[128], outside[128];
	int hold[2];
	pid_t pid;
	char *data = NULL;
	size_t bytes;

	(void)state;
	if (geteuid() != 0)
		skip();
	put("secret", "outside");
	put("jail/secret", "inside");
	put("jail/m/x", "");
	snprintf(link, sizeof(link), "%s/jail/m/config.json", dir);
	assert_int_equal(symlink("/secret", link), 0);
	assert_int_equal(pipe(hold), 0);
	pid = fork();
	if (pid == 0) {
		char b = 0;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(outside, sizeof(outside), "%s/jail", dir);
		if (chroot(outside) || chdir("/"))
			_exit(1);
		(void)!write(hold[1], &b, 1);
		pause();
	}
	assert_int_equal(read(hold[0], link, 1), 1);
	check(pid, &c, "inside", "model path of the server");
	assert_int_equal(
		server_file_load(pid, "/../../../secret", 64, &data, &bytes),
		0);
	assert_string_equal(data, "inside");
	free(data);
	snprintf(outside, sizeof(outside), "%s/jail/m/hf_quant_config.json",
		 dir);
	snprintf(link, sizeof(link), "%s/secret", dir);
	assert_int_equal(symlink(link, outside), 0);
	assert_int_equal(config_file_find(pid, &c, &f), 0);
	assert_null(f.quant);
	config_file_free(&f);
	kill(pid, SIGKILL);
	close(hold[0]);
	end(pid, hold);
}

static void only_regular_files_of_bounded_size(void **state)
{
	char fifo[128];
	char *data = NULL;
	size_t bytes;
	pid_t self = getpid();

	(void)state;
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(server_file_load(self, fifo, 64, &data, &bytes),
			 -EINVAL);
	assert_int_equal(server_file_load(self, dir, 64, &data, &bytes),
			 -EINVAL);
	put("big", "12345");
	snprintf(fifo, sizeof(fifo), "%s/big", dir);
	assert_int_equal(server_file_load(self, fifo, 4, &data, &bytes),
			 -EFBIG);
	assert_null(data);
	assert_int_equal(server_file_load(self, fifo, 5, &data, &bytes), 0);
	assert_string_equal(data, "12345");
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(model_directories),
		cmocka_unit_test(hugging_face_cache),
		cmocka_unit_test(modelscope_cache),
		cmocka_unit_test(names_of_the_simulated_server),
		cmocka_unit_test(not_found),
		cmocka_unit_test(links_stay_inside_the_servers_root),
		cmocka_unit_test(only_regular_files_of_bounded_size),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
