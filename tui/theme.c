#include "tui/theme.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { OWN = -1 };

/* What the styles have in common is a role; a theme is a colour for each. */
enum role {
	ROLE_BACK,
	ROLE_TEXT,
	ROLE_DIM,
	ROLE_FRAME,
	ROLE_TITLE,
	ROLE_GOOD,
	ROLE_WARN,
	ROLE_BAD,
	ROLE_BLUE,   /* an amount */
	ROLE_ORANGE, /* waste, cost */
	ROLE_GREEN,  /* gain */
	ROLE_PURPLE,
	ROLE_YELLOW,
	ROLE_EMPTY, /* of a bar */
	ROLE_FAINT, /* text of the least weight */
	ROLE_COLD,  /* heat map, few */
	ROLE_COOL,
	ROLE_WARM,
	ROLE_HOT,
	ROLES
};

/* Colours of a terminal with eight, on its own background and on white. */
static const signed char ansi_dark[ROLES] = {
	OWN, OWN, OWN, OWN, 6, 2, 3, 1, 4, 3, 2, 5, 6, OWN, OWN, 4, 6, 2, 3,
};
static const signed char ansi_light[ROLES] = {
	7, 0, 0, 0, 4, 4, 5, 1, 4, 1, 4, 5, 0, 0, 0, 4, 4, 5, 1,
};

static const struct row {
	unsigned char role, colored, mono; /* attributes */
} rows[STYLES] = {
	[STYLE_NORMAL] = { ROLE_TEXT, 0, 0 },
	[STYLE_DIM] = { ROLE_DIM, 0, 0 },
	[STYLE_STRONG] = { ROLE_TEXT, LOOK_BOLD, LOOK_BOLD },
	[STYLE_TITLE] = { ROLE_TITLE, LOOK_BOLD, LOOK_BOLD },
	[STYLE_FRAME] = { ROLE_FRAME, 0, 0 },
	[STYLE_STALE] = { ROLE_FAINT, LOOK_DIM, LOOK_DIM },
	[STYLE_GOOD] = { ROLE_GOOD, 0, 0 },
	[STYLE_WARN] = { ROLE_WARN, LOOK_BOLD, LOOK_BOLD },
	[STYLE_BAD] = { ROLE_BAD, LOOK_BOLD, LOOK_BOLD },
	[STYLE_BAR] = { ROLE_BLUE, 0, 0 },
	[STYLE_BAR_WASTE] = { ROLE_ORANGE, 0, 0 },
	[STYLE_BAR_COST] = { ROLE_ORANGE, 0, 0 },
	[STYLE_BAR_GAIN] = { ROLE_GREEN, 0, 0 },
	[STYLE_BAR_EMPTY] = { ROLE_EMPTY, 0, 0 },
	[STYLE_SPARK] = { ROLE_BLUE, 0, 0 },
	[STYLE_KEY] = { ROLE_TEXT, LOOK_BOLD, LOOK_BOLD },
	[STYLE_KEY_TEXT] = { ROLE_DIM, 0, 0 },
	[STYLE_KEY_ACTIVE] = { ROLE_TEXT, LOOK_REVERSE, LOOK_REVERSE },
	[STYLE_MESSAGE] = { ROLE_TEXT, LOOK_REVERSE, LOOK_REVERSE },
	[STYLE_ALERT] = { ROLE_BAD, LOOK_REVERSE | LOOK_BOLD,
			  LOOK_REVERSE | LOOK_BOLD },
	[STYLE_GROUP + 0] = { ROLE_ORANGE, 0, LOOK_BOLD },
	[STYLE_GROUP + 1] = { ROLE_PURPLE, 0, 0 },
	[STYLE_GROUP + 2] = { ROLE_BLUE, 0, 0 },
	[STYLE_GROUP + 3] = { ROLE_GREEN, 0, 0 },
	[STYLE_GROUP + 4] = { ROLE_YELLOW, 0, 0 },
	[STYLE_GROUP + 5] = { ROLE_DIM, 0, 0 },
	[STYLE_GROUP + 6] = { ROLE_FAINT, 0, 0 },
	[STYLE_CURSOR] = { ROLE_TEXT, LOOK_REVERSE, LOOK_REVERSE },
	[STYLE_HEAT + 6] = { ROLE_HOT, 0, LOOK_BOLD },
	[STYLE_HEAT + 7] = { ROLE_HOT, LOOK_BOLD, LOOK_BOLD },
};

