/* fuzz_web_config.c - any bytes as the file of --web.config.file */
#include "exporter/web_config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct web_config c;
	char why[256] = "";
	int err = web_config_parse(&c, (const char *)data, bytes, "/etc", why,
				   sizeof(why));

	if (err ? !why[0] || strchr(why, '\n') : why[0] != '\0')
		abort();
	if (err)
		return 0;
	/* no user without a hash, no TLS without a certificate */
	for (unsigned i = 0; i < c.n_users; i++)
		if (strlen(c.users[i].value) != 60)
			abort();
	if (c.have_tls && !c.tls.cert_file && !c.tls.cert)
		abort();
	web_config_fini(&c);
	return 0;
}
