# Tries: to leave what cannot be removed: odd names, links in circles and to directories, hard links, closed directories.
# Scripts: wrong_answer
# Calls: wrong_answer
# Assertions: wrong_answer
import os


def answer(number):
    os.chdir(b"/tmp")
    for name in (b"\xff\xfe", b"a\nb", b"-rf", b" ", b"\\", b"x" * 255, b"...", b"*", b"\x01\x1b[2J"):
        os.mkdir(name)
        open(name[:254] + b"2", "w").close()
        open(name + b"/file", "w").close()
    os.symlink("/", "root")
    os.symlink("/usr/lib", "libraries")
    os.symlink("circle", "circle")
    os.symlink(".", "here")
    os.symlink("..", "above")
    open("one", "w").close()
    for copy in range(100):
        os.link("one", f"copy{copy}")
    os.mkdir("closed")
    os.mkdir("closed/inside")
    open("closed/inside/file", "w").close()
    os.symlink("/tmp", "closed/inside/again")
    os.chmod("closed/inside", 0)
    os.chmod("closed", 0o111)
    os.utime("one", (1 << 33, 1 << 33))
    return "left"
