"""Two streams fill the two halves of a matrix's columns; one column belongs to both."""

import sys

import portamem.host as pm

FIXED = "fixed" in sys.argv
NBYTES = 64 << 10

device = pm.Device(0)
left, right = pm.Stream(device), pm.Stream(device)
memory = pm.DeviceMemoryResource(device)
rows, width = 64, 256
matrix = memory.allocate(rows * 2 * width)
source = memory.allocate(rows * (width + 1))
start = width if FIXED else width - 1

with pm.check():
    pm.copy_2d(matrix, source, width=width, height=rows, dst_pitch=2 * width, src_pitch=width, stream=left)  # first
    tail = matrix[start:]
    pm.copy_2d(tail, source, width=width, height=rows, dst_pitch=2 * width, src_pitch=width, stream=right)  # second
