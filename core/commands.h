/*
 * commands.h - one function per word of the command line
 *
 * Each returns the exit status and has said what failed.
 */
#ifndef MOETOP_CORE_COMMANDS_H
#define MOETOP_CORE_COMMANDS_H

#include "core/settings.h"

int cmd_view(const struct settings *s); /* -p PID */
int cmd_run(const struct settings *s);  /* does not return on success */
int cmd_demo(const struct settings *s);
int cmd_doctor(const struct settings *s);
int cmd_plan(const struct settings *s);
int cmd_config(const struct settings *s);
int cmd_record(const struct settings *s);
int cmd_replay(const struct settings *s);

#endif
