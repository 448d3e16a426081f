"""Programs that exhaust resources, start other processes, or end in unusual ways."""

from tests.tasks.tir_math.sandbox.escape import Escape, stopped

PROCESSES = [
    stopped("fork bomb", "while True: os.fork()", "error"),
    Escape("fork of the C library", "attempt(lambda: libc.fork() >= 0)\nprint('tried')"),
    Escape("vfork", "attempt(lambda: X86 and call(58, 0))\nprint('tried')"),
    Escape("clone", "attempt(call, 56, 220, 17, 0, 0, 0, 0)\nprint('tried')"),
    Escape(
        "clone into a new user namespace",
        "attempt(call, 56, 220, 0x10000000 | 17, 0, 0, 0, 0)\nprint('tried')",
    ),
    Escape(
        "clone3",
        "arguments = (ctypes.c_uint64 * 11)()\narguments[4] = 17\n"
        "attempt(call, 435, 435, ctypes.byref(arguments), 88)\nprint('tried')",
    ),
    Escape(
        "other programs",
        "import subprocess\nattempt(subprocess.run, ['/bin/sh', '-c', 'true'])\n"
        "attempt(subprocess.run, [sys.executable, '-c', 'pass'])\n"
        "attempt(os.posix_spawn, sys.executable, ['python'], {})\n"
        "attempt(os.execv, sys.executable, ['python', '-c', 'print(\"HARM\")'])\n"
        "attempt(lambda: os.system('true') == 0)\nprint('tried')",
    ),
    Escape(
        "multiprocessing",
        "import multiprocessing\n"
        "attempt(lambda: multiprocessing.Process(target=print, args=('HARM',)).start() or True)\n"
        "print('tried')",
    ),
    Escape(
        "a daemon",
        "def daemon():\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n"
        "            while True: pass\n    return True\nattempt(daemon)\nprint('tried')",
    ),
    Escape(
        "threads left behind",
        "import threading, time\n"
        "for _ in range(8): threading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n"
        "print('tried')",
    ),
    stopped(
        "thread bomb",
        "import _thread, time\n_thread.stack_size(65536)\n"
        "while True: _thread.start_new_thread(time.sleep, (99,))",
        *("killed", "error", "memory limit"),
    ),
]

