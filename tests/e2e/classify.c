/*
 * classify.c - names of kernels on standard input to their classes
 *
 * One name a line; prints class, group and name apart by tabs.
 */
#include "cupti/classify.h"

#include <stdio.h>
#include <string.h>

static const char *const class_names[CLASSES] = {
	[CLASS_OTHER] = "other",
#define KERNEL_CLASS(id, name, group, regex) [CLASS_##id] = name,
#include "wire/kernel_class.def"
#undef KERNEL_CLASS
};

static const char *const group_names[GROUPS] = {
	[GROUP_EXPERT] = "expert",       [GROUP_ROUTE] = "route",
	[GROUP_ATTENTION] = "attention", [GROUP_DENSE] = "dense",
	[GROUP_COMM] = "comm",           [GROUP_OTHER] = "other",
};

int main(void)
{
	struct kernel_names *n = kernel_names_new();
	char line[8192];

	if (!n)
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		unsigned k;

		line[strcspn(line, "\n")] = 0;
		k = kernel_names_get(n, line)->klass;
		printf("%s\t%s\t%s\n", class_names[k],
		       group_names[kernel_class_group(k)], line);
	}
	kernel_names_free(n);
	return 0;
}
