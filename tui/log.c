#include "tui/log.h"

#include <stdio.h>
#include <string.h>

#include "tui/format.h"
#include "tui/widgets.h"

void log_add(struct log *l, double time, const char *text)
{
	char line[LOG_BYTES];

	snprintf(line, sizeof(line), "%s", text);
	if (!line[0] || (l->n && !strcmp(l->line[l->newest].text, line)))
		return;
	l->newest = l->n ? (l->newest + 1) % LOG_LINES : 0;
	if (l->n < LOG_LINES)
		l->n++;
	else
		l->pushed_out++;
	l->line[l->newest].time = time;
	memcpy(l->line[l->newest].text, line, sizeof(line));
}

void log_draw(struct grid *g, struct rect r, const struct log *l, int *scroll)
{
	int room = r.h - 1, n = (int)l->n;
	char note[48], clock[NUMBER_TEXT];

	if (*scroll > n - room)
		*scroll = n - room;
	if (*scroll < 0)
		*scroll = 0;
	snprintf(note, sizeof(note), "%d kept, %lu older ones not", n,
		 l->pushed_out);
	rule_draw(g, (struct rect){ r.x, r.y, r.w, 1 }, "messages", note);
	if (!n)
		grid_text(g, r, 1, 1, STYLE_DIM, "no message yet");
	for (int i = 0; i < room && i + *scroll < n; i++) {
		unsigned back = (unsigned)(i + *scroll);
		const struct log_line *line =
			&l->line[(l->newest + LOG_LINES - back) % LOG_LINES];
		int y = n - *scroll < room ? n - *scroll - i : room - i;

		format_clock(clock, line->time);
		grid_text(g, r, 1, y, STYLE_DIM, clock);
		text_cut(g, r, 11, y, r.w - 12, STYLE_NORMAL, line->text);
	}
}
