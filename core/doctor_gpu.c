/*
 * The GPU: driver, NVML, and who may read its counters, and who does.
 */
#include "core/counters_library.h"
#include "core/doctor.h"
#include "core/driver.h"
#include "core/privileges.h"
#include "cupti/nvml.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MODPROBE_LINE "NVreg_RestrictProfilingToAdminUsers=0"

static unsigned read_version(const struct doctor *d, char *out, size_t bytes)
{
	char text[1024];

	out[0] = '\0';
	if (doctor_read(d, DRIVER_VERSION_FILE, text, sizeof(text)) <= 0)
		return 0;
	return driver_version(text, out, bytes);
}

void doctor_driver(struct doctor *d)
{
	char version[48];

	if (read_version(d, version, sizeof(version)))
		doctor_say(d, NULL, DOCTOR_OK, "", "NVIDIA driver %s", version);
	else
		doctor_say(d, NULL, DOCTOR_MISSING,
			   "install the NVIDIA driver and load it: sudo "
			   "modprobe nvidia (container: docker run --gpus all)",
			   "no NVIDIA driver: /proc/driver/nvidia/version is "
			   "not there");
}

static void say_gpus(struct doctor *d, const struct nvml *n)
{
	const struct nvml_gpu *g = nvml_gpu(n, 0);
	char peak[32] = "", cuda[32] = "";
	unsigned v = nvml_cuda(n);

	if (isfinite(g->peak_bytes_per_second))
		snprintf(peak, sizeof(peak), ", %.0f GB/s",
			 g->peak_bytes_per_second / 1e9);
	if (v)
		snprintf(cuda, sizeof(cuda), ", CUDA %u.%u", v / 1000,
			 v % 1000 / 10);
	doctor_say(d, NULL, DOCTOR_OK, "", "%u GPU%s, %s%s%s", nvml_count(n),
		   nvml_count(n) == 1 ? "" : "s", g->name, cuda, peak);
}

static void say_counters(struct doctor *d, const struct nvml *n)
{
	unsigned mig = 0, gpm = 0, all = nvml_count(n);

	for (unsigned i = 0; i < all; i++) {
		mig += nvml_gpu(n, i)->mig;
		gpm += nvml_gpu(n, i)->gpm;
	}
	d->tier = TIER_C;
	d->facts.gpm = gpm > 0;
	doctor_say(d, "mig", mig ? DOCTOR_MISSING : DOCTOR_OK,
		   mig ? "sudo nvidia-smi -mig 0 (ends what runs on the GPU)"
		       : "",
		   mig ? "%u of %u GPUs are in MIG mode: no counters there"
		       : "%u of %u GPUs are in MIG mode",
		   mig, all);
	doctor_say(d, "gpm", gpm ? DOCTOR_OK : DOCTOR_MISSING,
		   gpm ? "" : "needs Hopper or later, not in MIG mode",
		   "%u of %u GPUs have GPM, for DRAM bytes from outside", gpm,
		   all);
}

void doctor_gpus(struct doctor *d)
{
	struct nvml *n = NULL;
	char why[160] = "";

	if (nvml_open(&n, getenv("MOETOP_NVML"), why, sizeof(why))) {
		doctor_say(d, NULL, DOCTOR_MISSING,
			   "install the NVIDIA driver on this machine "
			   "(container: docker run --gpus all)",
			   "%s", why);
		return;
	}
	d->facts.gpus = true;
	say_gpus(d, n);
	say_counters(d, n);
	nvml_close(n);
}

/* ---- who may read the counters --------------------------------------------- */

/* Is it in a file of /etc/modprobe.d already? */
static bool is_configured(const struct doctor *d)
{
	char folder[PATH_MAX], path[PATH_MAX], text[16384];
	const struct dirent *e;
	bool found = false;
	DIR *dir;

	snprintf(folder, sizeof(folder), "%s/etc/modprobe.d", d->root);
	dir = opendir(folder);
	while (dir && !found && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/etc/modprobe.d/%s", e->d_name);
		found = doctor_read(d, path, text, sizeof(text)) > 0 &&
			strstr(text, MODPROBE_LINE);
	}
	if (dir)
		closedir(dir);
	return found;
}

void doctor_counters(struct doctor *d)
{
	uint64_t caps = d->facts.capabilities;
	char params[16384], version[48];
	unsigned driver = read_version(d, version, sizeof(version));
	bool may = caps >> CAP_SYS_ADMIN & 1 ||
		   (caps >> CAP_PERFMON & 1 && driver >= DRIVER_PERFMON);

	if (doctor_read(d, DRIVER_PARAMS_FILE, params, sizeof(params)) <= 0) {
		doctor_say(d, NULL, DOCTOR_UNKNOWN, "",
			   "whether profiling counters are restricted is not "
			   "known: no /proc/driver/nvidia/params");
		return;
	}
	d->facts.counters_denied = driver_restricts(params) && !may;
	if (!driver_restricts(params))
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "profiling counters are open to all users "
			   "(RmProfilingAdminOnly 0)");
	else if (is_configured(d))
		doctor_say(d, NULL, DOCTOR_BROKEN,
			   "reboot, or: sudo modprobe -r nvidia_uvm "
			   "nvidia_drm nvidia_modeset nvidia && sudo modprobe "
			   "nvidia",
			   "profiling counters are still restricted "
			   "(RmProfilingAdminOnly 1), though /etc/modprobe.d "
			   "opens them");
	else
		doctor_say(
			d, NULL, may ? DOCTOR_OK : DOCTOR_MISSING,
			"echo 'options nvidia " MODPROBE_LINE "' | sudo tee "
			"/etc/modprobe.d/nvidia-profiling.conf, then reboot",
			"profiling counters are for administrators only "
			"(RmProfilingAdminOnly 1)%s",
			may ? ", and moetop is one; the server's own process "
			      "may not be"
			    : "");
}

