"""Programs that try to reach outside: files, the network, system privileges."""

from tests.tasks.tir_math.sandbox.escape import Escape, stopped

READING = [
    Escape(
        "files of the user",
        "attempt(lambda: open('@OUTSIDE@/canary.txt').read())\nattempt(os.listdir, '@OUTSIDE@')\n"
        "attempt(lambda: open('/etc/shadow').read())\nattempt(lambda: open('/etc/passwd').read())\n"
        "attempt(lambda: open(os.path.expanduser('~/.bash_history')).read())\n"
        "attempt(os.listdir, '/home')\nattempt(lambda: os.listdir(os.path.expanduser('~')))\n"
        "print('tried')",
    ),
    Escape(
        "the repository",
        "attempt(os.listdir, '@REPOSITORY@')\n"
        "attempt(lambda: open('@REPOSITORY@/pyproject.toml').read())\nprint('tried')",
    ),
    Escape(
        "names that lead outside",
        "os.symlink('@OUTSIDE@', 'there')\nattempt(lambda: open('there/canary.txt').read())\n"
        "attempt(lambda: open('../../../../../@OUTSIDE@/canary.txt').read())\n"
        "attempt(lambda: open('/proc/1/root@OUTSIDE@/canary.txt').read())\n"
        "attempt(lambda: open(os.path.join('/proc/self/root', 'proc/1/cwd')).read())\n"
        "print('tried')",
    ),
    Escape(
        "environment variables",
        "print(dict(os.environ))\nattempt(lambda: open('/proc/1/environ').read())\n"
        "attempt(lambda: open('/proc/self/environ').read())\n"
        "environ = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, 'environ')\nnumber = 0\n"
        "while environ[number]:\n    print(environ[number])\n    number += 1\nprint('tried')",
    ),
    Escape(
        "other processes in /proc",
        "attempt(lambda: [name for name in os.listdir('/proc')])\n"
        "for number in (1, 2, 3, os.getppid(), @PID@):\n"
        "    for name in ('mem', 'maps', 'cmdline', 'fd/3', 'root/etc/passwd', 'cwd'):\n"
        "        attempt(lambda: open(f'/proc/{number}/{name}', 'rb').read())\nprint('tried')",
    ),
    Escape(
        "memory of other processes",
        "data = ctypes.create_string_buffer(64)\n"
        "vector = (ctypes.c_size_t * 2)(ctypes.addressof(data), 64)\n"
        "for number in (1, 2, 3, @PID@):\n"
        "    attempt(call, 310, 270, number, vector, 1, vector, 1, 0)\n"
        "    attempt(call, 311, 271, number, vector, 1, vector, 1, 0)\n"
        "    attempt(call, 101, 117, 16, number, 0, 0)\nprint('tried')",
    ),
    Escape("tracing itself", "attempt(call, 101, 117, 0, 0, 0, 0)\nprint('tried')"),
    Escape(
        "descriptors of other processes",
        "attempt(call, 434, 434, @PID@, 0)\nattempt(call, 434, 434, 1, 0)\n"
        "attempt(call, 438, 438, 0, 3, 0)\nattempt(call, 312, 272, 1, @PID@, 0, 0, 0)\n"
        "print('tried')",
    ),
    Escape(
        "stray descriptors",
        "def usable(number):\n    os.fstat(number)\n    return number\n"
        "for number in (*range(3, 1000), @DESCRIPTOR@): attempt(usable, number)\n"
        "attempt(os.listdir, '/proc/self/fd')\nprint('tried')",
    ),
    Escape(
        "frames and objects of the process",
        "import gc, socket\ndef use(one):\n    try:\n"
        "        if isinstance(one, socket.socket): one.send(b'{\"status\": 0}')\n"
        "        elif type(one) is int and one > 2: os.write(one, b'x')\n"
        "        else: return\n"
        "    except (OSError, OverflowError): return\n    print('HARM:', one)\n"
        "frame = sys._getframe()\nwhile frame:\n"
        "    for value in [*frame.f_locals.values(), *frame.f_globals.values()]:\n"
        "        for one in (value, *getattr(value, '__dict__', {}).values()): use(one)\n"
        "    frame = frame.f_back\n"
        "for one in gc.get_objects(): use(one)\nprint('tried')",
    ),
    Escape(
        "the kernel's secrets",
        "attempt(lambda: open('/proc/kcore', 'rb').read(10))\nattempt(call, 103, 116, 3, 0, 0)\n"
        "attempt(lambda: open('/dev/mem', 'rb').read(10))\n"
        "attempt(lambda: open('/dev/kmsg', 'rb').read(10))\nattempt(os.listdir, '/sys')\n"
        "attempt(os.listdir, '/boot')\nprint('tried')",
    ),
]

