/*
 * The structures of cupti/pm_abi.h against NVIDIA's headers, where there are
 * any (make deps).
 */
#include "cupti/abi.h"
#include "cupti/pm_abi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#if __has_include(<cupti_pmsampling.h>)
#include <cupti.h>
#include <cupti_profiler_host.h>
#include <cupti_target.h>

#include <cupti_pmsampling.h>

/* Same offset, same size. */
#define SAME(ours, theirs, a, b)                                          \
	_Static_assert(offsetof(struct ours, a) == offsetof(theirs, b) && \
			       sizeof(((struct ours *)0)->a) ==           \
				       sizeof(((theirs *)0)->b),          \
		       #theirs "." #b)

#define CHIP CUpti_Device_GetChipName_Params
SAME(pm_chip_name, CHIP, device, deviceIndex);
SAME(pm_chip_name, CHIP, name, pChipName);
#define CHIPS CUpti_Profiler_Host_GetSupportedChips_Params
SAME(pm_chips, CHIPS, n, numChips);
SAME(pm_chips, CHIPS, names, ppChipNames);
#define INIT CUpti_Profiler_Host_Initialize_Params
SAME(pm_host_init, INIT, type, profilerType);
SAME(pm_host_init, INIT, chip, pChipName);
SAME(pm_host_init, INIT, availability, pCounterAvailabilityImage);
SAME(pm_host_init, INIT, host, pHostObject);
SAME(pm_host, CUpti_Profiler_Host_Deinitialize_Params, host, pHostObject);
#define ADD CUpti_Profiler_Host_ConfigAddMetrics_Params
SAME(pm_host_metrics, ADD, host, pHostObject);
SAME(pm_host_metrics, ADD, names, ppMetricNames);
SAME(pm_host_metrics, ADD, n, numMetrics);
#define SIZE CUpti_Profiler_Host_GetConfigImageSize_Params
SAME(pm_host_size, SIZE, host, pHostObject);
SAME(pm_host_size, SIZE, image_bytes, configImageSize);
#define IMAGE CUpti_Profiler_Host_GetConfigImage_Params
SAME(pm_host_image, IMAGE, host, pHostObject);
SAME(pm_host_image, IMAGE, image_bytes, configImageSize);
SAME(pm_host_image, IMAGE, image, pConfigImage);
#define PASSES CUpti_Profiler_Host_GetNumOfPasses_Params
SAME(pm_host_passes, PASSES, image_bytes, configImageSize);
SAME(pm_host_passes, PASSES, image, pConfigImage);
SAME(pm_host_passes, PASSES, passes, numOfPasses);
#define VALUES CUpti_Profiler_Host_EvaluateToGpuValues_Params
SAME(pm_host_values, VALUES, host, pHostObject);
SAME(pm_host_values, VALUES, data, pCounterDataImage);
SAME(pm_host_values, VALUES, data_bytes, counterDataImageSize);
SAME(pm_host_values, VALUES, index, rangeIndex);
SAME(pm_host_values, VALUES, names, ppMetricNames);
SAME(pm_host_values, VALUES, n, numMetrics);
SAME(pm_host_values, VALUES, values, pMetricValues);
#define AVAILABLE CUpti_PmSampling_GetCounterAvailability_Params
SAME(pm_availability, AVAILABLE, device, deviceIndex);
SAME(pm_availability, AVAILABLE, image_bytes, counterAvailabilityImageSize);
SAME(pm_availability, AVAILABLE, image, pCounterAvailabilityImage);
SAME(pm_enable, CUpti_PmSampling_Enable_Params, device, deviceIndex);
SAME(pm_enable, CUpti_PmSampling_Enable_Params, object, pPmSamplingObject);
SAME(pm_object, CUpti_PmSampling_Disable_Params, object, pPmSamplingObject);
SAME(pm_object, CUpti_PmSampling_Start_Params, object, pPmSamplingObject);
SAME(pm_object, CUpti_PmSampling_Stop_Params, object, pPmSamplingObject);
#define CONFIG CUpti_PmSampling_SetConfig_Params
SAME(pm_set_config, CONFIG, object, pPmSamplingObject);
SAME(pm_set_config, CONFIG, image_bytes, configSize);
SAME(pm_set_config, CONFIG, image, pConfig);
SAME(pm_set_config, CONFIG, buffer_bytes, hardwareBufferSize);
SAME(pm_set_config, CONFIG, interval, samplingInterval);
SAME(pm_set_config, CONFIG, trigger, triggerMode);
SAME(pm_set_config, CONFIG, append, hwBufferAppendMode);
#define DATA CUpti_PmSampling_GetCounterDataSize_Params
SAME(pm_data_size, DATA, object, pPmSamplingObject);
SAME(pm_data_size, DATA, names, pMetricNames);
SAME(pm_data_size, DATA, n, numMetrics);
SAME(pm_data_size, DATA, samples, maxSamples);
SAME(pm_data_size, DATA, data_bytes, counterDataSize);
#define CLEAR CUpti_PmSampling_CounterDataImage_Initialize_Params
SAME(pm_data_init, CLEAR, object, pPmSamplingObject);
SAME(pm_data_init, CLEAR, data_bytes, counterDataSize);
SAME(pm_data_init, CLEAR, data, pCounterData);
#define DECODE CUpti_PmSampling_DecodeData_Params
SAME(pm_decode, DECODE, object, pPmSamplingObject);
SAME(pm_decode, DECODE, data, pCounterDataImage);
SAME(pm_decode, DECODE, data_bytes, counterDataImageSize);
SAME(pm_decode, DECODE, stop_reason, decodeStopReason);
SAME(pm_decode, DECODE, overflow, overflow);
#define INFO CUpti_PmSampling_GetCounterDataInfo_Params
SAME(pm_data_info, INFO, data, pCounterDataImage);
SAME(pm_data_info, INFO, data_bytes, counterDataImageSize);
SAME(pm_data_info, INFO, total, numTotalSamples);
SAME(pm_data_info, INFO, populated, numPopulatedSamples);
SAME(pm_data_info, INFO, completed, numCompletedSamples);
#define SAMPLE CUpti_PmSampling_CounterData_GetSampleInfo_Params
SAME(pm_sample_info, SAMPLE, object, pPmSamplingObject);
SAME(pm_sample_info, SAMPLE, data, pCounterDataImage);
SAME(pm_sample_info, SAMPLE, data_bytes, counterDataImageSize);
SAME(pm_sample_info, SAMPLE, index, sampleIndex);
SAME(pm_sample_info, SAMPLE, start, startTimestamp);
SAME(pm_sample_info, SAMPLE, end, endTimestamp);

static void numbers_are_those_of_the_headers(void **state)
{
#define KEEP(mode) CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_##mode
#define TRIGGER(by) CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_##by##_INTERVAL
	(void)state;
	assert_int_equal(CUPTI_E_HARDWARE_BUSY, CUPTI_ERROR_HARDWARE_BUSY);
	assert_int_equal(CUPTI_E_OUT_OF_MEMORY, CUPTI_ERROR_OUT_OF_MEMORY);
	assert_int_equal(CUPTI_E_HARDWARE, CUPTI_ERROR_HARDWARE);
	assert_int_equal(CUPTI_E_VIRTUALIZED_DEVICE,
			 CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED);
	assert_int_equal(PM_PROFILER_SAMPLING, CUPTI_PROFILER_TYPE_PM_SAMPLING);
	assert_int_equal(PM_TRIGGER_SYSCLK, TRIGGER(SYSCLK));
	assert_int_equal(PM_TRIGGER_TIME, TRIGGER(TIME));
	assert_int_equal(PM_KEEP_OLDEST, KEEP(OLDEST));
	assert_int_equal(PM_KEEP_LATEST, KEEP(LATEST));
}

static void sizes_are_those_of_the_headers(void **state)
{
#define SIZE_OF(name) CUpti_PmSampling_##name##_Params_STRUCT_SIZE
	(void)state;
	assert_int_equal(PM_BYTES(pm_decode, overflow), SIZE_OF(DecodeData));
	assert_int_equal(PM_BYTES(pm_set_config, append), SIZE_OF(SetConfig));
	assert_int_equal(PM_BYTES(pm_sample_info, end),
			 SIZE_OF(CounterData_GetSampleInfo));
	assert_int_equal(PM_BYTES(pm_data_size, data_bytes),
			 SIZE_OF(GetCounterDataSize));
}
#endif

/* A size that ends in padding would be refused, or read too far. */
static void sizes_end_with_the_last_field(void **state)
{
	(void)state;
	assert_int_equal(PM_BYTES(pm_plain, priv), 16);
	assert_int_equal(PM_BYTES(pm_decode, overflow), 45);
	assert_int_equal(PM_BYTES(pm_set_config, append), 64);
	assert_int_equal(PM_BYTES(pm_sample_info, end), 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#if __has_include(<cupti_pmsampling.h>)
		cmocka_unit_test(numbers_are_those_of_the_headers),
		cmocka_unit_test(sizes_are_those_of_the_headers),
#endif
		cmocka_unit_test(sizes_end_with_the_last_field),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
