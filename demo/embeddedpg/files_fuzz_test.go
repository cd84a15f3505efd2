package embeddedpg

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The process id is that of the file's first line. Zero and less would be a group of processes to a signal.
func FuzzPostmasterPID(f *testing.F) {
	f.Add([]byte("4711\n/var/lib/cluster\n1763600000\n5432\n/run\n\n  5432001  98304\nready   \n"))
	f.Add([]byte("-1\n"))
	f.Add([]byte(""))
	file := filepath.Join(f.TempDir(), "postmaster.pid")
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		pid := postmaster(file)
		line, _, _ := strings.Cut(string(content), "\n")
		if pid < 0 || pid > 0 && strings.TrimLeft(strings.TrimSpace(line), "+0") != strconv.Itoa(pid) {
			t.Fatalf("%q is process %d", line, pid)
		}
	})
}

// What a program says of its version is read as a whole number and what stands behind it, or not at all.
func FuzzVersion(f *testing.F) {
	f.Add("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n")
	f.Add("postgres (PostgreSQL) 18beta1\n")
	f.Add("postgres (PostgreSQL) 99999999999999999999\n")
	f.Fuzz(func(t *testing.T, out string) {
		version, major, err := parseVersion(out)
		if err != nil {
			return
		}
		digits := version[:len(version)-len(strings.TrimLeft(version, "0123456789"))]
		if n, err := strconv.Atoi(digits); err != nil || n != major || !strings.Contains(out, ") "+version) ||
			strings.ContainsAny(version, " \n") {
			t.Fatalf("%q is version %q, major %d, %v", out, version, major, err)
		}
	})
}

// Of the server's log, an error shows the end, and not too much of it.
func FuzzLogTail(f *testing.F) {
	f.Add([]byte(strings.Repeat("LOG:  database system is ready\n", 30)), 1)
	f.Add([]byte("FATAL:  data directory has wrong ownership"), 1)
	f.Add([]byte("\xff\n\n"), 5000)
	file := filepath.Join(f.TempDir(), "server.log")
	f.Fuzz(func(t *testing.T, lines []byte, times int) {
		content := strings.Repeat(string(lines), 1+min(max(times, 0), (32<<10)/(len(lines)+1)))
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		tail := logTail(file)
		if len(tail) > 8<<10 || strings.Count(tail, "\n") > 19 || !strings.HasSuffix(strings.TrimSpace(content), tail) {
			t.Fatalf("%d bytes end in %q", len(content), tail)
		}
		if end := strings.TrimSpace(content[max(0, len(content)-8<<10):]); (tail == "") != (end == "") {
			t.Fatalf("the log ends in %.100q, and %q is shown", end, tail)
		}
	})
}
