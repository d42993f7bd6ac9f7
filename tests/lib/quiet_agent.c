/*
 * quiet_agent.c - a library that can be injected and keeps nothing
 *
 * It has the boot code of the agent, and no ring: so a process can be injected
 * again and again, and every time is the first.
 */
int InitializeInjection(void) __attribute__((visibility("default")));

int InitializeInjection(void)
{
	return 1;
}