_SOCKETS = "import socket\ndef connect(family, kind, address):\n" + (
    "    with socket.socket(family, kind) as one:\n        one.settimeout(2)\n"
    "        one.connect(address)\n        one.send(b'harm')\n        return True\n"
)

NETWORK = [
    Escape(
        "TCP",
        _SOCKETS + "attempt(connect, socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', @TCP@))\n"
        "attempt(connect, socket.AF_INET6, socket.SOCK_STREAM, ('::1', @TCP@))\nprint('tried')",
    ),
    Escape(
        "UDP",
        _SOCKETS + "attempt(connect, socket.AF_INET, socket.SOCK_DGRAM, ('127.0.0.1', @UDP@))\n"
        "print('tried')",
    ),
    Escape(
        "names of hosts",
        "import socket, urllib.request\nattempt(socket.getaddrinfo, 'example.com', 80)\n"
        "attempt(socket.gethostbyname, 'example.com')\n"
        "attempt(urllib.request.urlopen, 'http://127.0.0.1:@TCP@/', None, 2)\nprint('tried')",
    ),
    Escape(
        "unix sockets",
        _SOCKETS + "attempt(connect, socket.AF_UNIX, socket.SOCK_STREAM, '@UNIX@')\n"
        "attempt(connect, socket.AF_UNIX, socket.SOCK_STREAM, '\\0@ABSTRACT@')\nprint('tried')",
    ),
    Escape(
        "other kinds of sockets",
        "import socket\nfor family, kind in ((16, 3), (17, 3), (2, 3), (40, 1), (38, 5)):\n"
        "    attempt(socket.socket, family, kind, 0)\nattempt(socket.socketpair)\nprint('tried')",
    ),
    Escape(
        "a server",
        "import socket\nattempt(lambda: socket.create_server(('127.0.0.1', 0)))\nprint('tried')",
    ),
    Escape(
        "sockets by way of io_uring",
        "memory = ctypes.create_string_buffer(1024)\nattempt(call, 425, 425, 8, memory)\n"
        "attempt(call, 426, 426, 3, 1, 0, 0, 0, 0)\nattempt(call, 427, 427, 3, 0, 0, 0)\n"
        "print('tried')",
    ),
]

