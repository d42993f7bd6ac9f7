/*
 * kernel_class.h - the classes of GPU kernels, from wire/kernel_class.def
 *
 * The agent sends the number, everyone else looks the name and group up here.
 */
#ifndef MOETOP_WIRE_KERNEL_CLASS_H
#define MOETOP_WIRE_KERNEL_CLASS_H

/* What a class is for, in the economics: where a step's time goes. */
enum kernel_group {
	GROUP_EXPERT,    /* expert GEMMs: the weights that routing selects */
	GROUP_ROUTE,     /* router, top-k, alignment, permutation, reduction */
	GROUP_ATTENTION, /* attention and KV writes */
	GROUP_DENSE,     /* everything that reads the same weights each step */
	GROUP_COMM,      /* all-reduce, all-to-all */
	GROUP_OTHER,
	GROUPS
};

enum kernel_class {
	CLASS_OTHER,
#define KERNEL_CLASS(id, name, group, regex) CLASS_##id,
#include "wire/kernel_class.def"
#undef KERNEL_CLASS
	CLASSES
};

#endif
