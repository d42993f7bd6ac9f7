#include "core/given_model.h"

#include "core/say.h"
#include "target/model_config.h"

#include <errno.h>

int given_model_read(const struct settings *s, struct target_model *out)
{
	char why[256] = "";
	int err;

	*out = (struct target_model){ .path = s->model };
	if (!s->model)
		return STATUS_OK;
	err = model_config_read(s->model, &out->arch, why, sizeof(why));
	if (!err)
		return STATUS_OK;
	if (err == -EACCES || err == -EPERM)
		return say(STATUS_PERMISSION,
			   "--model: %s: %s; name a file that you may read",
			   s->model, why);
	return say(STATUS_RUNTIME,
		   "--model: %s: %s; name the model's config.json", s->model,
		   why);
}
