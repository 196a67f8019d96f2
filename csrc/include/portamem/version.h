/* SPDX-License-Identifier: MIT
 * portamem/version.h: the version of these headers, the one place where it is written. */
#ifndef PORTAMEM_VERSION_H
#define PORTAMEM_VERSION_H

#define PORTAMEM_VERSION_MAJOR 0
#define PORTAMEM_VERSION_MINOR 2
#define PORTAMEM_VERSION_PATCH 0

#endif
