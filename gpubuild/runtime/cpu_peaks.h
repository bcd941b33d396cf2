/* cpu_peaks.h: what this processor can do at most, for rooflines. */
#ifndef GPUBUILD_CPU_PEAKS_H
#define GPUBUILD_CPU_PEAKS_H

#include "gpubuild_rt.h"

struct gb_cpu_peaks {
    unsigned threads;
    double bytes_per_second; /* of memory, loads and stores that a sum of two arrays makes; 0: not known */
    double flops_per_second; /* of f32, with the widest vectors and fused multiply-add where there is one; 0: not known */
};

/* Measured now, on all threads that launches may use: takes about a tenth of a second and 96 MiB. */
struct gb_cpu_peaks gb_cpu_measure_peaks(void);

#endif
