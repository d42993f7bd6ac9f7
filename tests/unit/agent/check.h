/* check.h - what every test of this folder includes before cmocka */
#ifndef MOETOP_TESTS_UNIT_AGENT_CHECK_H
#define MOETOP_TESTS_UNIT_AGENT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#endif