const struct theme_name theme_names[THEMES] = {
	{ "default", "the terminal's own background" },
	{ "dark", "light text on near black" },
	{ "light", "dark text on white" },
	{ "contrast", "the strongest contrast, on black" },
	{ "contrast-light", "the strongest contrast, on white" },
	{ "colorblind", "Okabe and Ito's colours, on black" },
	{ "colorblind-light", "Okabe and Ito's colours, on white" },
	{ "solar-dark", "muted, on deep blue" },
	{ "solar-light", "muted, on cream" },
	{ "amber", "one hue, as an old terminal" },
	{ "mono", "no colours" },
};
#define THEME_MONO (THEMES - 1)

/* In the order of enum role. */
static const int palette[THEMES - 1][ROLES] = {
	{ OWN, OWN, 0x8a8a8a, 0x767676, 0x0087d7, 0x00af87, 0xd78700, 0xd75f5f,
	  0x5f87d7, 0xd78700, 0x00af87, 0xd75fd7, 0xd7af5f, 0x585858, 0x767676,
	  0x5f5f87, 0x008787, 0x5faf5f, 0xffd700 },
	{ 0x11151a, 0xd8dee6, 0x9aa5b1, 0x5c6773, 0x5fb3f2, 0x4cc38a, 0xf0b252,
	  0xf27a7a, 0x6fa8ff, 0xee9a4d, 0x4cc38a, 0xd78be8, 0xe0c35c, 0x39424d,
	  0x8793a0, 0x35417a, 0x2a8596, 0x63b76c, 0xf5e663 },
	{ 0xffffff, 0x1c2126, 0x59626c, 0xa4adb6, 0x0b5cad, 0x0f6e46, 0x8a5200,
	  0xb3261e, 0x1f5fc4, 0x9c4a00, 0x0f6e46, 0x8a35a0, 0x6f5b00, 0xd0d6dc,
	  0x626b75, 0xbfd3ee, 0x5aa3c4, 0x1d6f86, 0x3a0f5c },
	{ 0x000000, 0xffffff, 0xe4e4e4, 0xb2b2b2, 0x00ffff, 0x00ff5f, 0xffff00,
	  0xff8787, 0x87d7ff, 0xffaf00, 0x00ff5f, 0xff87ff, 0xffff5f, 0x767676,
	  0xd0d0d0, 0x5f5faf, 0x00afd7, 0x5fff5f, 0xffff87 },
	{ 0xffffff, 0x000000, 0x262626, 0x585858, 0x00005f, 0x005f00, 0x5f2f00,
	  0x870000, 0x0000af, 0x5f3f00, 0x005f00, 0x5f005f, 0x444400, 0xbcbcbc,
	  0x303030, 0xafafd7, 0x5f87af, 0x005f87, 0x1c1c3a },
	{ 0x0c0c0c, 0xe6e6e6, 0xa8a8a8, 0x606060, 0x56b4e9, 0x00b98a, 0xe69f00,
	  0xf08a4b, 0x56b4e9, 0xe69f00, 0x00b98a, 0xd894b8, 0xf0e442, 0x444444,
	  0x989898, 0x1f3f6e, 0x3f7fb0, 0xc9973f, 0xf0e442 },
	{ 0xffffff, 0x111111, 0x555555, 0xa0a0a0, 0x005a94, 0x006a4e, 0x7d5200,
	  0xa04000, 0x0063a0, 0x8f5500, 0x006a4e, 0x8f3f70, 0x665f00, 0xd2d2d2,
	  0x606060, 0xcfe3f3, 0x77b0d9, 0x2a6ca0, 0x3d2a00 },
	{ 0x06222c, 0xb9c6c8, 0x8ea3a8, 0x3f626d, 0x4fa8e0, 0x9db031, 0xd09f2c,
	  0xee7f78, 0x5aa9e6, 0xe08b4a, 0x9db031, 0xd98bc0, 0xd2b53c, 0x1d4450,
	  0x839aa0, 0x1f4f7a, 0x2f8a94, 0x8fae3c, 0xf2d75c },
	{ 0xfbf4e2, 0x37474d, 0x5a696e, 0xb3ad98, 0x1a639c, 0x4d6300, 0x805a00,
	  0xb02a22, 0x1f66a8, 0x9a4312, 0x4d6300, 0x9c2f6e, 0x6f5d00, 0xd9d2bb,
	  0x626f73, 0xd5dfd6, 0x7fb5b0, 0x3a7a8c, 0x4a1f4a },
	{ 0x140d02, 0xffc04d, 0xd39a3a, 0x7a5416, 0xffe0a3, 0xffd27a, 0xffe9c2,
	  0xff9d5c, 0xe0a040, 0xffb84d, 0xffd27a, 0xd9a869, 0xffe0a3, 0x4f3508,
	  0xbd8a36, 0x5c3c08, 0x96650f, 0xd49a33, 0xfff0cf },
};

