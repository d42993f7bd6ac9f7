#include "tui/keys.h"

#include <stddef.h>

#include "tui/screen.h"

const struct binding bindings[BINDINGS] = {
	{ { '1', '2', '3', '4', '5', '6' },
	  "1..6",
	  "show that screen",
	  NULL,
	  false,
	  ACTION_SCREEN },
	{ { INPUT_TAB }, "Tab", "next screen", NULL, false, ACTION_NEXT },
	{ { INPUT_BACK_TAB },
	  "Shift-Tab",
	  "screen before",
	  NULL,
	  false,
	  ACTION_PREVIOUS },
	{ { '?', 'h', INPUT_F1 },
	  "? h F1",
	  "this help; again to leave it",
	  "? help",
	  true,
	  ACTION_HELP },
	{ { INPUT_ESCAPE },
	  "Esc",
	  "leave the help",
	  NULL,
	  false,
	  ACTION_LEAVE_HELP },
	{ { ' ' },
	  "space",
	  "hold the picture, keep measuring",
	  "space pause",
	  false,
	  ACTION_PAUSE },
	{ { '+', '=' }, "+", "twice as often", NULL, false, ACTION_FASTER },
	{ { '-', '_' }, "-", "half as often", NULL, false, ACTION_SLOWER },
	{ { 'r' },
	  "r",
	  "kernel window now, not at its turn",
	  "r kernels now",
	  false,
	  ACTION_WINDOW },
	{ { 's' },
	  "s",
	  "in a table: next order",
	  "s order",
	  false,
	  ACTION_SORT },
	{ { 0 },
	  "arrows",
	  "scroll a table (Page, Home, End too)",
	  NULL,
	  false,
	  ACTION_SCREEN_KEY },
	{ { 'q', 'Q' }, "q", "quit", "q quit", true, ACTION_QUIT },
};

const struct binding *binding_find(int key)
{
	if (key == INPUT_NONE)
		return NULL;
	for (unsigned i = 0; i < BINDINGS; i++)
		for (unsigned k = 0; k < 6 && bindings[i].keys[k]; k++)
			if (bindings[i].keys[k] == key)
				return &bindings[i];
	return NULL;
}
