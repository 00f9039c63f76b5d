#!/usr/bin/env python3
"""The job that is waited for: prints a line at a time, then a summary, notes when it ended, and fails.

Usage: job.py SECONDS LINES FILE    (FILE gets the time of its end, in seconds since 1970)
"""
import os
import sys
import time


def main():
    seconds, lines, path = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    began = time.monotonic()
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    for n in range(lines):
        time.sleep(max(0.0, began + seconds * n / lines - time.monotonic()))
        print(f"test orders::case_{n:04} in tests/it/orders.rs ... ok", flush=True)
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    print(f"test result: FAILED. {lines} passed; 1 failed", flush=True)
    os.write(file, repr(time.time()).encode())
    # Without what an interpreter does at its end.
    os._exit(1)


main()
