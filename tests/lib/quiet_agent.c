/*
 * quiet_agent.c - a library that can be injected and leaves nothing
 *
 * It has the boot code of the agent, makes no ring, and unloads itself: so a
 * process can be injected again and again, and every time is the first.
 */
#include <dlfcn.h>
#include <stddef.h>

int InitializeInjection(void) __attribute__((visibility("default")));

static __attribute__((noinline)) void *own_handle(void)
{
	Dl_info self;

	if (!dladdr((void *)InitializeInjection, &self))
		return NULL;
	return dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
}

/* The last step must be a jump, as nobody may come back here: the Makefile has
 * it compiled so that it is. */
int InitializeInjection(void)
{
	void *handle = own_handle();

	if (!handle)
		return 0;
	dlclose(handle);
	return dlclose(handle);
}