unsigned theme_find(const char *name)
{
	unsigned i = 0;

	while (i < THEMES && strcmp(theme_names[i].name, name))
		i++;
	return i;
}

/* ---- colours ------------------------------------------------------------- */

static int part(int rgb, int shift)
{
	return rgb >> shift & 0xff;
}

static int cube_step(int i)
{
	return i ? 55 + 40 * i : 0;
}

int color_of_256(int n)
{
	if (n >= 232)
		return (8 + 10 * (n - 232)) * 0x010101;
	n -= 16;
	return cube_step(n / 36) << 16 | cube_step(n / 6 % 6) << 8 |
	       cube_step(n % 6);
}

static int distance(int a, int b)
{
	int sum = 0;

	for (int shift = 0; shift <= 16; shift += 8)
		sum += (part(a, shift) - part(b, shift)) *
		       (part(a, shift) - part(b, shift));
	return sum;
}

int color_to_256(int rgb)
{
	int best = 16;

	for (int n = 17; n < 256; n++)
		if (distance(color_of_256(n), rgb) <
		    distance(color_of_256(best), rgb))
			best = n;
	return best;
}

static double linear(int byte)
{
	double c = byte / 255.0;

	return c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4);
}

static double luminance(int rgb)
{
	return 0.2126 * linear(part(rgb, 16)) + 0.7152 * linear(part(rgb, 8)) +
	       0.0722 * linear(part(rgb, 0));
}

double color_contrast(int rgb, int other)
{
	double a = luminance(rgb) + 0.05, b = luminance(other) + 0.05;

	return a > b ? a / b : b / a;
}

/* ---- looks --------------------------------------------------------------- */

/* The heat map goes through four colours in HEAT_LEVELS steps. */
static int heat(const int *p, int level)
{
	double at = 3.0 * level / (HEAT_LEVELS - 1);
	int from = at >= 3 ? 2 : (int)at, rgb = 0;

	for (int shift = 0; shift <= 16; shift += 8) {
		double a = part(p[ROLE_COLD + from], shift);
		double b = part(p[ROLE_COLD + from + 1], shift);
		rgb |= (int)lround(a + (b - a) * (at - from)) << shift;
	}
	return rgb;
}

static int heat_level(enum style s)
{
	return s >= STYLE_HEAT && s <= STYLE_HEAT_LAST ? (int)s - STYLE_HEAT
						       : -1;
}

int theme_background(unsigned theme)
{
	return theme < THEME_MONO ? palette[theme][ROLE_BACK] : OWN;
}

static int as_256(int rgb)
{
	return rgb < 0 ? rgb : color_to_256(rgb);
}

static struct look of_role(unsigned theme, enum role role, int level,
			   enum color_depth d)
{
	const int *p = palette[theme];
	bool light = p[ROLE_BACK] > 0x808080;
	const signed char *ansi = light ? ansi_light : ansi_dark;
	int rgb = level < 0 ? p[role] : heat(p, level);

	if (d == DEPTH_TRUE)
		return (struct look){ rgb, p[ROLE_BACK], 0 };
	if (d == DEPTH_256)
		return (struct look){ as_256(rgb), as_256(p[ROLE_BACK]), 0 };
	if (level >= 0)
		role = (enum role)(ROLE_COLD + level / 2);
	return (struct look){ ansi[role], ansi[ROLE_BACK], 0 };
}

struct look theme_look(unsigned theme, enum style s, enum color_depth d)
{
	const struct row *r = &rows[s < STYLES ? s : STYLE_NORMAL];
	struct look l = { OWN, OWN, r->mono };

	if (theme >= THEME_MONO || d == DEPTH_MONO)
		return l;
	l = of_role(theme, r->role, heat_level(s), d);
	l.attributes = r->colored;
	/* there it would fall below the contrast that the colour has */
	if (theme_background(theme) >= 0)
		l.attributes &= ~(unsigned)LOOK_DIM;
	return l;
}

struct look theme_look_changed(unsigned theme, enum style s, enum color_depth d)
{
	struct look l = theme_look(theme, s, d);

	if (l.attributes & LOOK_REVERSE)
		return l;
	if (theme >= THEME_MONO || d == DEPTH_MONO)
		l.attributes |= LOOK_UNDERLINE;
	else
		l.fg = theme_look(theme, STYLE_TITLE, d).fg;
	return l;
}