/* ---- who holds them -------------------------------------------------------- */

#define SAMPLER "moetop-counters"

struct holder {
	const char *comm, *what, *remedy;
	bool shares; /* does no harm where there is GPM */
};

static const struct holder holders[] = {
	{ "nv-hostengine", "DCGM", "dcgmi profile --pause (and --resume after)",
	  true },
	{ "dcgm-exporter", "the exporter of DCGM",
	  "dcgmi profile --pause, or leave the DCGM_FI_PROF_* fields out of "
	  "its list",
	  true },
	{ "dcgmproftester", "DCGM's load generator", "end it", false },
	{ "nsys", "Nsight Systems", "end it", false },
	{ "nsys-launcher", "Nsight Systems", "end it", false },
	{ "ncu", "Nsight Compute", "end it", false },
	{ "nv-nsight-cu-cl", "Nsight Compute", "end it", false },
	{ SAMPLER, "PM sampling of another moetop",
	  "end it, or have one of them use --counters=gpm", true },
};

static const struct holder *holder_of(const struct doctor *d, const char *pid)
{
	char path[64], comm[64];

	snprintf(path, sizeof(path), "/proc/%.16s/comm", pid);
	if (doctor_read(d, path, comm, sizeof(comm)) <= 0)
		return NULL;
	comm[strcspn(comm, "\n")] = '\0';
	for (size_t i = 0; i < sizeof(holders) / sizeof(holders[0]); i++)
		if (!strcmp(comm, holders[i].comm) ||
		    (i == 2 && !strncmp(comm, holders[i].comm, 14)))
			return &holders[i];
	return NULL;
}

static void say_holder(struct doctor *d, const struct holder *h, int pid)
{
	bool fine = h->shares && d->facts.gpm;

	d->facts.sampled |= !strcmp(h->comm, SAMPLER);
	doctor_say(d, NULL, fine ? DOCTOR_OK : DOCTOR_MISSING, h->remedy,
		   "%s (%s, pid %d) %s", h->what, h->comm, pid,
		   fine ? "runs; on these GPUs it shares the counters by GPM, "
			  "so only if they come out empty"
			: "holds the GPU's counters");
}

void doctor_holders(struct doctor *d)
{
	char folder[PATH_MAX];
	const struct dirent *e;
	unsigned n = 0;
	DIR *dir;

	snprintf(folder, sizeof(folder), "%s/proc", d->root);
	dir = opendir(folder);
	while (dir && n < 4 && (e = readdir(dir))) {
		const struct holder *h;

		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		h = holder_of(d, e->d_name);
		if (!h)
			continue;
		say_holder(d, h, atoi(e->d_name));
		n++;
	}
	if (dir)
		closedir(dir);
	if (!n)
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "no other program is seen that holds the counters");
}

/* ---- PM sampling ------------------------------------------------------------ */

/* Looked at as the collector does, short of sampling: that takes the counters. */
void doctor_sampling(struct doctor *d)
{
	const struct doctor_line *holder =
		doctor_obstacle(d, "counters.holder");
	char cupti[PATH_MAX], cuda[PATH_MAX];
	int err;

	if (!d->facts.gpus)
		return;
	if (privileges_elevated())
		doctor_say(d, NULL, DOCTOR_MISSING,
			   "run moetop as root, or use --counters=gpm",
			   "PM sampling: not by a moetop with file "
			   "capabilities");
	else if (d->facts.counters_denied)
		doctor_say(d, NULL, DOCTOR_MISSING,
			   "run moetop as root, or see the line counters",
			   "PM sampling: profiling counters are for "
			   "administrators only");
	else if (holder || d->facts.sampled)
		doctor_say(d, NULL, DOCTOR_MISSING,
			   holder ? holder->remedy : "end it",
			   "PM sampling: %.150s",
			   holder ? holder->what
				  : "another moetop samples these GPUs");
	else if ((err = counters_library_find(d->target, cupti, cuda)))
		doctor_say(d, NULL, DOCTOR_MISSING, COUNTERS_LIBRARY_FIX, "%s",
			   counters_library_why(err));
	else
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "nothing is seen that keeps PM sampling "
			   "(--counters=pm) from it, by %.120s",
			   cupti);
}
