/* process.h: open a driver's library and take functions out of it. */
#ifndef GPUBUILD_RT_LIBRARY_H
#define GPUBUILD_RT_LIBRARY_H

/* The first of the NULL-closed names that can be opened, or NULL with the loader's reason (free() it). */
void *gb_library_open(const char *const *names, char **why);

/* Store the address of `symbol` at `function`, which points at a function pointer. NULL where missing. */
void gb_library_symbol(void *library, const char *symbol, void *function);

/* Keep the library that this code is part of loaded until the process ends: for what starts threads. Takes
 * the loader's lock. */
void gb_library_stay(void);

#endif