RIGHTS = [
    Escape(
        "mounts",
        "attempt(lambda: libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None) == 0)\n"
        "attempt(lambda: libc.mount(b'proc', b'/proc', b'proc', 0, None) == 0)\n"
        "attempt(lambda: libc.mount(None, b'/', None, 32 | 4096, None) == 0)\n"
        "attempt(lambda: libc.umount2(b'/proc', 2) == 0)\n"
        "attempt(lambda: libc.umount2(b'/tmp', 2) == 0)\n"
        "attempt(call, 428, 428, -100, b'/', 1)\nattempt(call, 430, 430, b'tmpfs', 0)\n"
        "attempt(call, 442, 442, -100, b'/', 0, 0, 0)\nprint('tried')",
    ),
    Escape(
        "another root",
        "os.mkdir('new')\nattempt(lambda: os.chroot('new') or True)\n"
        "attempt(call, 155, 41, b'new', b'new')\n"
        "handle = os.open('/', os.O_RDONLY)\nos.chdir('/tmp')\n"
        "for _ in range(99): os.chdir('..')\n"
        "attempt(lambda: open('.@OUTSIDE@/canary.txt').read())\n"
        "attempt(call, 304, 265, handle, b'x', 0)\nprint('tried')",
    ),
    Escape(
        "namespaces",
        "for flag in (0x10000000, 0x20000, 0x40000000, 0x20000000, 0x8000000, 0x4000000, 0x80):\n"
        "    attempt(lambda: libc.unshare(flag) == 0)\n"
        "attempt(lambda: libc.setns(os.open('/proc/1/ns/mnt', 0), 0) == 0)\nprint('tried')",
    ),
    Escape(
        "devices",
        "attempt(lambda: os.mknod('disk', 0o60600, os.makedev(8, 0)) or True)\n"
        "attempt(lambda: os.mknod('null', 0o20600, os.makedev(1, 3)) or True)\n"
        "attempt(lambda: os.mkfifo('fifo') or 1)\nattempt(os.open, '/dev/sda', os.O_RDWR)\n"
        "attempt(os.open, '/dev/vda', os.O_RDWR)\nprint('tried')",
    ),
    Escape(
        "capabilities and users",
        "attempt(lambda: os.setuid(0) or True)\nattempt(lambda: os.setresuid(0, 0, 0) or True)\n"
        "attempt(lambda: os.setgroups([0]) or True)\n"
        "header = (ctypes.c_uint32 * 2)(0x20080522, 0)\ndata = (ctypes.c_uint32 * 6)()\n"
        "assert libc.capget(header, data) == 0\nattempt(lambda: any(data))\n"
        "everything = (ctypes.c_uint32 * 6)(*[2**32 - 1] * 6)\n"
        "attempt(lambda: libc.capset(header, everything) == 0)\nprint('tried')",
    ),
    Escape(
        "no filter any more",
        "attempt(lambda: libc.prctl(22, 0, 0, 0, 0) == 0)\n"
        "attempt(lambda: libc.prctl(38, 0, 0, 0, 0) == 0)\nattempt(call, 317, 277, 0, 0, 0)\n"
        "attempt(lambda: libc.prctl(1, 0, 0, 0, 0) == 0)\nattempt(call, 135, 92, 0x0040000)\n"
        "print('tried')",
    ),
    Escape(
        "keys",
        "attempt(call, 248, 217, b'user', b'name', b'secret', 6, -4)\n"
        "attempt(call, 249, 218, b'user', b'name', 0, -4)\nattempt(call, 250, 219, 0, -3, 1)\n"
        "print('tried')",
    ),
    Escape(
        "the kernel's tools",
        "memory = ctypes.create_string_buffer(256)\n"
        "for x86, arm in ((321, 280), (298, 241), (323, 282), (246, 104), (320, 294), (175, 105),\n"
        "    (313, 273), (169, 142), (167, 224), (170, 161), (164, 170), (163, 89), (172, 0),\n"
        "    (179, 60), (300, 262), (303, 264), (425, 425), (444, 444), (446, 446), (450, 450)):\n"
        "    attempt(call, x86, arm or 999, memory, memory, memory, memory)\nprint('tried')",
    ),
    Escape(
        "calls of the future and of x32",
        "for number in (*range(451, 600), 0x40000000 | 41, 0x40000000 | 57, 0x40000208):\n"
        "    attempt(call, number, number, 0, 0, 0, 0)\nprint('tried')",
    ),
    stopped(
        "calls of 32-bit programs",
        "import mmap\n"
        "if not X86: os.kill(os.getpid(), 0); ctypes.string_at(0)\n"
        "code = mmap.mmap(-1, 4096, prot=7)\n"
        "code.write(bytes.fromhex('b802000000cd80c3'))  # mov eax, fork; int 0x80; ret\n"
        "address = ctypes.addressof(ctypes.c_char.from_buffer(code))\n"
        "number = ctypes.CFUNCTYPE(ctypes.c_int)(address)()\nprint('HARM' if number > 0 else '')",
        "killed",
    ),
    Escape(
        "signals",
        "import signal\nattempt(lambda: os.kill(-1, signal.SIGKILL) or True)\n"
        "for number in (os.getppid(), @PID@, *range(2, 1000)):\n"
        "    if number: attempt(lambda: os.kill(number, signal.SIGKILL) or True)\n"
        "os.kill(0, signal.SIGTERM)\nos.kill(1, signal.SIGSTOP)\nprint('tried')",
    ),
]

