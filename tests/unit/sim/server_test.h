/* server_test.h - what the tests of the simulated server include */
#ifndef MOETOP_TESTS_SERVER_TEST_H
#define MOETOP_TESTS_SERVER_TEST_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define assert_near(a, b, relative)                                          \
	do {                                                                 \
		double near_a = (a), near_b = (b);                           \
		double near_d =                                              \
			near_a > near_b ? near_a - near_b : near_b - near_a; \
		if (near_d > (relative)*near_b)                              \
			fail_msg("%g is not near %g", near_a, near_b);       \
	} while (0)

#endif
