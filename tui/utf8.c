#include "tui/grid.h"

#define REPLACEMENT 0xfffdu

/* Controls, and the invisible format characters that reorder or hide text. */
static bool unprintable(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c ||
	       c == 0x180e || (c >= 0x200b && c <= 0x200f) ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) ||
	       c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
	       (c >= 0xd800 && c <= 0xdfff) || (c >> 12) == 0xe0 ||
	       c > 0x10ffff;
}

size_t utf8_decode(const char *s, uint32_t *glyph)
{
	static const uint32_t least[] = { 0, 0x80, 0x800, 0x10000 };
	const unsigned char *p = (const unsigned char *)s;
	uint32_t c = p[0];
	size_t more = 0, seen = 0;

	if (c >= 0xc2 && c < 0xf5) {
		more = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
		c &= 0x3fu >> more;
	} else if (c >= 0x80) {
		c = REPLACEMENT;
	}
	while (seen < more && (p[1 + seen] & 0xc0) == 0x80)
		c = c << 6 | (p[1 + seen++] & 0x3fu);
	*glyph = c;
	if (!p[0])
		return 0;
	if (seen < more || c < least[more] || unprintable(c))
		*glyph = REPLACEMENT;
	return 1 + seen;
}

unsigned utf8_encode(uint32_t c, char out[4])
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}