WRITING = [
    Escape(
        "files of the user",
        "attempt(write, '@OUTSIDE@/new.txt')\nattempt(write, '@OUTSIDE@/canary.txt')\n"
        "attempt(os.remove, '@OUTSIDE@/canary.txt')\nattempt(os.rmdir, '@OUTSIDE@')\n"
        "attempt(write, '@REPOSITORY@/harm.txt')\nattempt(os.makedirs, '@OUTSIDE@/new')\n"
        "print('tried')",
    ),
    Escape(
        "the interpreter and the libraries",
        "import shutil, numpy, sympy\n"
        "for path in (sys.executable, os.__file__, numpy.__file__, sympy.__file__, '/zygote.py'):\n"
        "    attempt(write, path)\n    attempt(lambda: os.remove(path) or True)\n"
        "    attempt(lambda: os.rename(path, '/tmp/x') or True)\n"
        "    attempt(lambda: os.chmod(path, 0o777) or True)\n"
        "    attempt(lambda: os.utime(path, (0, 0)) or True)\n"
        "    attempt(lambda: os.truncate(path, 0) or True)\n"
        "    shutil.rmtree(os.path.dirname(path), ignore_errors=True)\n"
        "print('tried')",
    ),
    Escape(
        "modes and times of the machine's devices",
        # Setting their current modes: it should be impossible, and harmless if it is not.
        "for path in ('/dev/null', '/dev/zero', '/dev/urandom'):\n"
        "    attempt(lambda: os.chmod(path, 0o666) or True)\n"
        "    attempt(lambda: os.utime(path) or True)\n"
        "    with open(path, 'r+b', 0) as device:\n"
        "        attempt(lambda: os.fchmod(device.fileno(), 0o666) or True)\n"
        "open('/dev/null', 'w').write('x')\n"
        "assert len(open('/dev/urandom', 'rb').read(4)) == 4\n"
        "print('tried')",
    ),
    Escape(
        "links",
        "attempt(lambda: os.link(sys.executable, '/tmp/hard') or True)\n"
        "attempt(lambda: os.link('@OUTSIDE@/canary.txt', '/tmp/canary') or True)\n"
        "os.symlink('@OUTSIDE@/new.txt', 'soft')\nattempt(write, 'soft')\n"
        "os.symlink(sys.executable, 'python')\nattempt(write, 'python')\nprint('tried')",
    ),
    Escape(
        "races with links",
        "import threading\nopen('mine', 'w').close()\ndef swap():\n    for number in range(2000):\n"
        "        os.symlink(('@OUTSIDE@/new.txt', 'mine')[number % 2], 'next')\n"
        "        os.replace('next', 'target')\n"
        "thread = threading.Thread(target=swap)\nthread.start()\nwhile thread.is_alive():\n"
        "    try: write('target')\n    except OSError: pass\nprint('tried')",
    ),
    Escape(
        "settings of the kernel",
        "for path in ('/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger',\n"
        "    '/proc/self/oom_score_adj', '/proc/self/uid_map', '/sys/power/state',\n"
        "    '/sys/fs/cgroup/cgroup.procs', '/proc/sys/kernel/hostname'):\n"
        "    attempt(write, path, '1')\nattempt(call, 170, 161, b'harm', 4)\nprint('tried')",
    ),
    Escape(
        "the harness",
        "def load():\n    import tasks.tir_math\n    return tasks\n"
        "attempt(load)\nsys.path.insert(0, '@REPOSITORY@')\nattempt(load)\n"
        "for name in list(sys.modules):\n"
        "    if name.split('.')[0] in ('tasks', 'benchmark', 'pytest'): print('HARM:', name)\n"
        "attempt(write, '@REPOSITORY@/tasks/tir_math/__init__.py')\nprint('tried')",
    ),
    Escape(
        "programs in files",
        "write('x.py', '#!/usr/bin/python3\\nprint(\"HARM\")')\n"
        "attempt(lambda: os.chmod('x.py', 0o4755) or True)\n"
        "attempt(os.execv, './x.py', ['x'])\n"
        "attempt(lambda: ctypes.CDLL('/tmp/x.py'))\nprint('tried')",
    ),
]
