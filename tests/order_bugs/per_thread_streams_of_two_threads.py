"""Two threads work on their own default streams; the second takes the data before it is written."""

import sys
import threading

import portamem.host as pm

FIXED = "fixed" in sys.argv
NBYTES = 64 << 10

device = pm.Device(0)
memory = pm.DeviceMemoryResource(device)
home = pm.Stream(device)
data, result = memory.allocate(NBYTES, stream=home), memory.allocate(NBYTES, stream=home)


def write() -> None:
    data.fill(1, stream=device.per_thread_stream)  # first
    if FIXED:
        device.per_thread_stream.synchronize()


def read() -> None:
    result.copy_from(data, stream=device.per_thread_stream)  # second


with pm.check():
    for part in (write, read):
        thread = threading.Thread(target=part)
        thread.start()
        thread.join()
