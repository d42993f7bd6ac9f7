/*
 * huffman.h - the code of the strings of HTTP/2 (RFC 7541, section 5.2)
 */
#ifndef MOETOP_BPF_HUFFMAN_H
#define MOETOP_BPF_HUFFMAN_H

#include <stddef.h>
#include <stdint.h>

/* 0 and *bytes of a string in code, or -ENOSPC if there is no room for it. */
int huffman_encode(const char *text, size_t n, uint8_t *coded, size_t max,
		   size_t *bytes);

/*
 * 0 and *n characters of a string in code, from bit `skip` of it on.  -EILSEQ if
 * it does not end as such a string ends, -ENOSPC if there is no room.
 */
int huffman_decode(const uint8_t *coded, size_t bytes, size_t skip, char *text,
		   size_t max, size_t *n);

#endif