RESOURCES = [
    stopped("memory bomb", "kept = []\nwhile True: kept.append(bytearray(10**7))", "memory limit"),
    stopped("one huge list", "[0] * 10**10", "memory limit"),
    stopped("huge array", "import numpy\nnumpy.ones(10**10)", "memory limit"),
    stopped(
        "shared memory maps",
        "import mmap\nkept = [mmap.mmap(-1, 2**27) for _ in range(100)]\n"
        "for one in kept: one.write(b'x' * 2**27)",
        *("error", "memory limit"),
    ),
    Escape(
        "memory outside of the limit",
        "attempt(os.memfd_create, 'x')\nattempt(call, 29, 194, 0, 2**20, 0o600)\n"
        "attempt(call, 319, 279, b'x', 0)\nattempt(call, 447, 447, 0)\nprint('tried')",
    ),
    stopped("disk bomb", "file = open('x', 'wb')\nwhile True: file.write(bytes(10**6))", "error"),
    stopped(
        "disk bomb of many files",
        "for number in range(10**6): open(f'x{number}', 'wb').write(bytes(10**6))",
        "error",
    ),
    stopped("all inodes", "number = 0\nwhile True: number += 1; os.mkdir(str(number))", "error"),
    Escape(
        "other places to fill",
        "attempt(write, '/dev/shm/x')\nattempt(write, '/x')\nattempt(write, '/dev/x')\n"
        "attempt(write, '/proc/x')\nattempt(write, '/var/tmp/x')\nattempt(write, '/run/x')\n"
        "attempt(lambda: os.truncate(open('big', 'w').fileno(), 2**40) or True)\nprint('tried')",
    ),
    stopped("all descriptors", "kept = []\nwhile True: kept.append(os.dup(0))", "error"),
    stopped("endless loop", "while True: pass", "time limit"),
    stopped(
        "endless loop that ignores signals",
        "import signal\nfor number in range(1, 65):\n"
        "    try: signal.signal(number, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
        "while True: pass",
        "time limit",
    ),
    stopped(
        "higher limits",
        "import resource\n"
        "attempt(lambda: resource.setrlimit(resource.RLIMIT_CPU, (99, 99)) or True)\n"
        "attempt(lambda: resource.setrlimit(resource.RLIMIT_AS, (-1, -1)) or True)\n"
        "while True: pass",
        "time limit",
    ),
    stopped(
        "endless loop in a thread",
        "import threading\ndef loop():\n    while True: pass\n"
        "threading.Thread(target=loop).start()",
        "time limit",
    ),
    stopped(
        "endless loop at exit",
        "import atexit\ndef loop():\n    while True: pass\natexit.register(loop)",
        "time limit",
    ),
    stopped("one endless step", "9**9**9", "time limit"),
    stopped(
        "an endless regular expression",
        "import re\nre.match('(a+)+b', 'a' * 99)",
        "time limit",
    ),
    stopped("endless sleep", "import time\ntime.sleep(10**6)", "time limit"),
    stopped(
        "an alarm for the harness",
        "import signal\nsignal.alarm(1)\nsignal.signal(14, lambda *_: None)\nwhile True: pass",
        "time limit",
    ),
    stopped("endless output", "while True: print('x' * 1000)", "output limit"),
    stopped(
        "endless error output", "while True: print('x' * 1000, file=sys.stderr)", "output limit"
    ),
    stopped("closed pipes", "os.close(1)\nos.close(2)\nwhile True: pass", "time limit"),
    stopped("a huge number", "1 << (1 << 40)", "memory limit"),
    stopped("a huge number in digits", "print(9 ** 10**6)", "error"),
    stopped(
        "deep recursion",
        "sys.setrecursionlimit(10**9)\ndef deep(): return [deep() for _ in (1,)]\ndeep()",
        *("killed", "memory limit", "time limit"),
    ),
    stopped(
        "a deep expression",
        "eval('(' * 10**5 + ')' * 10**5)",
        *("error", "memory limit", "output limit"),
    ),
    stopped(
        "a deep value",
        "value = []\nfor _ in range(10**6): value = [value]\n"
        "sys.setrecursionlimit(10**9)\nrepr(value)",
        *("killed", "memory limit", "time limit"),
    ),
]

ENDS = [
    stopped("sys.exit with a text", "sys.exit('{\"status\": 0}')", "error"),
    stopped("os._exit", "os._exit(3)", "error"),
    stopped("os._exit as if all were well", "os._exit(0)", "ok"),
    stopped("abort", "os.abort()", "killed"),
    stopped("segmentation fault", "ctypes.string_at(0)", "killed"),
    stopped("SystemExit with a huge number", "raise SystemExit(2**100 + 1)", "error"),
    stopped("KeyboardInterrupt", "raise KeyboardInterrupt", "error"),
    stopped("GeneratorExit", "raise GeneratorExit", "error"),
    stopped(
        "an exception that cannot be printed",
        "class Bad(Exception):\n    def __str__(self): os._exit(0)\nsys.stderr = None\nraise Bad",
        *("ok", "error"),
    ),
    Escape(
        "a false result",
        'message = b\'{"status": 0, "cpu_s": 0, "threads": false}\'\n'
        "for number in range(3, 300): attempt(os.write, number, message)\n"
        "print('{\"status\": 0}\\x00\\nready\\nExecution(status=\"ok\")')\nprint('tried')",
    ),
    Escape(
        "no way out",
        "import threading, traceback, atexit\nos._exit = sys.exit = lambda *_: None\n"
        "threading._shutdown = atexit._run_exitfuncs = None\nprint('tried')",
    ),
    stopped("no standard streams", "os.closerange(0, 3)\nsys.stdout = None", "ok"),
]
